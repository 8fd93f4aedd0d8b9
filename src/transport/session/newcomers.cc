#include "transport/session/newcomers.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "base/check.h"

namespace ramcore::transport {

size_t chooseWhoLeaves(std::span<const Newcomer> newcomers) {
  RC_CHECK(!newcomers.empty());
  std::map<std::string_view, size_t> counts;
  for (const Newcomer& newcomer : newcomers) ++counts[newcomer.source];
  const auto first_to_go = [&](const Newcomer& a, const Newcomer& b) {
    const auto rank = [&](const Newcomer& one) {
      return std::tuple(-static_cast<int64_t>(counts[one.source]), !one.is_silent, one.deadline_ns);
    };
    return rank(a) < rank(b);
  };
  return static_cast<size_t>(std::min_element(newcomers.begin(), newcomers.end(), first_to_go) - newcomers.begin());
}

}  // namespace ramcore::transport
