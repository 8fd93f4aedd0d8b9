#pragma once

#include <span>
#include <string>
#include <vector>

#include "client/client_lease.h"
#include "client/coordinator_stub.h"
#include "client/master_stub.h"
#include "client/multi_scratch.h"
#include "client/pacer.h"
#include "client/tablet_finder.h"

namespace ramcore::client {

struct ClusterClientOptions {
  RetrySettings retry;
  /// The shortest pause between two questions about the same table. While the answer stays the same, the pause grows up
  /// to retry.longest_ns.
  int64_t refresh_ns_min = 1 * runtime::kNanosPerMilli;
  /// True: the lease is renewed by a timer of the dispatch, which makes each of its rounds read the clock while a lease
  /// is held. False: the code that drives the dispatch calls tend().
  bool renew_by_timer = true;
};

/// Where an enumeration is. Plain data; two cursors may go over the same table.
struct ScanCursor {
  TableId table;
  KeyHash next = 0;
  bool is_end = false;
  uint32_t batch_bytes = 128 * 1024;  ///< how long an answer is to be
};

/// How far the attempts of one call got.
struct CallProgress {
  ClientLease::Ticket ticket;      ///< of mutations
  bool may_have_happened = false;  ///< an attempt went out and got no answer
  bool is_stale = false;           ///< the coordinator has to be asked again where the tablet is
  bool is_moved = false;           ///< the former owner has said where it is
  TabletEpoch tried{};             ///< of the tablet, in the last attempt
  Status last = Status::RetryLater;
  uint32_t retry_after_us = 0;
};

/// A client of one cluster, as coroutines: finds the owner of each key, repeats what can be repeated until the
/// deadline, and gives each mutating call an identity, so that a repeated one is answered and not carried out again.
///
/// A silent server does not hold a call up. When a call has waited for long, the client asks the coordinator where the
/// tablet is: once for all calls to the table, and again after pauses that grow. If the tablet is elsewhere, or
/// nowhere, the attempt is given up; the next attempt goes to the new owner, under the same identity.
///
/// Deadlines are times of the dispatch's clock. What a call borrows (keys, values, items) stays in place until its task
/// is done. A mutation ends with OutcomeUnknown if an attempt was sent and no answer to it came in time; with
/// DeadlineExceeded, Unreachable or NoSpace if it has not happened and will not.
///
/// Thread: the dispatch's, or one that keeps the dispatch from being stepped meanwhile. No locks.
class ClusterClient {
 public:
  /// @param coordinators  at least one, with `id` 0. caller and entropy outlive the client.
  ClusterClient(rpc::Caller& caller, runtime::Entropy& entropy, std::vector<rpc::PeerAddress> coordinators,
                const ClusterClientOptions& options);
  ClusterClient(const ClusterClient&) = delete;
  ClusterClient& operator=(const ClusterClient&) = delete;
  /// Called when isIdle() (checked).
  ~ClusterClient();

  // ---- tables
  runtime::Task<Result<TableId>> createTable(std::string name, uint32_t tablet_count, int64_t deadline_ns,
                                             Durability durability = Durability::Buffered);
  runtime::Task<Status> dropTable(std::string name, int64_t deadline_ns);
  runtime::Task<Result<std::vector<TableInfo>>> listTables(int64_t deadline_ns);
  /// The answer also says where the table's tablets are, and is kept.
  runtime::Task<Result<TableId>> openTable(std::string name, int64_t deadline_ns);
  CoordinatorStub& coordinator() { return coordinator_; }

  // ---- single objects
  runtime::Task<PointResult> execute(PointRequest request, int64_t deadline_ns);
  /// Goes on with a call; `progress` says how far its attempts got (PointCall makes the first one). A new CallProgress
  /// begins the call.
  runtime::Task<PointResult> continueFrom(PointRequest request, CallProgress progress, int64_t deadline_ns);
  runtime::Task<PointResult> read(TableId table, ByteSpan key, int64_t deadline_ns);
  runtime::Task<PointResult> write(TableId table, ByteSpan key, ByteSpan value, Condition condition,
                                   int64_t deadline_ns);
  runtime::Task<PointResult> remove(TableId table, ByteSpan key, Condition condition, int64_t deadline_ns);
  runtime::Task<PointResult> increment(TableId table, ByteSpan key, int64_t delta, Condition condition,
                                       int64_t deadline_ns);

  // ---- several objects; each item has its own outcome
  runtime::Task<void> multiRead(std::span<ReadItem> items, int64_t deadline_ns);
  runtime::Task<void> multiMutate(std::span<MutateItem> items, int64_t deadline_ns);

  // ---- enumeration
  /// Replaces `objects` by the next ones, possibly none, and moves the cursor. After a failure the cursor is where it
  /// was. Objects present throughout the enumeration are given exactly once, others at most once.
  runtime::Task<Status> scanNext(ScanCursor& cursor, std::vector<Object>& objects, int64_t deadline_ns);

  // ---- upkeep
  /// Renews the lease when it is time; see ClusterClientOptions::renew_by_timer.
  void tend(int64_t now_ns) { lease_.tend(now_ns); }
  int64_t dueNs() const { return lease_.dueNs(); }
  /// Gives the lease back.
  runtime::Task<void> close(int64_t deadline_ns);
  /// Ends the pauses of all calls; these calls then end with Shutdown or OutcomeUnknown. Calls in flight end when the
  /// connections are shut down.
  void stop() { pacer_.stop(); }
  bool isIdle() const { return calls_ == 0 && finder_.isIdle() && lease_.isIdle() && pacer_.isIdle(); }

  // ---- for calls that make their first attempt without a coroutine
  TabletFinder& finder() { return finder_; }
  TabletCache& tablets() { return finder_.cache(); }
  ClientLease& lease() { return lease_; }
  rpc::Caller& caller() { return caller_; }
  Pacer& pacer() { return pacer_; }
  /// The connection to an owner.
  rpc::Connection& connectionTo(TabletCache::Owner& owner) {
    if (owner.connection == nullptr) [[unlikely]]
      owner.connection = &caller_.connection(owner.address);
    return *owner.connection;
  }

  /// After an attempt at a server that does not have the tablet: takes the hint that came with the answer, or notes
  /// that the coordinator has to be asked.
  void noteElsewhere(TableId table, PointResult& result, CallProgress& progress);
  /// Gives `result` the outcome of a call that is over, and ends the call's ticket.
  void settle(PointResult& result, CallProgress& progress, bool is_mutation);

  struct Stats {
    /// Attempts made by coroutines: all of scans and of execute(), and those of a PointCall after its first. Requests
    /// of multi-operations are not counted.
    uint64_t attempts = 0;
    uint64_t outcomes_unknown = 0;
  };
  const Stats& stats() const { return stats_; }

 private:
  template <typename Item>
  friend class MultiRun;

  class Running {  // counts a call while it runs
   public:
    explicit Running(ClusterClient& client) : client_(client) { ++client_.calls_; }
    ~Running() { --client_.calls_; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    ClusterClient& client_;
  };

  /// Makes the ticket one that may be sent. OutcomeUnknown: the identity was lost, and an attempt may have happened.
  runtime::Task<Status> prepareTicket(CallProgress& progress, int64_t deadline_ns);
  /// The message of one attempt.
  /// @param tried  where the last attempt went; nullptr: this is the first
  transport::TxMessage encodeAttempt(const PointRequest& request, CallProgress& progress,
                                     const TabletFinder::Place& place, const TabletCache::Owner* tried);
  /// Notes how an attempt at `owner` ended; `result` is changed only by an answer.
  void noteAnswer(rpc::CallResult answer, wire::Opcode kind, TabletCache::Owner& owner, CallProgress& progress,
                  PointResult& result);
  /// Pauses before the next attempt. False: there is no time for one, or the client ends.
  runtime::Task<bool> pauseBeforeNext(Backoff& backoff, const CallProgress& progress, int64_t deadline_ns);

  rpc::Caller& caller_;
  const ClusterClientOptions options_;
  Pacer pacer_;
  runtime::Random random_;
  CoordinatorStub coordinator_;
  ClientLease lease_;
  TabletFinder finder_;
  MultiScratchPool scratch_;
  uint64_t calls_ = 0;
  Stats stats_;
};

}  // namespace ramcore::client
