/// Room for a tablet that is handed over: it is held apart at the new owner before the hand-over, command by command.
#include <algorithm>

#include "log/format/segment_format.h"
#include "sim/recovery_fixture.h"
#include "store/result_entry.h"

namespace ramcore::sim::raw {
namespace {

using wire::MeasureTablet;

/// Server 0 has the lower half of the table, tablet 2, which is to go to server 1; server 1 has the upper half,
/// tablet 3.
class MasterRoomTest : public MasterRecoveryTest {
 protected:
  static constexpr size_t kFrom = 0;
  static constexpr size_t kTo = 1;
  static constexpr uint64_t kSourceEpoch = 2;
  static constexpr uint64_t kUpperEpoch = 3;
  static constexpr uint64_t kEpoch = 4;

  MasterRoomTest() {
    control::SplitTabletRequest split;
    split.set_tablet(1);
    *split.mutable_lower() = tabletOf(2, 0, kMiddle - 1, kSourceEpoch);
    *split.mutable_upper() = tabletOf(3, kMiddle, kLast, kSourceEpoch);
    EXPECT_EQ(world.command(Opcode::SplitTablet, split, kFrom)->outcome(), Status::Ok);
    EXPECT_EQ(drop(3, kSourceEpoch, kFrom), Status::Ok);
    EXPECT_EQ(take(3, kMiddle, kLast, kUpperEpoch, kTo), Status::Ok);
  }

  log::LiveLimit& limit(size_t server) { return world.servers[server]->master().log()->limit(); }
  int64_t liveBytes(size_t server) { return world.servers[server]->master().log()->stats().live_bytes.load(); }
  static bool isUpper(uint64_t number) { return hashKey(TableId(kTable), asBytes(keyBytes(number))) >= kMiddle; }

  /// Writes new objects into one half until so much of what may be alive is, or one is refused.
  Status fill(size_t server, double share) {
    const bool upper = server == kTo;
    const auto wanted = static_cast<int64_t>(share * static_cast<double>(limit(server).liveBytesMax()));
    while (liveBytes(server) < wanted) {
      while (isUpper(++last_number_) != upper) {
      }
      const std::string key = keyBytes(last_number_);
      const std::string value(500 + last_number_ % 100, 'v');
      const Answer answer = write(key, value, nextSequence(1),
                                  {.client = 1, .epoch = upper ? kUpperEpoch : kSourceEpoch, .server = server});
      if (answer.status != Status::Ok) return answer.status;
      (upper ? upper_ : lower_)[key] = value;
    }
    return Status::Ok;
  }
  Status prepare() {
    EXPECT_EQ(pull(2, 0, kMiddle - 1, kSourceEpoch, kEpoch, kTo, kFrom), Status::Ok);
    return static_cast<Status>(pullProgress(2, kTo, control::PULL_PREPARED).status());
  }
  void expectAllThere() {
    for (const auto& [key, value] : lower_) ASSERT_EQ(read(key, kEpoch, kTo).value, value) << key;
  }
  MeasureTablet::Response measure(MeasureTablet::Part part, KeyHash cursor = 0) {
    const MeasureTablet::Request request{.header = header(Opcode::MeasureTablet),
                                         .tablet = TabletId(2),
                                         .epoch = TabletEpoch(kSourceEpoch),
                                         .cursor = cursor,
                                         .part = part};
    const auto call = world.send(world.other_server, join({bytesOf(request)}), 0);
    EXPECT_EQ(call->outcome(), Status::Ok);
    MeasureTablet::Response answer{};
    EXPECT_TRUE(wire::decode(call->response.head(), answer));
    return answer;
  }

  std::map<std::string, std::string> lower_;
  std::map<std::string, std::string> upper_;

 private:
  uint64_t last_number_ = 0;
};

TEST_F(MasterRoomTest, WhatATabletTakesIsMeasured) {
  ASSERT_EQ(fill(kFrom, 0.5), Status::Ok);
  uint64_t objects = 0;
  uint64_t tombstones = 0;
  uint64_t large = 0;
  KeyHash cursor = 0;
  for (bool is_done = false; !is_done;) {
    const MeasureTablet::Response answer = measure(MeasureTablet::Part::Objects, cursor);
    is_done = answer.done != 0;
    ASSERT_TRUE(is_done || answer.next_cursor > cursor);
    cursor = answer.next_cursor;
    objects += answer.object_bytes;
    tombstones += answer.tombstone_bytes;
    large += answer.large_bytes;
  }
  uint64_t objects_there = 0;
  uint64_t tombstones_there = 0;
  for (const auto& [key, value] : lower_) {
    const auto key_bytes = static_cast<uint32_t>(key.size());
    objects_there += log::alignedEntryBytes(key_bytes, static_cast<uint32_t>(value.size()), false, false);
    tombstones_there += log::alignedTombstoneBytes(key_bytes);
  }
  EXPECT_EQ(objects, objects_there);
  EXPECT_EQ(tombstones, tombstones_there);
  EXPECT_EQ(large, 0u);
  const uint64_t results = world.servers[kFrom]->master().results().inRange(TableId(kTable), {0, kMiddle - 1}).size();
  EXPECT_GT(results, 0u);
  EXPECT_EQ(measure(MeasureTablet::Part::Rest).object_bytes, results * store::ResultEntry::kAlignedBytes);
}

TEST_F(MasterRoomTest, ATabletThatDoesNotFitIsNotTaken) {
  ASSERT_EQ(fill(kFrom, 0.6), Status::Ok);
  ASSERT_EQ(fill(kTo, 0.5), Status::Ok);
  EXPECT_EQ(prepare(), Status::NoSpace);
  EXPECT_EQ(limit(kTo).heldBytes(), 0u);
  EXPECT_EQ(fill(kTo, 0.9), Status::Ok) << "the room is the clients' again";
  EXPECT_EQ(read(lower_.begin()->first, kSourceEpoch, kFrom).value, lower_.begin()->second);
}

TEST_F(MasterRoomTest, ClientsDoNotTakeTheRoomOfWhatIsToArrive) {
  ASSERT_EQ(fill(kFrom, 0.4), Status::Ok);
  ASSERT_EQ(prepare(), Status::Ok);
  EXPECT_GT(limit(kTo).heldBytes(), 0.3 * static_cast<double>(limit(kTo).liveBytesMax()));
  EXPECT_EQ(fill(kTo, 1), Status::NoSpace);
  ASSERT_NO_FATAL_FAILURE(handOver(2, 0, kMiddle - 1, kSourceEpoch, kEpoch, kTo, kFrom));
  ASSERT_EQ(lend(2, kSourceEpoch, kFrom), Status::Ok);
  ASSERT_EQ(takeArriving(2, 0, kMiddle - 1, kEpoch, kTo), Status::Ok);
  // Removes go on in the full memory, also of what has not arrived; each logs two tombstones.
  for (int i = 0; i < 20; ++i) {
    const std::string key = lower_.begin()->first;
    ASSERT_EQ(remove(key, nextSequence(1), {.client = 1, .epoch = kEpoch, .server = kTo}).status, Status::Ok);
    lower_.erase(key);
  }
  ASSERT_EQ(pullProgress(2, kTo, control::PULL_JOINED).phase(), control::PULL_JOINED);
  ASSERT_EQ(take(2, 0, kMiddle - 1, kEpoch, kTo, false), Status::Ok);
  ASSERT_NO_FATAL_FAILURE(expectAllThere());
  EXPECT_TRUE(world.runUntil([&] { return limit(kTo).heldBytes() == 0; }));
}

TEST_F(MasterRoomTest, WhatATabletHasGrownByIsHeldBeforeTheHandOver) {
  ASSERT_EQ(fill(kFrom, 0.2), Status::Ok);
  ASSERT_EQ(fill(kTo, 0.3), Status::Ok);
  ASSERT_EQ(prepare(), Status::Ok);
  const uint64_t held = limit(kTo).heldBytes();
  ASSERT_EQ(fill(kFrom, 0.25), Status::Ok);
  const uint64_t ceiling = freezeForCeiling(2, kSourceEpoch, kFrom);
  ASSERT_NE(ceiling, 0u);
  ASSERT_EQ(adopt(2, kEpoch, ceiling, kTo), Status::Ok);
  EXPECT_GE(limit(kTo).heldBytes(),
            held + static_cast<uint64_t>(0.04 * static_cast<double>(limit(kTo).liveBytesMax())));
  EXPECT_EQ(drop(2, kEpoch, kTo), Status::Ok);
  EXPECT_TRUE(world.runUntil([&] { return limit(kTo).heldBytes() == 0; })) << "it was given up";
}

TEST_F(MasterRoomTest, ATabletThatHasGrownTooLargeIsNotTaken) {
  ASSERT_EQ(fill(kFrom, 0.2), Status::Ok);
  ASSERT_EQ(fill(kTo, 0.4), Status::Ok);
  ASSERT_EQ(prepare(), Status::Ok);
  ASSERT_EQ(fill(kFrom, 0.8), Status::Ok);
  const uint64_t ceiling = freezeForCeiling(2, kSourceEpoch, kFrom);
  ASSERT_NE(ceiling, 0u);
  EXPECT_EQ(adopt(2, kEpoch, ceiling, kTo), Status::NoSpace);
  EXPECT_TRUE(world.runUntil([&] { return limit(kTo).heldBytes() == 0; }));
  EXPECT_EQ(unfreeze(2, kSourceEpoch, kEpoch + 1, kFrom), Status::Ok);
  EXPECT_EQ(read(lower_.begin()->first, kEpoch + 1, kFrom).value, lower_.begin()->second);
}

TEST_F(MasterRoomTest, QuestionsThatMakeNoSense) {
  const auto ask = [&](const MeasureTablet::Request& request) {
    return world.send(world.other_server, join({bytesOf(request)}), 0)->outcome();
  };
  MeasureTablet::Request request{.header = header(Opcode::MeasureTablet),
                                 .tablet = TabletId(9),
                                 .epoch = TabletEpoch(2),
                                 .cursor = 0,
                                 .part = MeasureTablet::Part::Objects};
  EXPECT_EQ(ask(request), Status::WrongServer);
  request.tablet = TabletId(2);
  request.epoch = TabletEpoch(1);
  EXPECT_EQ(ask(request), Status::StaleEpoch);
  request.epoch = TabletEpoch(2);
  request.cursor = kMiddle;
  EXPECT_EQ(ask(request), Status::BadRequest) << "of another tablet";
  request.part = static_cast<MeasureTablet::Part>(2);
  EXPECT_EQ(ask(request), Status::BadRequest);
  request.part = MeasureTablet::Part::Rest;
  EXPECT_EQ(ask(request), Status::Ok);
  EXPECT_NE(world.send(join({bytesOf(request)}))->outcome(), Status::Ok) << "from a client";
}

}  // namespace
}  // namespace ramcore::sim::raw
