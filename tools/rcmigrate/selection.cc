#include "tools/rcmigrate/selection.h"

#include <algorithm>
#include <exception>

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
  size_t used = 0;
  KeyHash hash = 0;
  try {
    hash = std::stoull(text, &used, 0);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != text.size() || text.front() == '-') return std::nullopt;
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
  for (const client::TabletInfo& tablet : table.tablets) {
    const bool is_wanted = tablet.owner != to && (!selection.from || tablet.owner == selection.from);
    if (!is_wanted || tablet.range.first > wanted.last || tablet.range.last < wanted.first) continue;
    const HashRange range{std::max(tablet.range.first, wanted.first), std::min(tablet.range.last, wanted.last)};
    parts.push_back({&tablet, range});
    width += widthOf(range);
  }
  std::vector<PlanStep> steps;
  double left = width * selection.fraction;
  for (const Part& part : parts) {
    const double here = widthOf(part.range);
    HashRange range = part.range;
    if (selection.fraction < 1 && here > left) {
      // Less than one in 2^53 of a tablet makes no part of it.
      const auto hashes = static_cast<uint64_t>(left);
      if (hashes == 0) break;
      range.last = std::min(range.last, range.first + (hashes - 1));
    }
    addPart(*part.tablet, range, to, steps);
    left -= here;
    if (selection.fraction < 1 && left <= 0) break;
  }
  return steps;
}

}  // namespace ramcore::rcmigrate
