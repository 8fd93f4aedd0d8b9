#include "log/format/digest_members.h"

#include <algorithm>
#include <tuple>

namespace ramcore::log {

std::span<const SegmentId> DigestMembers::apply(MemberChanges& noted) {
  auto& changes = noted.changes_;
  std::sort(changes.begin(), changes.end(),
            [](const auto& a, const auto& b) { return std::tie(a.id, a.number) < std::tie(b.id, b.number); });
  former_.swap(ids_);
  ids_.clear();
  ids_.reserve(former_.size() + changes.size());
  auto member = former_.begin();
  for (size_t i = 0; i < changes.size(); ++i) {
    if (i + 1 < changes.size() && changes[i + 1].id == changes[i].id) continue;
    const auto next = std::lower_bound(member, former_.end(), changes[i].id);
    ids_.insert(ids_.end(), member, next);
    member = next != former_.end() && *next == changes[i].id ? next + 1 : next;
    if (changes[i].is_member) ids_.push_back(changes[i].id);
  }
  ids_.insert(ids_.end(), member, former_.end());
  changes.clear();
  return ids_;
}

}  // namespace ramcore::log
