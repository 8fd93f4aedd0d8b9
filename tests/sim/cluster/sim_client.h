#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/async_calls.h"
#include "client/cluster_client.h"
#include "runtime/fork_mark.h"
#include "runtime/sim/sim_node.h"
#include "sim/checkers/history.h"
#include "sim/checkers/scan_checker.h"
#include "sim/cluster/durable_ledger.h"
#include "sim/cluster/sim_dispatch.h"
#include "sim/cluster/sim_table.h"
#include "sim/workload/generator.h"
#include "transport/sim/sim_transport.h"

namespace ramcore::sim {

/// How much a client does at a time.
struct ClientPace {
  uint64_t loops = 1;                                   ///< that call one after the other
  uint64_t burst = 1;                                   ///< calls of a loop without a pause between them
  int64_t think_ns_max = 30 * runtime::kNanosPerMilli;  ///< the pause, for each of these calls
};

/// How some calls of a client begin: without a coroutine, as those of programs do, on one object or with a future.
struct FastCalls {
  uint64_t permille = 0;            ///< of the calls
  uint64_t futures_permille = 300;  ///< of these: with a future
  uint64_t dropped_permille = 20;   ///< of these, on one object: nobody waits for it
  /// Calls of these that do not know their deadline: a caller that looks at the clock now and then ends them.
  uint64_t expired_permille = 500;
};

/// One client process of a simulated cluster: does what the generator says, one call at a time or several, and notes
/// what it was told.
class SimClient {
 public:
  struct Shared {
    Generator& generator;
    History& history;
    std::vector<ScanRecord>& scans;
    const SimTables& tables;
    ClientPace pace = {};
    FastCalls fast = {};
    DurableLedger* ledger = nullptr;  ///< judges every answer; nullptr: nothing is late
  };
  SimClient(runtime::SimScheduler& scheduler, runtime::SimTraceLog& log, transport::SimNetwork& network,
            const std::string& name, uint32_t number, const std::string& cluster_name,
            const std::string& coordinator_node, const Shared& shared, transport::Role role = transport::Role::Client);
  ~SimClient();

  /// Makes `calls` calls, each loop its share of them. isDone() then.
  void start(uint64_t calls);
  /// Reads every key of the workload, until it has an answer for each: the end state, noted in the history as well.
  void readAll();
  /// All calls have ended, also those whose future was dropped: they change nothing any more.
  bool isDone() const { return done_ && async_->runningCount() == 0; }
  /// Calls that began without a coroutine.
  uint64_t fastCount() const { return fast_calls_; }
  /// Calls with a future, and those of them whose future was dropped at once.
  uint64_t futureCount() const { return futures_; }
  uint64_t droppedCount() const { return futures_dropped_; }
  /// Calls that began while another one of this client was on its way.
  uint64_t overlappingCount() const { return overlapping_calls_; }
  uint64_t completed(CallKind kind) const { return completed_[static_cast<size_t>(kind)]; }
  const std::vector<std::pair<HistoryKey, client::PointResult>>& finalReads() const { return final_; }
  client::ClusterClient& core() { return *core_; }
  runtime::SimNode& node() { return node_; }
  rpc::Dispatch& dispatch() { return dispatch_.dispatch(); }
  /// Coroutines were posted or signals given from outside.
  void wake() { dispatch_.wake(); }

 private:
  runtime::Task<void> run(uint64_t calls);
  runtime::Task<void> loop(uint64_t calls);
  runtime::Task<void> runReads();
  runtime::Task<void> openTables();
  TableId tableOf(HistoryKey key) const { return tables_[shared_.tables.indexOf(key)]; }
  runtime::Task<void> call(const PlannedCall& call);
  runtime::Task<void> point(const PlannedPart& part);
  bool isFast() { return shared_.fast.permille != 0 && fast_random_.below(1000) < shared_.fast.permille; }
  bool hasFuture() { return fast_random_.below(1000) < shared_.fast.futures_permille; }
  runtime::Task<client::PointResult> executeFast(client::PointRequest request, int64_t deadline_ns);
  /// @return nothing if its future was dropped
  runtime::Task<std::optional<Answer>> executeWithFuture(const PlannedPart& part, client::PointRequest request);
  template <typename Items>
  runtime::Task<void> multiWithFuture(Items& items);
  /// Looks at the future now and then, as a program does that polls.
  template <typename T>
  runtime::Task<void> untilReady(Future<T>& future);
  bool isUnwound() const { return core_->isIdle() && async_->runningCount() == 0 && !ending_.hasWaiters(); }
  int64_t timeout() { return deadline() - node_.clock().nowNs(); }
  runtime::Task<void> multi(const PlannedCall& call);
  runtime::Task<void> scan();
  /// An answer came in.
  void note(size_t index, const Answer& answer);
  Answer noteOf(const PlannedPart& part, const client::PointResult& result) const;
  int64_t now() { return node_.scheduler().nowNs(); }
  int64_t deadline();

  struct Start : runtime::Job {
    explicit Start(SimClient& owner)
        : Job([](runtime::Job& job) {
            auto& self = static_cast<Start&>(job).owner;
            if (self.reads_) {
              self.runReads().detach();
            } else {
              self.run(self.calls_).detach();
            }
          }),
          owner(owner) {}
    SimClient& owner;
  };

  runtime::SimNode node_;
  transport::Identity identity_;
  transport::SimTransport transport_;
  std::unique_ptr<transport::Endpoint> endpoint_;  // outlives the messages that wait in the dispatch
  SimDispatch dispatch_;
  std::unique_ptr<rpc::Caller> caller_;
  std::unique_ptr<client::ClusterClient> core_;
  runtime::ForkMark fork_mark_;
  std::unique_ptr<client::Driver> driver_;
  std::unique_ptr<client::AsyncCalls> async_;
  runtime::Signal ending_;
  const uint32_t number_;
  Shared shared_;
  runtime::Random random_;
  runtime::Random fast_random_;  ///< which calls are fast ones
  Start start_;
  std::vector<TableId> tables_;
  uint64_t calls_ = 0;
  bool reads_ = false;
  uint64_t loops_running_ = 0;
  uint64_t calls_under_way_ = 0;
  uint64_t fast_calls_ = 0;
  uint64_t futures_ = 0;
  uint64_t futures_dropped_ = 0;
  uint64_t overlapping_calls_ = 0;
  bool done_ = false;
  uint64_t completed_[kCallKindCount] = {};
  std::vector<std::pair<HistoryKey, client::PointResult>> final_;
};

}  // namespace ramcore::sim
