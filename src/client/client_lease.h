#pragma once

#include <algorithm>

#include "client/call_tracker.h"
#include "client/coordinator_stub.h"
#include "client/pacer.h"
#include "runtime/random.h"
#include "wire/message_header.h"

namespace ramcore::client {

/// The identity of this client for the masters: an id under a lease, and the sequences of its mutating calls.
///
/// The lease is opened before the first mutation. It is renewed when it is used, and when tend() or the timer finds
/// that it is time. Its length counts from when the request was sent, with a margin for clocks that differ in rate.
/// When it runs out the client gets another id. Masters may have forgotten the results of the old id, so a call of the
/// old id is never sent again.
///
/// Thread: the dispatch's.
class ClientLease final : private runtime::Timer {
 public:
  /// One mutating call, in all its attempts.
  struct Ticket {
    uint32_t generation = 0;  ///< of the identity; 0: none yet
    Sequence sequence;
  };

  /// @param renew_by_timer  false: the code that drives the dispatch calls tend() now and then.
  ClientLease(CoordinatorStub& coordinator, Pacer& pacer, runtime::Entropy& entropy, bool renew_by_timer);

  bool isUsable(int64_t now_ns) const { return client_ && now_ns < usable_until_ns_; }
  uint32_t generation() const { return generation_; }
  /// Makes the lease usable: opens one if there is none, or if it ran out. Failure: DeadlineExceeded, Unreachable,
  /// Refused, Shutdown...
  runtime::Task<Status> open(int64_t deadline_ns);

  /// True if `count` more calls may begin under the present identity.
  bool hasRoom(uint64_t count = 1) const { return tracker_.hasRoom(count); }
  /// Waits until there is room, or another identity. Failure: DeadlineExceeded, Shutdown.
  /// @param count  at most CallTracker::kWindowMax.
  runtime::Task<Status> awaitRoom(uint64_t count, int64_t deadline_ns);
  /// A new call under the present identity, which is usable and has room.
  Ticket begin() {
    const Ticket ticket{.generation = generation_, .sequence = tracker_.begin()};
    burst_ = std::max(burst_, tracker_.unfinishedCount());
    return ticket;
  }
  /// True if the call may be sent (again): its identity is the present one.
  bool isCurrent(const Ticket& ticket) const { return client_ && ticket.generation == generation_; }
  /// What goes into the request of a current ticket.
  wire::CallIdentity identityOf(const Ticket& ticket) const {
    return {.client = client_, .sequence = ticket.sequence, .acknowledged = tracker_.acknowledged()};
  }
  ClientId client() const { return client_; }
  Sequence acknowledged() const { return tracker_.acknowledged(); }
  /// Ends the ticket of a call that is over.
  void finish(Ticket& ticket);

  /// Ends the lease, because a process that knows says that the lease of `ticket` is over. Does nothing if `ticket` is
  /// not current any more.
  void lapse(const Ticket& ticket);

  /// Starts a renewal if it is time.
  void tend(int64_t now_ns);
  /// When tend() has something to do; kNever without a lease.
  int64_t dueNs() const { return client_ && !renewing_ ? renew_at_ns_ : runtime::kNever; }
  /// Gives the lease back, so that masters can forget results.
  runtime::Task<void> close(int64_t deadline_ns);
  bool isIdle() const { return !opening_ && !renewing_; }

 private:
  static constexpr uint64_t kReportedBurst = 128;
  static constexpr int64_t kReportNsMin = runtime::kNanosPerSecond;

  /// True if the coordinator should hear now which calls are over: masters keep the results of many calls, and no other
  /// call tells them soon that these are over.
  bool hasToReport(int64_t now_ns) const {
    return burst_ >= kReportedBurst && tracker_.unfinishedCount() == 0 && now_ns >= report_after_ns_;
  }
  runtime::Task<Status> openOnce(int64_t deadline_ns);
  runtime::Task<void> renew();
  void granted(const CoordinatorStub::Lease& lease);
  void end();

  CoordinatorStub& coordinator_;
  Pacer& pacer_;
  runtime::Entropy& entropy_;
  const bool renew_by_timer_;
  runtime::Signal opened_;
  runtime::Signal room_;
  uint32_t waiting_for_room_ = 0;
  bool opening_ = false;
  bool renewing_ = false;
  ClientId client_;
  uint32_t generation_ = 0;
  CallTracker tracker_;
  int64_t usable_until_ns_ = 0;
  int64_t renew_at_ns_ = 0;
  // The most calls that ran at the same time since the coordinator was last told which calls are over.
  uint64_t burst_ = 0;
  int64_t report_after_ns_ = INT64_MIN;
};

}  // namespace ramcore::client
