#include "tools/rcbench/recorder.h"

namespace ramcore::rcbench {

void Recorder::start(int64_t now_ns) {
  running_ = true;
  begin_ns_ = now_ns;
  end_ns_ = now_ns;
  interval_end_ns_ = now_ns + series_ns_;
}

void Recorder::record(Kind kind, Status status, uint64_t objects, int64_t intended_ns, int64_t now_ns) {
  if (!running_) return;
  while (series_ns_ > 0 && now_ns >= interval_end_ns_) closeInterval(interval_end_ns_);
  if (status != Status::Ok) {
    ++errors_[status];
    ++interval_.failures;
    return;
  }
  KindStats& stats = kinds_[static_cast<size_t>(kind)];
  ++stats.operations;
  stats.objects += objects;
  const int64_t latency_ns = now_ns - intended_ns;
  stats.latency_ns.record(latency_ns > 0 ? static_cast<uint64_t>(latency_ns) : 0);
  if (series_ns_ > 0) {
    ++interval_.operations;
    interval_latency_ns_.record(latency_ns > 0 ? static_cast<uint64_t>(latency_ns) : 0);
  }
}

void Recorder::countNotBegun(uint64_t count) {
  if (count == 0) return;
  due_ += count;
  errors_[Status::DeadlineExceeded] += count;
  interval_.failures += count;
}

void Recorder::stop(int64_t now_ns) {
  if (!running_) return;
  running_ = false;
  end_ns_ = now_ns;
  while (series_ns_ > 0 && now_ns >= interval_end_ns_) closeInterval(interval_end_ns_);
  if (series_ns_ > 0 && interval_.operations + interval_.failures > 0) closeInterval(now_ns);
}

void Recorder::closeInterval(int64_t end_ns) {
  interval_.end_s = static_cast<double>(end_ns - begin_ns_) * 1e-9;
  interval_.p50_ns = interval_latency_ns_.quantile(0.5);
  interval_.p99_ns = interval_latency_ns_.quantile(0.99);
  interval_.max_ns = interval_latency_ns_.quantile(1.0);
  series_.push_back(interval_);
  interval_ = {};
  interval_latency_ns_.reset();
  interval_end_ns_ += series_ns_;
}

uint64_t Recorder::operations() const {
  uint64_t total = 0;
  for (const KindStats& stats : kinds_) total += stats.operations;
  return total;
}

uint64_t Recorder::objects() const {
  uint64_t total = 0;
  for (const KindStats& stats : kinds_) total += stats.objects;
  return total;
}

uint64_t Recorder::failures() const {
  uint64_t total = 0;
  for (const auto& [status, count] : errors_) total += count;
  return total;
}

}  // namespace ramcore::rcbench
