#include "tools/rcmigrate/selection.h"

#include <algorithm>
#include <charconv>

namespace ramcore::rcmigrate {
namespace {

double widthOf(const HashRange& range) { return static_cast<double>(range.last - range.first) + 1; }

/// Adds the cuts and the move for a part of a tablet.
void addPart(const client::TabletInfo& tablet, const HashRange& part, ServerId to, std::vector<PlanStep>& steps) {
  HashRange rest = tablet.range;
  const auto cut = [&](KeyHash at) {
    steps.push_back(
        {.kind = PlanStep::Kind::Split, .table = tablet.table, .range = rest, .at = at, .from = tablet.owner});
  };
  if (part.first != rest.first) {
    cut(part.first);
    rest.first = part.first;
  }
  if (part.last != rest.last) cut(part.last + 1);
  steps.push_back({.kind = PlanStep::Kind::Move, .table = tablet.table, .range = part, .from = tablet.owner, .to = to});
}

}  // namespace

std::optional<KeyHash> parseHash(const std::string& text) {
  const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
  const char* const begin = text.data() + (is_hex ? 2 : 0);
  const char* const end = text.data() + text.size();
  KeyHash hash = 0;
  const auto [at, error] = std::from_chars(begin, end, hash, is_hex ? 16 : 10);
  if (begin == end || at != end || error != std::errc()) return std::nullopt;
  return hash;
}

Outcome<HashRange> parseRange(const std::string& text) {
  const size_t dash = text.find('-');
  const auto first = dash == std::string::npos ? std::nullopt : parseHash(text.substr(0, dash));
  const auto last = dash == std::string::npos ? std::nullopt : parseHash(text.substr(dash + 1));
  if (!first || !last || *first > *last) {
    return Failure{Status::BadConfig, "'" + text +
                                          "' is no range of key hashes; write it as "
                                          "0x0000000000000000-0x7fffffffffffffff"};
  }
  return HashRange{*first, *last};
}

std::vector<PlanStep> stepsFor(const client::TableMap& table, const Selection& selection, ServerId to) {
  const HashRange wanted = selection.range.value_or(HashRange{});
  struct Part {
    const client::TabletInfo* tablet;
    HashRange range;
  };
  std::vector<Part> parts;
  double width = 0;
  double there = 0;  // what is at `to` already counts, unless a part of what one server has is meant
  for (const client::TabletInfo& tablet : table.tablets) {
    if (tablet.range.first > wanted.last || tablet.range.last < wanted.first) continue;
    const HashRange range{std::max(tablet.range.first, wanted.first), std::min(tablet.range.last, wanted.last)};
    const bool is_meant = !selection.from || tablet.owner == selection.from;
    if (is_meant) width += widthOf(range);
    if (is_meant && tablet.owner == to) there += widthOf(range);
    if (is_meant && tablet.owner != to) parts.push_back({&tablet, range});
  }
  std::vector<PlanStep> steps;
  double left = width * selection.fraction - there;
  for (const Part& part : parts) {
    const double here = widthOf(part.range);
    // Sums of widths are rounded. What is less than a thousandth of a tablet makes no part of it.
    const double sliver = here / 1000;
    if (selection.fraction < 1 && left < sliver) break;
    HashRange range = part.range;
    if (selection.fraction < 1 && here > left + sliver) {
      range.last = std::min(range.last, range.first + (static_cast<uint64_t>(left) - 1));
    }
    addPart(*part.tablet, range, to, steps);
    left -= here;
  }
  return steps;
}

}  // namespace ramcore::rcmigrate
