#include "tools/rcmigrate/call_times.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/histogram.h"

namespace ramcore::rcmigrate {
namespace {

// The smallest value that so many calls did not exceed.
uint64_t valueAt(const CallCounts& counts, uint64_t wanted) {
  uint64_t seen = 0;
  for (const auto& [bucket, count] : counts) {
    seen += count;
    if (seen >= wanted) return LogLinearHistogram::upperBoundOf(bucket);
  }
  return 0;
}

std::string durationText(uint64_t ns) {
  char text[32];
  const double micros = static_cast<double>(ns) * 1e-3;
  if (micros < 1000) {
    std::snprintf(text, sizeof text, "%.0f us", micros);
  } else {
    std::snprintf(text, sizeof text, "%.1f ms", micros * 1e-3);
  }
  return text;
}

}  // namespace

CallTimes callTimesSince(const CallCounts& earlier, const CallCounts& later) {
  CallCounts between = later;
  for (const auto& [bucket, count] : earlier) {
    const auto at = between.find(bucket);
    if (at == between.end() || at->second < count) return callTimesSince({}, later);
    at->second -= count;
  }
  CallTimes times;
  for (const auto& [bucket, count] : between) times.calls += count;
  if (times.calls == 0) return times;
  times.p50_ns = valueAt(between, (times.calls + 1) / 2);
  times.p999_ns = valueAt(between, times.calls - times.calls / 1000);
  return times;
}

std::string textOf(const CallTimes& times) {
  if (times.calls == 0) return "no calls";
  return "p50 " + durationText(times.p50_ns) + ", p99.9 " + durationText(times.p999_ns);
}

void CallHistory::note(ServerId server, CallCounts counts) {
  const auto [at, is_new] = servers_.try_emplace(server);
  Looks& looks = at->second;
  looks.former = is_new ? counts : std::move(looks.last);
  looks.last = std::move(counts);
  // A server that is heard of late has no time before.
  if (is_new) looks.first = looks.begin = looks.last;
}

void CallHistory::markBegin() {
  has_begun_ = true;
  for (auto& [server, looks] : servers_) looks.begin = looks.last;
}

CallTimes CallHistory::before(ServerId server) const {
  const auto at = servers_.find(server);
  return at == servers_.end() ? CallTimes() : callTimesSince(at->second.first, at->second.begin);
}

CallTimes CallHistory::lately(ServerId server) const {
  const auto at = servers_.find(server);
  return at == servers_.end() ? CallTimes() : callTimesSince(at->second.former, at->second.last);
}

CallTimes CallHistory::sinceBegin(ServerId server) const {
  const auto at = servers_.find(server);
  return at == servers_.end() ? CallTimes() : callTimesSince(at->second.begin, at->second.last);
}

}  // namespace ramcore::rcmigrate
