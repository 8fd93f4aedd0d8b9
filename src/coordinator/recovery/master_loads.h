#pragma once

#include <set>
#include <utility>

#include "coordinator/recovery/recovery_attempts.h"
#include "coordinator/tablets/parts.h"

namespace ramcore::coordinator {

/// The servers that may recover tablets, and how many each of them is at work on: so the next one is spread evenly.
class MasterLoads {
 public:
  /// One server alone.
  explicit MasterLoads(ServerId alone) : loads_{{0, alone}} {}
  /// All servers that are heard, as they are now.
  MasterLoads(const Parts& parts, const RecoveryAttempts& attempts);

  bool isEmpty() const { return loads_.empty(); }
  /// One of those with the least to recover, which gets one more. Not if isEmpty().
  /// @param former  the server that failed with this tablet, or none
  ServerId takeLeast(ServerId former);

 private:
  std::set<std::pair<size_t, ServerId>> loads_;
};

}  // namespace ramcore::coordinator
