#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/real/system_clock.h"
#include "tools/rcnic/analysis/experiments.h"
#include "tools/rcnic/probes/probe.h"
#include "tools/rcnic/probes/record_memory.h"

namespace ramcore::rcnic {

struct LaboratorySettings {
  uint32_t rounds = 7;
  uint32_t round_ms = 50;
  size_t memory_bytes = size_t{64} << 20;
  /// An experiment whose rounds differ too much is measured again, up to this many times in all. 0: the rounds are not
  /// compared.
  uint32_t attempts_max = 3;
};

/// Runs experiments with one probe. In each round all shapes of an experiment take turns, so that what disturbs the
/// machine disturbs them alike.
///
/// Thread: the probe's.
class Laboratory {
 public:
  /// Tells a person what is going on, one line a call.
  using Tell = std::function<void(const std::string&)>;

  Laboratory(std::unique_ptr<Probe> probe, const LaboratorySettings& settings, Tell tell);

  const ProbeTraits& traits() const { return probe_->traits(); }

  Abilities abilities() const;
  /// Failure: the connection is broken, nothing moves for some seconds, or there is no memory.
  Outcome<std::vector<Sample>> measure(const std::string& experiment, const std::vector<Shape>& shapes);
  /// Whether an experiment was noisy also at the last attempt.
  bool wasNoisy() const { return was_noisy_; }

 private:
  Outcome<RecordMemory*> memoryOf(uint32_t page_kb);
  Outcome<bool> use(uint32_t page_kb);
  Outcome<std::vector<Sample>> measureOnce(const std::string& experiment, const std::vector<Shape>& shapes);
  Outcome<Round> runRound(const Shape& shape, uint32_t number, uint32_t milliseconds);
  Outcome<bool> takeCompletions(Round& round, int64_t& still_since_ns);

  // The memory from which the probe sends outlives it.
  std::map<uint32_t, RecordMemory> memories_;  // by the size of their pages
  const std::unique_ptr<Probe> probe_;
  const LaboratorySettings settings_;
  const Tell tell_;
  runtime::SystemClock clock_;
  const double cycles_per_ms_;
  bool was_noisy_ = false;
  uint32_t page_kb_ = 0;  // of the memory in use
};

}  // namespace ramcore::rcnic
