#include "base/enum_name.h"

#include <gtest/gtest.h>

namespace ramcore {
namespace {

enum class Named : uint16_t { First = 0, Third3 = 3, Last = 7 };
using NamesOfNamed = EnumNames<Named, 8>;

TEST(EnumNames, EachValueHasTheNameThatTheSourceWrites) {
  static_assert(NamesOfNamed::of(Named::First, "?") == "First");
  EXPECT_EQ(NamesOfNamed::of(Named::Third3, "?"), "Third3");
  EXPECT_EQ(NamesOfNamed::of(Named::Last, "?"), "Last");
}

TEST(EnumNames, OtherValuesHaveNone) {
  EXPECT_EQ(NamesOfNamed::of(static_cast<Named>(1), "?"), "?");
  EXPECT_EQ(NamesOfNamed::of(static_cast<Named>(8), "?"), "?");
  EXPECT_EQ(NamesOfNamed::of(static_cast<Named>(UINT16_MAX), "?"), "?");
}

}  // namespace
}  // namespace ramcore
