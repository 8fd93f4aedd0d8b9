#include "base/number.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <limits>

namespace ramcore {
namespace {

struct NumberedThings {
  std::atomic<int64_t> balance{0};
  std::atomic<uint32_t> workers{0};
  uint64_t bytes = 0;
  bool failed = false;
};
struct NoThings {};

constexpr Number<NumberedThings> kBalance = gauge<&NumberedThings::balance>("ramcore_balance", "What is left");
constexpr Number<NumberedThings> kBytes =
    counter<&NumberedThings::bytes>("ramcore_bytes_total", "Bytes", NumberUnit::Bytes);

TEST(Number, FieldsAreCounted) {
  static_assert(fieldCount<NoThings>() == 0);
  static_assert(fieldCount<NumberedThings>() == 4);
}

TEST(Number, ADeclarationReadsItsField) {
  NumberedThings things;
  things.balance = std::numeric_limits<int64_t>::min();
  things.bytes = 7;
  EXPECT_EQ(kBalance.read(things), -9223372036854775808.0);
  EXPECT_EQ(kBalance.meaning.kind, NumberKind::Gauge);
  EXPECT_EQ(kBytes.read(things), 7);
  EXPECT_EQ(kBytes.meaning.unit, NumberUnit::Bytes);
}

TEST(Number, NamesSayKindAndUnit) {
  const auto is_named_well = [](std::string_view metric, NumberKind kind, NumberUnit unit) {
    return NumberMeaning{.metric = metric, .help = "", .kind = kind, .unit = unit}.isNamedWell();
  };
  EXPECT_TRUE(is_named_well("", NumberKind::Counter, NumberUnit::Bytes));
  EXPECT_TRUE(is_named_well("ramcore_a_bytes_max", NumberKind::Gauge, NumberUnit::Bytes));
  EXPECT_TRUE(is_named_well("ramcore_a_total", NumberKind::Counter, NumberUnit::Items));
  EXPECT_FALSE(is_named_well("ramcore_a", NumberKind::Counter, NumberUnit::Items));
  EXPECT_FALSE(is_named_well("ramcore_a_total", NumberKind::Gauge, NumberUnit::Items));
  EXPECT_FALSE(is_named_well("ramcore_a", NumberKind::Gauge, NumberUnit::Bytes));
  EXPECT_FALSE(is_named_well("ramcore_a_seconds", NumberKind::Gauge, NumberUnit::Items));
  EXPECT_FALSE(is_named_well("another_a", NumberKind::Gauge, NumberUnit::Items));
}

TEST(Number, NothingIsDeclaredTwice) {
  static_assert(areSound(std::array{kBalance, kBytes}));
  static_assert(!areSound(std::array{kBalance, gauge<&NumberedThings::balance>("ramcore_other", "The same field")}));
  static_assert(!areSound(std::array{kBalance, gauge<&NumberedThings::workers>("ramcore_balance", "The same name")}));
  static_assert(!areSound(std::array{gauge<&NumberedThings::failed>("", "No name")}));
}

}  // namespace
}  // namespace ramcore
