#include "tools/rcbench/value_sizes.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace ramcore::rcbench {
namespace {

std::optional<uint32_t> parseNumber(std::string_view text) {
  uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc() || at != end) return std::nullopt;
  return number;
}

}  // namespace

Outcome<ValueSizes> ValueSizes::parse(const std::string& text, uint32_t bytes_max) {
  ValueSizes sizes;
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const size_t colon = part.find(':');
    const std::string_view range = part.substr(0, colon);
    const size_t dash = range.find('-');
    const auto first = parseNumber(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parseNumber(range.substr(dash + 1));
    const auto share = colon == std::string_view::npos ? std::nullopt : parseNumber(part.substr(colon + 1));
    if (!first || !last || !share || *last < *first || *last > bytes_max || *share == 0) {
      return Failure{Status::BadConfig, "'" + std::string(part) + "' in '" + text +
                                            "' is not FIRST-LAST:SHARE with lengths up to " +
                                            std::to_string(bytes_max) + " and a share above 0"};
    }
    sizes.ranges_.push_back({*first, *last, *share});
    sizes.shares_ += *share;
    if (comma == std::string_view::npos) return sizes;
    rest = rest.substr(comma + 1);
  }
}

uint32_t ValueSizes::draw(runtime::Random& random) const {
  if (ranges_.size() == 1 && ranges_[0].first == ranges_[0].last) return ranges_[0].first;
  uint64_t left = random.below(shares_);
  size_t i = 0;
  while (left >= ranges_[i].share) left -= ranges_[i++].share;
  return static_cast<uint32_t>(random.between(ranges_[i].first, ranges_[i].last));
}

uint32_t ValueSizes::bytesMax() const {
  uint32_t bytes = 0;
  for (const Range& range : ranges_) bytes = std::max(bytes, range.last);
  return bytes;
}

uint32_t ValueSizes::bytesMean() const {
  double sum = 0;
  for (const Range& range : ranges_) {
    sum += (static_cast<double>(range.first) + range.last) / 2 * static_cast<double>(range.share);
  }
  return static_cast<uint32_t>(sum / static_cast<double>(shares_) + 0.5);
}

}  // namespace ramcore::rcbench
