#include "tools/rcbench/settings.h"

#include "base/check.h"

namespace ramcore::rcbench {
namespace {
constexpr std::string_view kKindNames[kKindCount] = {"read", "update", "insert", "scan", "read-modify-write"};

Mix mixOf(double read, double update, double insert, double scan, double read_modify_write, Distribution distribution) {
  return {.share = {read, update, insert, scan, read_modify_write}, .distribution = distribution};
}
}  // namespace

std::string_view name(Kind kind) { return kKindNames[static_cast<size_t>(kind)]; }

Kind Mix::draw(runtime::Random& random) const {
  double left = random.unit();
  size_t last = 0;
  for (size_t i = 0; i < kKindCount; ++i) {
    if (share[i] <= 0) continue;
    last = i;
    if (left < share[i]) break;
    left -= share[i];
  }
  return static_cast<Kind>(last);
}

Mix Mix::ycsb(char letter) {
  switch (letter) {
    case 'A':
      return mixOf(0.5, 0.5, 0, 0, 0, Distribution::Zipfian);
    case 'B':
      return mixOf(0.95, 0.05, 0, 0, 0, Distribution::Zipfian);
    case 'C':
      return mixOf(1, 0, 0, 0, 0, Distribution::Zipfian);
    case 'D':
      return mixOf(0.95, 0, 0.05, 0, 0, Distribution::Latest);
    case 'E':
      return mixOf(0, 0, 0.05, 0.95, 0, Distribution::Zipfian);
    case 'F':
      return mixOf(0.5, 0, 0, 0, 0.5, Distribution::Zipfian);
    default:
      RC_CHECK_MSG(false, "the flags allow A to F");
      return {};
  }
}

uint64_t KeyFormat::recordCountMax() const {
  constexpr uint32_t kDigitsMax = 19;
  uint64_t count = 1;
  for (uint32_t digit = 1; digit < key_bytes_ && digit <= kDigitsMax - 1; ++digit) count *= 10;
  return count;
}

std::string KeyFormat::key(uint64_t record) const {
  std::string key(key_bytes_, '0');
  key[0] = 'k';
  for (size_t i = key.size() - 1; i > 0 && record > 0; --i) {
    key[i] = static_cast<char>('0' + record % 10);
    record /= 10;
  }
  return key;
}

}  // namespace ramcore::rcbench
