#include "rpc/locator_rounds.h"

#include <string>
#include <utility>

#include "runtime/clock.h"

namespace ramcore::rpc {
namespace {

constexpr int64_t kAvoidNs = 30 * runtime::kNanosPerSecond;

}  // namespace

const transport::Locator* LocatorRounds::next(int64_t now_ns) {
  const size_t count = locators_.size();
  while (next_ < 2 * count) {
    const bool is_first_round = next_ < count;
    current_ = next_++ % count;
    Doubt& doubt = doubts_[current_];
    if (is_first_round && doubt.avoided_until_ns <= now_ns) doubt.avoided_until_ns = 0;
    if (is_first_round == (doubt.avoided_until_ns == 0)) return &locators_[current_];
  }
  return nullptr;
}

void LocatorRounds::avoid(int64_t now_ns, Trace& trace) {
  Doubt& doubt = doubts_[current_];
  doubt.avoided_until_ns = now_ns + kAvoidNs;
  if (std::exchange(doubt.is_told, true)) return;
  const transport::Locator& locator = current();
  trace.warning("the session with " + locator.toString() + " opened and was lost before it answered a call; for " +
                std::to_string(kAvoidNs / runtime::kNanosPerSecond) + " s another transport than " + locator.scheme +
                " is preferred. If that process is alive, something between here and there drops the packets of " +
                locator.scheme + ": let them through" + (locator.scheme == "verbs" ? " (RoCE: UDP port 4791)" : ""));
}

}  // namespace ramcore::rpc
