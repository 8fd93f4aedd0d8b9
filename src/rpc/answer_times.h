#pragma once

#include <algorithm>
#include <cstdint>

namespace ramcore::rpc {

/// Learns how long a peer usually takes to answer, without reading a clock. It counts looks at the connection, which
/// come at about equal intervals: a call that lasts for d intervals sees d looks on average, also if d is less than 1.
/// So the average number of looks that calls see tells how many intervals they last, even if nearly all calls see none.
class AnswerTimes {
 public:
  /// Notes that a call was answered after `looks` looks. A few instructions.
  void note(uint32_t looks) {
    const auto seen = static_cast<int32_t>(std::min(looks, kSeenMax) * kOne);
    usual_ += (seen - usual_) / kWeight;
  }
  /// The number of looks without an answer after which something may be wrong: some tens of times the usual number,
  /// within bounds.
  uint32_t patienceLooks() const {
    const auto usual = static_cast<uint32_t>(usual_);
    return std::clamp(usual * kUsualTimes / kOne, kPatienceMin, kPatienceMax) + 1;  // the first comes too early
  }

 private:
  static constexpr uint32_t kOne = 1 << 12;  // usual_ counts in parts of a look
  static constexpr int32_t kWeight = 64;
  static constexpr uint32_t kUsualTimes = 30;
  static constexpr uint32_t kSeenMax = 16;  // the most of one call: one that waited for a recovery is not usual
  static constexpr uint32_t kPatienceMin = 5;
  static constexpr uint32_t kPatienceMax = 50;

  int32_t usual_ = 0;
};

}  // namespace ramcore::rpc
