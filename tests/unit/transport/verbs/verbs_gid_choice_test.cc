#include "transport/verbs/gid_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace ramcore::transport::verbs {
namespace {

constexpr uint32_t kV1 = IBV_GID_TYPE_ROCE_V1;
constexpr uint32_t kV2 = IBV_GID_TYPE_ROCE_V2;

ibv_gid_entry entryOf(uint32_t index, const std::string& address, uint32_t type, uint32_t port = 1) {
  ibv_gid_entry entry{};
  entry.gid = gidOf(address).value();
  entry.gid_index = index;
  entry.port_num = port;
  entry.gid_type = type;
  return entry;
}

// The index of what is chosen; -1: nothing.
int chosen(const std::vector<ibv_gid_entry>& entries, const GidWanted& wanted = {}) {
  const ibv_gid_entry* const entry = chooseGid(entries, wanted);
  return entry == nullptr ? -1 : static_cast<int>(entry->gid_index);
}

TEST(VerbsGidChoice, AddressesStandInGids) {
  const ibv_gid v4 = gidOf("10.77.0.1").value();
  EXPECT_TRUE(isSameGid(v4, gidOf("::ffff:10.77.0.1").value()));
  EXPECT_EQ(v4.raw[10], 0xff);
  EXPECT_EQ(v4.raw[15], 1);
  EXPECT_FALSE(isSameGid(v4, gidOf("10.77.0.2").value()));
  for (const char* text : {"", "host", "10.77.0", "10.77.0.256", "fe80::1%eth0", "[::1]"}) {
    EXPECT_FALSE(gidOf(text)) << text;
  }
}

TEST(VerbsGidChoice, RoceRanksWhatItCanReach) {
  // From the best to the worst.
  const std::vector<ibv_gid_entry> ranked = {
      entryOf(5, "10.77.0.1", kV2), entryOf(7, "2001:db8::1", kV2), entryOf(1, "fe80::1", kV2),
      entryOf(4, "10.77.0.1", kV1), entryOf(6, "2001:db8::1", kV1), entryOf(0, "fe80::1", kV1),
  };
  // The better one of any two is chosen, whichever stands first in the table.
  for (size_t better = 0; better < ranked.size(); ++better) {
    for (size_t worse = better + 1; worse < ranked.size(); ++worse) {
      const int index = static_cast<int>(ranked[better].gid_index);
      EXPECT_EQ(chosen({ranked[better], ranked[worse]}), index);
      EXPECT_EQ(chosen({ranked[worse], ranked[better]}), index);
    }
  }
  std::vector<ibv_gid_entry> table = ranked;
  std::sort(table.begin(), table.end(), [](const auto& a, const auto& b) { return a.gid_index < b.gid_index; });
  EXPECT_EQ(chosen(table), 5);
}

TEST(VerbsGidChoice, OfEqualsTheFirst) {
  EXPECT_EQ(chosen({entryOf(2, "10.77.0.1", kV2), entryOf(3, "10.77.0.9", kV2)}), 2);
  EXPECT_EQ(chosen({entryOf(0, "fe80::1", kV2), entryOf(1, "febf::1", kV2)}), 0);
  // fec0::/10 is not of the link.
  EXPECT_EQ(chosen({entryOf(0, "fe80::1", kV2), entryOf(1, "fec0::1", kV2)}), 1);
}

TEST(VerbsGidChoice, TheHostsAddressIsBeforeOthers) {
  const std::vector<ibv_gid_entry> table = {entryOf(0, "fe80::1", kV1),     entryOf(1, "fe80::1", kV2),
                                            entryOf(2, "10.77.0.1", kV1),   entryOf(3, "10.77.0.1", kV2),
                                            entryOf(4, "192.168.7.1", kV1), entryOf(5, "192.168.7.1", kV2),
                                            entryOf(6, "172.16.0.1", kV1)};
  EXPECT_EQ(chosen(table), 3);
  EXPECT_EQ(chosen(table, {.host = gidOf("192.168.7.1")}), 5);
  EXPECT_EQ(chosen(table, {.host = gidOf("fe80::1")}), 1);
  // Others reach it by version 1 there, and by nothing else.
  EXPECT_EQ(chosen(table, {.host = gidOf("172.16.0.1")}), 6);
  EXPECT_EQ(chosen(table, {.host = gidOf("10.1.1.1")}), 3);
}

TEST(VerbsGidChoice, WhatIsNamedIsTakenOrNothing) {
  const std::vector<ibv_gid_entry> table = {entryOf(0, "fe80::1", kV1), entryOf(3, "10.77.0.1", kV2),
                                            entryOf(1, "10.77.0.2", kV2, 2)};
  EXPECT_EQ(chosen(table, {.index = 0}), 0);
  EXPECT_EQ(chosen(table, {.index = 0, .host = gidOf("10.77.0.1")}), 0);
  EXPECT_EQ(chosen(table, {.index = 1}), -1);
  EXPECT_EQ(chosen(table, {.port = 2}), 1);
  EXPECT_EQ(chosen(table, {.port = 2, .index = 1}), 1);
  EXPECT_EQ(chosen(table, {.port = 3}), -1);
  EXPECT_EQ(chosen({}), -1);
}

TEST(VerbsGidChoice, WhatAPacketCannotNameIsNobodys) {
  EXPECT_EQ(chosen({entryOf(255, "fe80::1", kV2), entryOf(256, "10.77.0.1", kV2)}), 255);
  EXPECT_EQ(chosen({entryOf(256, "10.77.0.1", kV2)}), -1);
}

TEST(VerbsGidChoice, InfinibandTakesItsFirst) {
  const std::vector<ibv_gid_entry> table = {entryOf(0, "fe80::2:c903:1", IBV_GID_TYPE_IB),
                                            entryOf(1, "fec0::2:c903:1", IBV_GID_TYPE_IB),
                                            entryOf(2, "10.77.0.1", IBV_GID_TYPE_IB)};
  EXPECT_EQ(chosen(table, {.is_ethernet = false}), 0);
  EXPECT_EQ(chosen(table, {.is_ethernet = false, .host = gidOf("10.77.0.1")}), 0);
  EXPECT_EQ(chosen(table, {.is_ethernet = false, .index = 1}), 1);
}

}  // namespace
}  // namespace ramcore::transport::verbs
