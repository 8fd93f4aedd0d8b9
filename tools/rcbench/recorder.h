#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/histogram.h"
#include "base/status.h"
#include "tools/rcbench/settings.h"

namespace ramcore::rcbench {

/// What was seen of one kind of operation.
struct KindStats {
  uint64_t operations = 0;
  uint64_t objects = 0;  ///< read or written: more than the operations with batches and scans
  LogLinearHistogram latency_ns;
};

/// One interval of the time series.
struct Interval {
  double end_s = 0;  ///< since the measured part began
  uint64_t operations = 0;
  uint64_t failures = 0;
  uint64_t p50_ns = 0;
  uint64_t p99_ns = 0;
  uint64_t max_ns = 0;
};

/// Collects the measured part of a run. One thread.
class Recorder {
 public:
  /// @param series_ns  length of an interval; 0: no series.
  explicit Recorder(int64_t series_ns) : series_ns_(series_ns) {}

  /// The warm-up is over: what ends from now on counts.
  void start(int64_t now_ns);
  /// An operation has ended.
  /// @param intended_ns  when it should have begun: latency counts from there, so that a stall is seen by every
  ///                     operation that it kept waiting.
  void record(Kind kind, Status status, uint64_t objects, int64_t intended_ns, int64_t now_ns);
  /// Open loop: `count` operations were due in the measured part, whether they have ended or not.
  void countDue(uint64_t count) { due_ += count; }
  /// Open loop: `count` further operations were due, but were not even begun when the time for that was over. They are
  /// failures: leaving them out would make a stall at the end of a run invisible.
  void countNotBegun(uint64_t count);
  /// A read found nothing, or a conditional write was overtaken. These are counted apart from failures.
  void countMiss() { misses_ += running_ ? 1 : 0; }
  void countConflict() { conflicts_ += running_ ? 1 : 0; }
  void stop(int64_t now_ns);

  bool isRunning() const { return running_; }
  double seconds() const { return static_cast<double>(end_ns_ - begin_ns_) * 1e-9; }
  const KindStats& of(Kind kind) const { return kinds_[static_cast<size_t>(kind)]; }
  uint64_t operations() const;
  uint64_t objects() const;
  uint64_t failures() const;
  /// 0 in a closed loop.
  uint64_t due() const { return due_; }
  uint64_t misses() const { return misses_; }
  uint64_t conflicts() const { return conflicts_; }
  const std::map<Status, uint64_t>& errors() const { return errors_; }
  const std::vector<Interval>& series() const { return series_; }

 private:
  void closeInterval(int64_t end_ns);

  const int64_t series_ns_;
  bool running_ = false;
  int64_t begin_ns_ = 0;
  int64_t end_ns_ = 0;
  KindStats kinds_[kKindCount];
  std::map<Status, uint64_t> errors_;
  uint64_t due_ = 0;
  uint64_t misses_ = 0;
  uint64_t conflicts_ = 0;

  std::vector<Interval> series_;
  int64_t interval_end_ns_ = 0;
  Interval interval_;
  LogLinearHistogram interval_latency_ns_;
};

}  // namespace ramcore::rcbench
