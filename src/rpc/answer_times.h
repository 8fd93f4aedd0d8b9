#pragma once

#include <algorithm>
#include <cstdint>

namespace ramcore::rpc {

/// How long a peer usually takes to answer, without a clock: a call that lasts d of the time between two looks at the
/// connection sees d looks on average, whatever d is. So the average of what calls saw is that of what they took, also
/// where nearly all see none.
class AnswerTimes {
 public:
  /// A call was answered that saw `looks` looks. A few instructions.
  void note(uint32_t looks) {
    const auto seen = static_cast<int32_t>(std::min(looks, kSeenMax) * kOne);
    usual_ += (seen - usual_) / kWeight;
  }
  /// After so many looks without an answer something may be wrong: some tens of usual times, and bounded.
  uint32_t patienceLooks() const {
    const auto usual = static_cast<uint32_t>(usual_);
    return std::clamp(usual * kUsualTimes / kOne, kPatienceMin, kPatienceMax) + 1;  // the first comes too early
  }

 private:
  static constexpr uint32_t kOne = 1 << 12;  // usual_ counts in parts of a look
  static constexpr int32_t kWeight = 64;
  static constexpr uint32_t kUsualTimes = 30;
  static constexpr uint32_t kSeenMax = 16;  // one call that waited for a recovery is not usual
  static constexpr uint32_t kPatienceMin = 5;
  static constexpr uint32_t kPatienceMax = 50;

  int32_t usual_ = 0;
};

}  // namespace ramcore::rpc
