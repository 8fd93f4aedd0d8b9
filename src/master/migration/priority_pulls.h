#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/spin_lock.h"
#include "base/status.h"
#include "runtime/executor.h"

namespace ramcore::master {

/// Who waits for which key hashes of tablets that are Arriving. A call whose keys have not arrived is a suspended
/// coroutine here, and begins again from its first check when they have. It holds no lock and no pin.
///
/// Bounded: calls wait for no more than kWaitingMax hashes altogether, each for kWaitNs and one request to the source
/// more at the longest; other calls get RetryLater.
///
/// Any executor of the master; the lock is a leaf.
class PriorityPulls {
 public:
  static constexpr size_t kWaitingMax = 16 * 1024;
  static constexpr int64_t kWaitNs = 500 * runtime::kNanosPerMilli;

  /// Is told that hashes of a tablet are wanted that nobody wanted before. On the executor of the call.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void onWanted(TabletId tablet) = 0;
  };
  explicit PriorityPulls(Listener& listener) : listener_(listener) {}
  PriorityPulls(const PriorityPulls&) = delete;
  PriorityPulls& operator=(const PriorityPulls&) = delete;
  /// Nobody waits (checked).
  ~PriorityPulls();

  /// A key hash of a tablet that is Arriving.
  struct Wanted {
    TabletId tablet;
    KeyHash hash = 0;
    bool is_piece = false;  ///< a piece is wanted that begins at this hash
    auto operator<=>(const Wanted&) const = default;
  };
  /// Suspends the coroutine until hashes have arrived. `const Status status = co_await pulls.wait(...)` on `executor`.
  /// Gives Ok: begin again. RetryLater: not all have arrived in time, nothing arrives for a tablet now, or too much is
  /// waited for. Corrupt: a key of such a hash is lost.
  class Wait : private runtime::Job {
   public:
    Wait(PriorityPulls& pulls, runtime::Executor& executor, Wanted one)
        : Wait(pulls, executor, std::span<const Wanted>()) {
      one_ = one;
      wanted_ = std::span(&one_, 1);
    }
    Wait(PriorityPulls& pulls, runtime::Executor& executor, std::span<const Wanted> wanted)
        : Job([](runtime::Job& job) { static_cast<Wait&>(job).handle_.resume(); }),
          pulls_(pulls),
          executor_(executor),
          wanted_(wanted) {}
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> handle) {
      handle_ = handle;
      return pulls_.add(*this);
    }
    Status await_resume() const noexcept { return outcome_; }

   protected:
    KeyHash pieceLast() const { return piece_last_; }

   private:
    friend class PriorityPulls;
    PriorityPulls& pulls_;
    runtime::Executor& executor_;
    Wanted one_;
    std::span<const Wanted> wanted_;
    size_t left_ = 0;  // guarded by the lock of PriorityPulls
    KeyHash piece_last_ = 0;
    int64_t give_up_ns_ = 0;
    Status outcome_ = Status::RetryLater;
    std::coroutine_handle<> handle_;
  };
  Wait wait(runtime::Executor& executor, TabletId tablet, KeyHash hash) {
    return {*this, executor, Wanted{tablet, hash}};
  }
  /// For all of these together. @param wanted  not empty; borrowed until the coroutine goes on
  Wait waitForAll(runtime::Executor& executor, std::span<const Wanted> wanted) { return {*this, executor, wanted}; }

  /// A part of a range that has arrived just now: of its hashes, every key that exists is in the index.
  struct Piece {
    Status status = Status::Ok;  ///< as of Wait
    KeyHash last = 0;            ///< with Ok: its last hash
  };
  class PieceWait : public Wait {
   public:
    PieceWait(PriorityPulls& pulls, runtime::Executor& executor, Wanted first) : Wait(pulls, executor, first) {}
    Piece await_resume() const noexcept { return {Wait::await_resume(), pieceLast()}; }
  };
  /// For some hashes from `first` on, in their order: what a scan needs.
  PieceWait waitForPiece(runtime::Executor& executor, TabletId tablet, KeyHash first) {
    return {*this, executor, Wanted{tablet, first, true}};
  }

  // For the pull of a tablet.

  /// From now on calls may wait for the tablet.
  void open(TabletId tablet) RC_EXCLUDES(lock_);
  /// Nobody may wait for it any more; those that do go on with `status`.
  void close(TabletId tablet, Status status) RC_EXCLUDES(lock_);
  /// What is waited for.
  struct Batch {
    std::vector<KeyHash> hashes;   ///< each once, ascending: those that have been waited for longest
    std::optional<KeyHash> piece;  ///< where a piece begins: the one that has been waited for longest
    bool isEmpty() const { return hashes.empty() && !piece; }
  };
  /// Gives up what has been waited for too long. An empty batch: nobody waits, and the listener will be told of the
  /// next call that does.
  Batch takeWanted(TabletId tablet, size_t count_max, int64_t now_ns) RC_EXCLUDES(lock_);
  /// The calls that wait for these hashes (ascending) go on with `status`.
  void release(TabletId tablet, const std::vector<KeyHash>& hashes, Status status) RC_EXCLUDES(lock_);
  /// The calls that wait for the piece that begins there go on.
  void releasePiece(TabletId tablet, KeyHash first, const Piece& piece) RC_EXCLUDES(lock_);

  struct Stats {
    std::atomic<uint64_t> waits{0};    ///< calls that have waited
    std::atomic<uint64_t> refused{0};  ///< those that were refused in the end, and those for which there was no room
    std::atomic<uint64_t> waiting{0};  ///< calls that wait now
  };
  const Stats& stats() const { return stats_; }

 private:
  struct Entry {
    Wait* wait;
    KeyHash hash;
    bool is_piece;
  };
  struct Tablet {
    std::deque<Entry> waiting;  // oldest first
    bool is_told = false;       // the listener was told, and takeWanted() has not returned nothing since
  };
  bool add(Wait& wait) RC_EXCLUDES(lock_);
  void finish(Entry entry, Status status, std::vector<Wait*>& through) RC_REQUIRES(lock_);
  void resume(const std::vector<Wait*>& waits);

  Listener& listener_;
  SpinLock lock_;
  std::map<TabletId, Tablet> tablets_ RC_GUARDED_BY(lock_);
  size_t waiting_ RC_GUARDED_BY(lock_) = 0;  // entries
  Stats stats_;
};

}  // namespace ramcore::master
