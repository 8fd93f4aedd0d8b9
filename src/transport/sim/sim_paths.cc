#include "transport/sim/sim_paths.h"

#include <cstddef>

namespace ramcore::transport {

bool SimPaths::unblock(std::string_view a, std::string_view b) {
  const size_t healed =
      blocked_.erase({std::string(a), std::string(b)}) + blocked_.erase({std::string(b), std::string(a)});
  return healed != 0;
}

void SimPaths::healAll() {
  blocked_.clear();
  isolated_.clear();
}

bool SimPaths::isBlocked(std::string_view from, std::string_view to) const {
  if (isolated_.empty() && blocked_.empty() && hushed_.empty()) return false;
  if (from == to) return false;
  const std::string sender(from);
  const std::string receiver(to);
  return hushed_.contains(sender) || hushed_.contains(receiver) || isolated_.contains(sender) ||
         isolated_.contains(receiver) || blocked_.contains({sender, receiver});
}

}  // namespace ramcore::transport
