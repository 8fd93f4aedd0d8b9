/// A source of a move that is not what it says, before the hand-over: the move is given up. Results that it sends are
/// answered to clients as they are, so the destination accepts only results that a master can have logged.
#include "sim/hostile_source.h"
#include "store/result_entry.h"

namespace ramcore::sim::raw {
namespace {

TEST_F(MasterHostilePullTest, SizesThatNoTabletHas) {
  const wire::MeasureTablet::Response sound = source_.measured;
  const auto end = [&](const std::function<void(wire::MeasureTablet::Response&)>& change) {
    source_.measured = sound;
    change(source_.measured);
    return pullOnce();
  };
  EXPECT_EQ(end([](auto&) {}), Status::Ok);
  const auto endAt = [&](KeyHash next) {
    return end([&](auto& answer) {
      answer.done = 0;
      answer.next_cursor = next;
    });
  };
  EXPECT_EQ(endAt(kFirstHash - 1), Status::BadRequest) << "outside of the tablet";
  EXPECT_EQ(endAt(kFirstHash), Status::BadRequest) << "it would be asked for ever";
  EXPECT_EQ(endAt(kFirstHash + 1), Status::BadRequest) << "the same once more";
  EXPECT_EQ(end([](auto& answer) { answer.done = 2; }), Status::BadRequest);
  EXPECT_EQ(end([](auto& answer) { answer.object_bytes = ~uint64_t{0}; }), Status::BadRequest);
  EXPECT_EQ(end([](auto& answer) { answer.tombstone_bytes = ~uint64_t{0}; }), Status::BadRequest);
  EXPECT_EQ(end([](auto& answer) { answer.large_bytes = 5000; }), Status::BadRequest) << "more than all";
  EXPECT_EQ(end([](auto& answer) { answer.object_bytes = uint64_t{1} << 39; }), Status::NoSpace);
  EXPECT_EQ(end([](auto& answer) { answer.appended_bytes = ~uint64_t{0}; }), Status::Ok) << "nothing since then";
  world.runFor(kNanosPerSecond);
  EXPECT_EQ(world.servers[0]->master().log()->limit().heldBytes(), 0u);
}

/// Versions that the new owner gives out have to be taken by those who recover it.
TEST_F(MasterHostilePullTest, CeilingsNearTheEnd) {
  ceiling_ = store::kMovedVersionMax;
  EXPECT_EQ(pullOnce(), Status::Ok);
  ceiling_ = store::kMovedVersionMax + 1;
  EXPECT_EQ(pullOnce(), Status::BadRequest);
}

TEST_F(MasterHostilePullTest, CrowdedHashesThatNobodyNames) {
  const auto end = [&](std::vector<KeyHash> hashes, uint32_t count) {
    source_.crowded = std::move(hashes);
    source_.measured.crowded_count = count;
    return pullOnce();
  };
  const KeyHash hash = kFirstHash + 5;
  EXPECT_EQ(end({hash, hash + 1, kLast}, 3), Status::Ok);
  EXPECT_EQ(end({}, wire::MeasureTablet::kCrowdedAll), Status::Ok);
  EXPECT_EQ(end({hash + 1, hash}, 2), Status::BadRequest) << "descending";
  EXPECT_EQ(end({hash, hash}, 2), Status::BadRequest) << "twice";
  EXPECT_EQ(end({kFirstHash - 1}, 1), Status::BadRequest) << "of another tablet";
  EXPECT_EQ(end({hash}, 2), Status::BadRequest) << "not as many as it says";
  EXPECT_EQ(end({hash}, wire::MeasureTablet::kCrowdedAll), Status::BadRequest);
  EXPECT_EQ(end({}, wire::MeasureTablet::kCrowdedMax + 1), Status::BadRequest);
  EXPECT_EQ(end({}, 0), Status::Ok);
}

TEST_F(MasterHostilePullTest, ResultsOfOtherOpcodes) {
  for (const Opcode opcode : {Opcode::Read, Opcode::Pull, Opcode::MultiRead, static_cast<Opcode>(0xffff)}) {
    expectRefused("an opcode", [&](ResultSource& source) { source.record.opcode = static_cast<uint16_t>(opcode); });
  }
}

TEST_F(MasterHostilePullTest, StatusesThatNoMutationLogs) {
  for (const Status status : {Status::RetryLater, Status::SessionLost, Status::Fenced, Status::OutcomeUnknown}) {
    expectRefused("a status", [&](ResultSource& source) { source.record.status = static_cast<uint16_t>(status); });
  }
  expectRefused("no status at all", [](ResultSource& source) { source.record.status = 0xffff; });
}

TEST_F(MasterHostilePullTest, IdentitiesThatNobodyHas) {
  expectRefused("client 0", [](ResultSource& source) { source.record.client = ClientId(0); });
  expectRefused("acknowledged already", [](ResultSource& source) { source.record.acknowledged = Sequence(7); });
}

TEST_F(MasterHostilePullTest, ResultsOfOtherTabletsAndVersionsNearTheEnd) {
  expectRefused("another range", [](ResultSource& source) { source.record.key_hash = kFirstHash - 1; });
  expectRefused("another table", [](ResultSource& source) { source.table = kTable + 1; });
  expectRefused("a version near the end", [](ResultSource& source) { source.version = kVersionMax; });
  expectRefused("a version above the ceiling", [](ResultSource& source) { source.version = kCeiling + 1; });
}

TEST_F(MasterHostilePullTest, MoreResultsThanItHasAnnounced) {
  source_.copies_of_results = static_cast<int>(4096 / store::ResultEntry::kAlignedBytes);
  EXPECT_EQ(pullOnce(), Status::Ok);
  ++source_.copies_of_results;
  EXPECT_EQ(pullOnce(), Status::BadRequest);
  EXPECT_EQ(world.servers[0]->master().log()->limit().heldBytes(), 0u);
}

TEST_F(MasterHostilePullTest, EveryResultThatAMasterLogsIsTaken) {
  for (const Opcode opcode : {Opcode::Write, Opcode::Remove, Opcode::Increment}) {
    for (const Status status :
         {Status::Ok, Status::NotFound, Status::ObjectExists, Status::WrongVersion, Status::TypeMismatch}) {
      source_.record.opcode = static_cast<uint16_t>(opcode);
      source_.record.status = static_cast<uint16_t>(status);
      EXPECT_EQ(name(pullOnce()), name(Status::Ok)) << wire::name(opcode) << " " << name(status);
    }
  }
}

}  // namespace
}  // namespace ramcore::sim::raw
