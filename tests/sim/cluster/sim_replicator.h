#pragma once

#include <list>
#include <map>
#include <vector>

#include "log/replicator.h"
#include "runtime/executor.h"
#include "runtime/sim/sim_scheduler.h"
#include "sim/cluster/durable_ledger.h"

namespace ramcore::sim {

/// Copies that take their time: everything is reported durable, opened and closed after delays from the seed, by jobs
/// of one of the server's executors, so that whatever has to wait for durability really waits. Nothing is copied; to
/// every third server the storage for copies looks short all the same, so that several of its workers clean.
///
/// Tells the ledger what is durable, and of sync tables what is flushed, in the sense of the log: what a head holds
/// counts once all heads before it are closed.
class SimReplicator final : public log::Replicator {
 public:
  struct Options {
    /// No delays: durable at once, and the ledger is not filled.
    bool at_once = true;
    int64_t delay_ns_max = 300 * runtime::kNanosPerMicro;
    uint32_t slow_permille = 20;
    int64_t slow_ns_max = 20 * runtime::kNanosPerMilli;
  };
  /// @param executor  runs the reports; one of the server's. @param ledger  may be nullptr.
  SimReplicator(runtime::SimScheduler& scheduler, runtime::Executor& executor, runtime::Random random,
                DurableLedger* ledger, const Options& options);

  bool durableAtOnce() const override { return options_.at_once; }
  uint32_t storagePercent() const override { return storage_percent_; }
  void attach(log::ReplicationEvents& events) override { events_ = &events; }
  void open(const log::Segment& segment) override;
  void advance(const log::Segment& segment) override;
  void requestFlush(LogPosition position) override;
  void close(const log::Segment& segment) override;
  void moved(const log::Segment& segment) override;
  void withdraw(SegmentId head) override;
  void awaitLeast(SegmentId segment) override;
  void free(SegmentId segment) override;
  bool isShortOfPlaces() const override { return is_short_; }
  bool isHeadStuck() const override { return !lacking_heads_.empty() || !unclosed_heads_.empty(); }

  /// While held, what is asked to be flushed is not; afterwards it is.
  void holdFlushes(bool hold);

  /// Which segments find no places from now on. What has found none yet finds some when they are not lacking any more.
  /// Further: some copies of sides, not the least. FormerHeads: heads that were opened, and now cannot be closed, as if
  /// they were small ones that have lost a copy.
  enum class Lacking : uint8_t { Nothing, Sides, Further, Heads, FormerHeads };
  void lackPlaces(Lacking what);
  /// Segments that have places, or wait for some.
  size_t placeCount() const { return segments_.size(); }

  /// True if nothing is left to report.
  bool isIdle() const { return reports_.empty(); }
  /// No reports any more: the executor is going away.
  void stop() { reports_.clear(); }

 private:
  enum class Kind : uint8_t { Opened, Durable, Flushed, Closed };
  /// A timer of the world, and then a job of the server.
  struct Report : runtime::Timer, runtime::Job {
    Report(SimReplicator& replicator, Kind what, SegmentId which, uint32_t up_to)
        : Timer([](runtime::Timer& timer) {
            auto& self = static_cast<Report&>(timer);
            self.owner.executor_.post(self, runtime::Priority::Waited);
          }),
          Job([](runtime::Job& job) {
            auto& self = static_cast<Report&>(job);
            self.owner.deliver(self);
          }),
          owner(replicator),
          kind(what),
          segment(which),
          bytes(up_to) {}
    SimReplicator& owner;
    Kind kind;
    SegmentId segment;
    uint32_t bytes;
    std::list<Report>::iterator self;
  };
  struct Head {
    const log::Segment* segment = nullptr;
    uint32_t durable_bytes = 0;
    uint32_t flushed_bytes = 0;
    uint32_t noted_durable_bytes = 0;
    uint32_t noted_flushed_bytes = 0;
    bool closed = false;
  };

  bool lacksPlace(const log::Segment& segment) const;
  static uint32_t groupEnd(const Head& head, uint32_t offset_bytes);
  void findPlaces(const log::Segment& side);
  void schedule(Kind kind, const log::Segment& segment);
  void delay(Kind kind, SegmentId segment, uint32_t bytes);
  void deliverFlushed(SegmentId segment, uint32_t bytes);
  void deliver(Report& report);
  void note(const Report& report);
  void noteEntries(Head& head, uint32_t& noted_bytes, uint32_t end_bytes, bool is_sync);

  runtime::SimScheduler& scheduler_;
  runtime::Executor& executor_;
  runtime::Random random_;
  DurableLedger* const ledger_;
  const Options options_;
  const uint32_t storage_percent_;
  log::ReplicationEvents* events_ = nullptr;
  std::list<Report> reports_;
  bool holds_flushes_ = false;
  std::vector<LogPosition> held_flushes_;
  Lacking lacking_ = Lacking::Nothing;
  bool is_short_ = false;  // a head has found no place, and none that is not small has found one since
  std::map<SegmentId, const log::Segment*> lacking_sides_;
  std::map<SegmentId, const log::Segment*> lacking_heads_;
  std::map<SegmentId, const log::Segment*> unclosed_heads_;
  std::map<SegmentId, bool> segments_;  // whether it is to be closed
  std::map<SegmentId, Head> heads_;     // not noted to their end yet, oldest first
};

}  // namespace ramcore::sim
