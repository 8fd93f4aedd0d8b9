#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <span>

#include "base/histogram.h"
#include "rpc/request.h"
#include "runtime/clock.h"
#include "wire/opcodes.h"

namespace ramcore::rpc {

/// Adds one to a counter that only this thread writes: cheaper than an atomic addition.
inline void bump(std::atomic<uint64_t>& counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

/// Counters of one opcode, written by the dispatch thread and, for handlers that end on a worker, merged through it.
struct OpcodeStats {
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> failures{0};  ///< answered with something else than Ok
  LogLinearHistogram queue_ns;        ///< from taking the request off the endpoint to the start of its handler
  LogLinearHistogram service_ns;      ///< from there to handing its answer back
};

/// Counts the answers of each opcode and how long they took, with one look at the clock for each group of handlers.
/// Inline, because it runs for each request.
/// Threads: stats() and requestCount() on any thread, the rest on the dispatch thread.
class AnswerCounts {
 public:
  explicit AnswerCounts(runtime::Clock& clock) : clock_(clock) {
    for (size_t opcode = 0; opcode < stats_.size(); ++opcode) {
      if (wire::name(static_cast<wire::Opcode>(opcode)) != "Unknown") stats_[opcode] = std::make_unique<OpcodeStats>();
    }
  }

  const OpcodeStats& stats(wire::Opcode opcode) const { return *stats_[static_cast<size_t>(opcode)]; }
  /// Requests of all opcodes that were handled.
  uint64_t requestCount() const {
    uint64_t count = 0;
    for (const auto& stats : stats_) count += stats != nullptr ? stats->requests.load(std::memory_order_relaxed) : 0;
    return count;
  }

  /// The time of the last look at the clock while requests were handled. The end of one group of handlers is the start
  /// of the next, so that measuring costs one look at the clock per group. The last look of a round comes after the
  /// answers have left.
  int64_t handlingNs() const { return handling_ns_; }
  /// Notes the time at which requests were taken off an endpoint.
  void begin(int64_t now_ns) { handling_ns_ = now_ns; }
  /// Notes the answer of `record`, which is about to leave.
  void note(const RequestRecord& record) {
    if (answered_count_ == kAnsweredMax) count();
    answered_[answered_count_++] = {.opcode = record.opcode,
                                    .is_ok = loadAs<wire::ResponseHeader>(record.response->head).status == Status::Ok,
                                    .arrival_ns = record.arrival_ns,
                                    .started_ns = record.started_ns};
  }
  /// Counts the answers that were noted, if there are any.
  void count() {
    if (answered_count_ == 0) return;
    handling_ns_ = clock_.nowNs();
    for (const Answered& answered : std::span(answered_).first(answered_count_)) {
      OpcodeStats& stats = *stats_[static_cast<size_t>(answered.opcode)];
      bump(stats.requests);
      if (!answered.is_ok) bump(stats.failures);
      stats.queue_ns.record(static_cast<uint64_t>(std::max<int64_t>(0, answered.started_ns - answered.arrival_ns)));
      stats.service_ns.record(static_cast<uint64_t>(std::max<int64_t>(0, handling_ns_ - answered.started_ns)));
    }
    answered_count_ = 0;
  }

 private:
  struct Answered {
    wire::Opcode opcode;
    bool is_ok;
    int64_t arrival_ns;
    int64_t started_ns;
  };
  static constexpr size_t kAnsweredMax = 32;

  runtime::Clock& clock_;
  int64_t handling_ns_ = 0;
  std::array<Answered, kAnsweredMax> answered_;  // since the last look at the clock
  size_t answered_count_ = 0;
  std::array<std::unique_ptr<OpcodeStats>, wire::kOpcodeCount> stats_;
};

}  // namespace ramcore::rpc
