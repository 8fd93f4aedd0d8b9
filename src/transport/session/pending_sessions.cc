#include "transport/session/pending_sessions.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "base/check.h"

namespace ramcore::transport {

size_t chooseWhoLeaves(std::span<const PendingSession> pending) {
  RC_CHECK(!pending.empty());
  std::map<std::string_view, size_t> counts;
  for (const PendingSession& one : pending) ++counts[one.source];
  const auto first_to_go = [&](const PendingSession& a, const PendingSession& b) {
    const auto rank = [&](const PendingSession& one) {
      return std::tuple(-static_cast<int64_t>(counts[one.source]), !one.is_silent, one.deadline_ns);
    };
    return rank(a) < rank(b);
  };
  return static_cast<size_t>(std::min_element(pending.begin(), pending.end(), first_to_go) - pending.begin());
}

}  // namespace ramcore::transport
