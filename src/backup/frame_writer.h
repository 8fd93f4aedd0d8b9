#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "backup/frame_file.h"
#include "backup/write_gauge.h"
#include "runtime/executor.h"

namespace ramcore::backup {

/// Which thread writes to the frame file.
enum class WriteThread : uint8_t {
  Auto,      ///< the dispatch thread while the disk is quick (WriteGauge), the disk's own thread otherwise
  Dispatch,  ///< always the dispatch thread, also when the disk makes it wait
  Disk,      ///< always the disk's own
};

/// What is to be written into one storage frame.
struct FrameWrite {
  enum class Kind : uint8_t {
    Replica,     ///< data, then the certificate, each if there is one
    ClearSlot,   ///< zeros in `slot`
    ClearFrame,  ///< zeros in all slots
  };
  Kind kind = Kind::Replica;
  bool certifies = false;
  bool is_first_certificate = false;
  uint32_t frame = 0;
  uint32_t generation = 0;  ///< the storage frame's use; a write that failed also fails later ones of the same use
  uint32_t slot = 0;
  uint32_t offset_bytes = 0;
  uint32_t data_bytes = 0;                ///< bytes of the pieces
  std::span<const ByteSpan> pieces = {};  ///< borrowed, with what they point to, until the write is over
  log::CertificateBytes certificate{};
};

/// What the writer's owner gets back with the outcome of a queued write: the state of the storage frame before that
/// write.
struct FrameMark {
  uint64_t first_stamp = 0;   ///< the first stamp of the write
  uint64_t stamp = 0;         ///< the last stamp of the write
  uint64_t stamp_before = 0;  ///< stamp of what is left if the write fails
  uint32_t length_bytes = 0;
  uint8_t open_slots = 0;
  bool certified = false;
  log::Certificate certificate = {};
};

/// Carries out writes to the frame file, in the order in which they are given: on the thread that gives them, or on one
/// that may wait for the disk.
///
/// There is one order for the whole file. So the writes of a storage frame, its clearing when it is freed and the
/// writes of its next use come in order, and a flush that is asked for when a write is over covers all writes before
/// it.
///
/// When a queued write fails, the writes that were queued behind it for the same use of the same storage frame fail as
/// well: they would certify bytes that are not there, in the slots of certificates that are good.
///
/// Thread: the owner's executor, except for what runs on `disk`.
class FrameWriter {
 public:
  /// Bound on the bytes that wait at the same time; they stand in requests that have arrived and are not answered. A
  /// master has one write of at most 256 KiB (or one object) in flight for each open replica. So this bound is reached
  /// only if a disk has stood still for long, or by a sender that keeps to no rules: further writes are told to come
  /// back later.
  static constexpr uint64_t kQueuedBytesMax = 64u << 20;
  /// What a write counts in addition to its data.
  static constexpr uint64_t kWriteBytes = 512;

  class Owner {
   public:
    /// A queued write is over. Called in the order of queueing, never from inside a call to the writer.
    virtual void onWritten(const FrameWrite& write, const FrameMark& mark, Status status) = 0;

   protected:
    ~Owner() = default;
  };

  /// @param executor  the owner's
  /// @param disk      the thread that may wait for the disk; outlives the writer, as all do
  FrameWriter(FrameFile& file, Owner& owner, runtime::Executor& executor, runtime::Executor& disk, WriteThread thread);
  FrameWriter(const FrameWriter&) = delete;
  FrameWriter& operator=(const FrameWriter&) = delete;
  /// isIdle() is true (checked).
  ~FrameWriter();

  /// Whether the next write is to be done here and now, with writeNow(). Otherwise it goes to queue().
  bool writesNow();
  /// Called right after writesNow().
  [[nodiscard]] Status writeNow(const FrameWrite& write);
  /// Whether this much more data may be queued.
  bool hasRoom(uint64_t data_bytes) const { return queued_bytes_ + data_bytes + kWriteBytes <= kQueuedBytesMax; }
  /// Bytes and pieces are borrowed until Owner::onWritten.
  void queue(const FrameWrite& write, const FrameMark& mark);
  /// True if nothing is queued.
  bool isIdle() const { return queued_.empty(); }

  /// Bytes that wait, and how many writes were handed over to the disk's thread. Any thread.
  uint64_t queuedBytes() const { return shown_bytes_.load(std::memory_order_relaxed); }
  uint64_t handedOver() const { return handed_over_.load(std::memory_order_relaxed); }
  /// The longest time that one write has taken. Any thread.
  int64_t longestNs() const { return longest_ns_.load(std::memory_order_relaxed); }

 private:
  struct Queued : runtime::Job {
    Queued(FrameWriter& writer, const FrameWrite& write, const FrameMark& mark);
    FrameWriter& writer;
    FrameWrite write;
    FrameMark mark;
    std::vector<ByteSpan> pieces;
    Status status = Status::Ok;
    int64_t began_ns = 0;
    int64_t took_ns = 0;
    bool has_waited = false;
    bool is_over = false;
  };
  struct Step : runtime::Job {
    explicit Step(FrameWriter& writer)
        : Job([](runtime::Job& job) { static_cast<Step&>(job).writer.step(); }), writer(writer) {}
    FrameWriter& writer;
  };

  Status perform(const FrameWrite& write);
  void step();
  void takeOver(Queued& queued);
  void note(int64_t now_ns, int64_t took_ns, bool has_waited);
  void noteWaits(uint64_t sleeps);
  void count(int64_t bytes);

  FrameFile& file_;
  Owner& owner_;
  runtime::Executor& executor_;
  runtime::Executor& disk_;
  const WriteThread thread_;

  WriteGauge gauge_;
  int64_t began_ns_ = 0;
  // How often this thread had waited when it had slept `sleeps_before_` times. It may have waited since, for a lock or
  // shortly in a quick write, and a thread that always polls never sleeps. Then a write during which the thread only
  // lost its core counts as slow as well, once. A write that did wait is never missed.
  uint64_t sleeps_before_ = UINT64_MAX;
  uint64_t waits_before_ = 0;
  std::deque<std::unique_ptr<Queued>> queued_;  // writes that are not taken back yet, oldest first
  uint64_t queued_bytes_ = 0;
  std::atomic<uint64_t> shown_bytes_{0};
  std::atomic<uint64_t> handed_over_{0};
  std::atomic<int64_t> longest_ns_{0};

  // The way to the disk's thread and, with `executor_`, back. The caller that makes the count leave 0 posts the step.
  std::atomic<uint32_t> unwritten_{0};
  runtime::JobInbox inbox_;
  Step step_{*this};
  // For the disk's thread alone.
  runtime::JobList list_;
  Queued* written_ = nullptr;
  std::vector<uint32_t> failed_;  // by storage frame: the use of it that has failed
};

}  // namespace ramcore::backup
