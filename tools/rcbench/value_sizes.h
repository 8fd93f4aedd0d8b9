#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/random.h"

namespace ramcore::rcbench {

/// How long values are: all the same, or drawn from ranges that have shares.
class ValueSizes {
 public:
  explicit ValueSizes(uint32_t bytes) : ranges_{{bytes, bytes, 1}}, shares_(1) {}
  /// Parses text such as "50-150:80,1000-2000:20": ranges of lengths in bytes (or single lengths), each followed by a
  /// colon and its share of the values. Shares are whole numbers, and only their ratios count.
  /// BadConfig: not of this form, or a length above `bytes_max`.
  static Outcome<ValueSizes> parse(const std::string& text, uint32_t bytes_max);

  uint32_t draw(runtime::Random& random) const;
  uint32_t bytesMax() const;
  /// On average, rounded.
  uint32_t bytesMean() const;

 private:
  struct Range {
    uint32_t first = 0;
    uint32_t last = 0;
    uint64_t share = 0;
  };
  ValueSizes() = default;

  std::vector<Range> ranges_;
  uint64_t shares_ = 0;
};

}  // namespace ramcore::rcbench
