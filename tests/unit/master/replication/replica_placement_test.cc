#include "master/replication/replica_placement.h"

#include <set>

#include "log/memory/segment_pool.h"
#include "master/replication/replica_sender.h"
#include "unit/rpc/rpc_fixture.h"
#include "wire/replica_messages.h"

namespace ramcore::master {
namespace {

constexpr uint8_t kPlacedHead = wire::WriteReplica::kHead;

/// An owner that ignores all reports.
class DeafOwner final : public ReplicaOwner {
 public:
  bool mayRaiseFloor(SegmentId) const override { return true; }
  void raiseFloor(SegmentId, uint64_t) override {}
  void noteLost(ServerId backup, Status, uint8_t) override { lost.push_back(backup); }
  void noteRotten(ServerId backup) override { rotten.push_back(backup); }
  bool noteSpoilt(const log::Segment&, uint32_t) override { return false; }
  void wake() override {}
  void stepNow(SegmentId) override {}

  std::vector<ServerId> lost;
  std::vector<ServerId> rotten;
};

class DeafEvents final : public log::ReplicationEvents {
 public:
  void segmentOpened(SegmentId) override {}
  void segmentDurable(SegmentId, uint32_t) override {}
  void segmentFlushed(SegmentId, uint32_t) override {}
  void segmentClosed(SegmentId) override {}
};

class ReplicaPlacementTest : public rpc::RpcTest {
 protected:
  static constexpr uint64_t kSelf = 11;

  /// Members with the ids 1 to `count`, of which each two share a failure domain, and this server.
  void setMembers(uint64_t count) {
    std::vector<Member> members{{ServerId(kSelf), {}, true, ""}};
    for (uint64_t id = 1; id <= count; ++id) {
      members.push_back({ServerId(id), {}, true, "rack" + std::to_string((id + 1) / 2)});
    }
    placement_.setSelf(ServerId(kSelf));
    placement_.setMembers(std::move(members));
  }
  /// Has a server chosen, and adds a replica on it. 0: no server was chosen.
  uint64_t place() {
    const Member* const member = placement_.choose(replicas_, kPlacedHead);
    if (member == nullptr) return 0;
    replicas_.add(sender_, *member);
    return member->id.value;
  }

  runtime::ManualClock clock_;
  ReplicaPlacement placement_{{.replicas = 3, .min_replicas = 2}, clock_, silentTrace(), runtime::Random(3)};
  WriteAdmission admission_{placement_, clock_, silentTrace(), nullptr};
  ReplicationStats stats_;
  DeafOwner owner_;
  DeafEvents events_;
  rpc::RpcProcess& process_{add("server", {.role = transport::Role::Server, .id = kSelf})};
  const SegmentParts parts_{owner_,           placement_, admission_,   stats_,         process_.dispatch(),
                            *process_.caller, events_,    ClusterId(7), ServerId(kSelf)};
  const log::LogConfig config_ = log::LogConfig::forTest();
  const std::unique_ptr<log::LogMemory> memory_{log::LogMemory::open(config_.memory_bytes).value()};
  log::SegmentPool pool_{config_, *memory_};
  const log::Segment& segment_{*pool_.allocate(log::SegmentKind::Head, SegmentId(1))};
  const SegmentDemand demand_{segment_};
  SegmentSource source_{ClusterId(7), ServerId(kSelf), segment_};
  ReplicaSet replicas_{parts_};
  SegmentReports reports_{parts_, demand_, replicas_, source_};
  ReplicaSender sender_{parts_, demand_, replicas_, source_, reports_};
};

TEST_F(ReplicaPlacementTest, EachReplicaIsOnAnotherServerOfAnotherDomain) {
  setMembers(6);
  EXPECT_EQ(placement_.targetCount(), 3U);
  std::set<uint64_t> domains;
  for (int i = 0; i < 3; ++i) {
    const uint64_t id = place();
    ASSERT_NE(id, 0U);
    ASSERT_NE(id, kSelf);
    domains.insert((id + 1) / 2);
  }
  EXPECT_EQ(domains.size(), 3U);
  EXPECT_NE(place(), 0U) << "domains are no reason to have fewer";
  EXPECT_EQ(replicas_.count(), 4U);
}

TEST_F(ReplicaPlacementTest, AFullServerIsAvoidedForReplicasOfThatKindOnly) {
  setMembers(1);
  placement_.avoid(ServerId(1), Status::NoSpace, kPlacedHead);
  EXPECT_EQ(placement_.choose(replicas_, kPlacedHead), nullptr);
  EXPECT_NE(placement_.choose(replicas_, 0), nullptr);
  EXPECT_EQ(placement_.possibleCount(replicas_), 1U) << "it may have room again";
  clock_.advance(2 * runtime::kNanosPerSecond);
  EXPECT_NE(placement_.choose(replicas_, kPlacedHead), nullptr);
}

TEST_F(ReplicaPlacementTest, AServerThatFailsIsAvoidedForAWhile) {
  setMembers(1);
  placement_.avoid(ServerId(1), Status::Unreachable, kPlacedHead);
  EXPECT_EQ(placement_.choose(replicas_, 0), nullptr);
  EXPECT_EQ(placement_.targetCount(), 1U);
  EXPECT_EQ(placement_.possibleCount(replicas_), 0U);
  clock_.advance(2 * runtime::kNanosPerSecond);
  EXPECT_NE(placement_.choose(replicas_, 0), nullptr);
}

TEST_F(ReplicaPlacementTest, ASetGivesUpReplicasOnServersThatAreGone) {
  setMembers(2);
  ASSERT_NE(place(), 0U);
  ASSERT_NE(place(), 0U);
  EXPECT_EQ(replicas_.epoch(), 1U);
  setMembers(1);
  replicas_.dropGone();
  EXPECT_EQ(owner_.lost, std::vector{ServerId(2)});
  EXPECT_EQ(replicas_.epoch(), 2U);
  EXPECT_TRUE(replicas_.isOn(ServerId(1)));
  EXPECT_EQ(replicas_.everHeldBy().size(), 2U);
  EXPECT_FALSE(replicas_.loseOn(ServerId(1), 3)) << "an epoch that was not given yet";
  EXPECT_TRUE(replicas_.loseOn(ServerId(1), 2));
  EXPECT_EQ(owner_.rotten, std::vector{ServerId(1)});
  EXPECT_EQ(replicas_.rottenOn(), ServerId(1));
  EXPECT_EQ(replicas_.count(), 0U);
}

}  // namespace
}  // namespace ramcore::master
