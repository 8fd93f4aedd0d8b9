#pragma once

#include <atomic>

#include "base/status.h"
#include "master/pinned/pinned_values.h"
#include "rpc/dispatch.h"
#include "runtime/clock.h"
#include "runtime/task.h"
#include "store/durability.h"
#include "store/threads.h"

namespace ramcore::master {

/// What all handlers of clients' requests share to answer: refusals, values, and answers that wait until the log is
/// durable up to what they show. Counts what was refused and repeated.
///
/// Dispatch thread or a worker, inside a read section. The functions that each read calls are inline, but for
/// replyAfter().
class ClientReplies {
 public:
  /// Everything is borrowed and outlives this.
  struct Parts {
    log::Log& log;
    PinnedValues& pinned;
    store::Threads& threads;
    runtime::Clock& clock;
  };
  struct Stats {
    std::atomic<uint64_t> duplicates_answered{0};
    std::atomic<uint64_t> stale_epochs{0};
    std::atomic<uint64_t> lease_refusals{0};
    std::atomic<uint64_t> waits_for_room{0};       ///< attempts that found no room and are repeated here
    std::atomic<uint64_t> waits_for_hand_over{0};  ///< attempts that found a frozen tablet and are repeated here
  };

  explicit ClientReplies(const Parts& parts) : parts_(parts) {}
  ClientReplies(const ClientReplies&) = delete;
  ClientReplies& operator=(const ClientReplies&) = delete;

  /// Answers with a status alone. A client that is to come again is told after how long.
  void refuse(rpc::Request request, Status status);
  /// Answers when the log is durable, or flushed, up to what the answer shows. Until then pinned values are replaced by
  /// copies. RetryLater instead, if copies have reached their bound; WrongServer or OutcomeUnknown, if the log ends.
  void replyAfter(rpc::Request request, transport::TxMessage response, const store::ShowAfter& show_after);

  /// A chunk with a value that was found in this read section: see PinnedValues::borrow().
  [[nodiscard]] transport::Chunk borrow(const rpc::Request& request, ByteSpan value) {
    return parts_.pinned.borrow(value, parts_.threads.pinSlotOf(request.executor()));
  }
  /// Copies a short value into the answer, which is cheaper than a chunk of its own with pin and release, and has a
  /// long one sent from where it lies.
  /// @return false: too much is borrowed and copied now; the client has to ask again later.
  [[nodiscard]] bool appendValue(const rpc::Request& request, transport::TxMessage& response, ByteSpan value) {
    if (value.size() <= response.headRoom() && value.size() < request.zeroCopyBytesMin()) {
      response.appendHead(value);
      return true;
    }
    const transport::Chunk chunk = borrow(request, value);
    if (chunk.address == nullptr) return false;
    response.appendChunk(chunk);
    return true;
  }

  /// Whether the handler of this request may wait for locks: on a worker, or where there are no workers.
  bool waitsHere(const rpc::Request& request) const {
    return !request.dispatch().isCurrent() || !request.dispatch().hasWorkers();
  }
  /// A time, in nanoseconds, at which this request had arrived.
  int64_t freshNowNs(const rpc::Request& request) const {
    // The dispatch read its clock after these requests arrived and runs them in the same round; on a worker time has
    // passed.
    return request.dispatch().isCurrent() ? request.arrivalNs() : parts_.clock.nowNs();
  }

  /// Counts a status that is to be answered, and returns it.
  Status count(Status status) {
    if (status == Status::StaleEpoch) stats_.stale_epochs.fetch_add(1, std::memory_order_relaxed);
    if (status == Status::LeaseUnknown) stats_.lease_refusals.fetch_add(1, std::memory_order_relaxed);
    return status;
  }
  void countDuplicate() { stats_.duplicates_answered.fetch_add(1, std::memory_order_relaxed); }
  void countWaitForRoom() { stats_.waits_for_room.fetch_add(1, std::memory_order_relaxed); }
  void countWaitForHandOver() { stats_.waits_for_hand_over.fetch_add(1, std::memory_order_relaxed); }
  const Stats& stats() const { return stats_; }

 private:
  static runtime::Task<void> replyWhenReached(ClientReplies& self, rpc::Request request, transport::TxMessage response,
                                              store::ShowAfter show_after);

  const Parts parts_;
  Stats stats_;
};

}  // namespace ramcore::master
