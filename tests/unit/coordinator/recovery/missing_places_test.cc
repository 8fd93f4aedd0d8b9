// What has to be added so that recoveries find places for their replicas.
#include "coordinator/recovery/missing_places.h"

#include <gtest/gtest.h>

#include <vector>

namespace ramcore::coordinator {
namespace {

constexpr uint64_t kPlaceBytes = uint64_t{8} << 20;

BackupPlaces backup(uint64_t id, uint64_t total, uint64_t free) {
  return {.id = ServerId(id), .places_total = total, .places_free = free, .storage_bytes = total * kPlaceBytes};
}
std::vector<BackupPlaces> alike(size_t count, uint64_t total, uint64_t free) {
  std::vector<BackupPlaces> servers;
  for (size_t i = 0; i < count; ++i) servers.push_back(backup(i + 1, total, free));
  return servers;
}

TEST(MissingPlacesTest, AServerIsAmpleIfItHasRoomBesideWhatIsKeptForHeads) {
  // 10 segments and what each of 4 masters and the recovery have beside them, an eighth of 64 is kept.
  constexpr uint64_t kNeeded = 10 + 1 + 2 * 4 + 2 + 8;
  EXPECT_TRUE(isAmple(backup(1, 64, kNeeded), 10, 4));
  EXPECT_FALSE(isAmple(backup(1, 64, kNeeded - 1), 10, 4));
  EXPECT_FALSE(isAmple(backup(1, 0, 0), 0, 1)) << "it keeps nothing";
}

TEST(MissingPlacesTest, AsManyAmpleOnesAsCopiesAreEnough) {
  std::vector<BackupPlaces> servers = alike(4, 64, 2);
  const PlacesWanted wanted{.least_segments = 5, .all_segments = 20, .copies = 3, .masters = 4};
  EXPECT_EQ(missingPlaces(wanted, servers).servers, 3u);
  servers[0].places_free = 60;
  EXPECT_EQ(missingPlaces(wanted, servers).servers, 2u);
  servers[1].places_free = servers[2].places_free = 60;
  EXPECT_EQ(missingPlaces(wanted, servers).servers, 0u) << "the fourth is the recovery master";
  servers[3].places_free = 60;
  EXPECT_EQ(missingPlaces(wanted, servers).servers, 0u);
  // With only as many servers as replicas, one of them is the recovery master and cannot keep its own replicas.
  servers.pop_back();
  const PlacesWanted fewer{.least_segments = 5, .all_segments = 20, .copies = 3, .masters = 3};
  EXPECT_EQ(missingPlaces(fewer, servers).servers, 1u);
}

TEST(MissingPlacesTest, WhatIsSaidMakesAmpleServersForEverythingThatWaits) {
  for (const uint64_t all : {1, 7, 40, 1000}) {
    for (const size_t masters : {2, 4, 30}) {
      const PlacesWanted wanted{.least_segments = 1, .all_segments = all, .copies = 3, .masters = masters};
      std::vector<BackupPlaces> servers = alike(masters, 16, 0);
      const MissingPlaces missing = missingPlaces(wanted, servers);
      ASSERT_EQ(missing.servers, 3u);
      // One place less, for what else is in the file.
      const uint64_t places = missing.storage_bytes / kPlaceBytes - 1;
      for (uint32_t i = 0; i < missing.servers; ++i) {
        servers.push_back(backup(100 + i, places, places));
        EXPECT_TRUE(isAmple(servers.back(), all, masters + missing.servers));
      }
      EXPECT_EQ(
          missingPlaces({.least_segments = all, .all_segments = all, .copies = 3, .masters = masters + missing.servers},
                        servers)
              .servers,
          0u);
      EXPECT_LT(places, (all + 2 * (masters + 3) + 3) * 8 / 7 + 3) << "and not much more than that";
    }
  }
}

TEST(MissingPlacesTest, NothingIsSaidWhereNothingIsKnown) {
  const PlacesWanted wanted{.least_segments = 1, .all_segments = 1, .copies = 2, .masters = 3};
  EXPECT_EQ(missingPlaces(wanted, {}).servers, 0u);
}

}  // namespace
}  // namespace ramcore::coordinator
