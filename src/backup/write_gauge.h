#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/clock.h"

namespace ramcore::backup {

/// Whether the disk is quick enough for writes on the dispatch thread, judged by how long writes took lately.
///
/// The gauge is an account of time. A write is expected to take kFreeNs at most, as a copy into the page cache does.
/// Time beyond that is a debt, and a thousand times as long has to pass until it is paid off. While the debt is above
/// kCreditNs, no write goes to the dispatch thread. So that thread spends a thousandth of its time waiting for the disk
/// in the long run, whatever the disk does.
/// Thread: one.
class WriteGauge {
 public:
  static constexpr int64_t kFreeNs = 200 * runtime::kNanosPerMicro;
  static constexpr int64_t kShare = 1000;
  static constexpr int64_t kCreditNs = 5 * runtime::kNanosPerMilli;
  /// The most that is owed: ten minutes after the last slow write the dispatch thread tries again.
  static constexpr int64_t kDebtNsMax = 600 * runtime::kNanosPerMilli;

  bool isQuick(int64_t now_ns) const { return paid_ns_ <= now_ns + kCreditNs * kShare; }
  /// A write has taken `took_ns`, wherever it ran.
  void note(int64_t now_ns, int64_t took_ns) {
    if (took_ns <= kFreeNs) return;
    const int64_t excess_ns = std::min(took_ns - kFreeNs, kDebtNsMax);
    paid_ns_ = std::min(std::max(paid_ns_, now_ns) + excess_ns * kShare, now_ns + kDebtNsMax * kShare);
  }

 private:
  int64_t paid_ns_ = 0;  // when the last slow write is paid for
};

}  // namespace ramcore::backup
