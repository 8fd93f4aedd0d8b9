#include "master/cluster/coordinator_link.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rpc/control_call.h"
#include "rpc/dispatch.h"
#include "runtime/sim/sim_clock.h"
#include "runtime/sim/sim_scheduler.h"
#include "runtime/sim/sim_storage.h"
#include "transport/sim/sim_transport.h"

namespace ramcore::master {
namespace {

const runtime::SimClock::Options kExactClock{.offset_ns_max = 0, .wall_error_ns_max = 0, .drift_ppm_max = 0};

/// A process of a simulated network.
struct Node {
  Node(runtime::SimScheduler& scheduler, transport::SimNetwork& network, const std::string& name, transport::Role role)
      : clock(scheduler, name, kExactClock),
        transport(network, clock, name, [] {}),
        dispatch(clock, silentTrace(), sleeper, {}),
        identity{.role = role, .id = 0, .cluster_name = "test", .secret = {}},
        endpoint(transport.makeEndpoint(identity)) {
    dispatch.addEndpoint(*endpoint);
  }

  runtime::SimClock clock;
  struct NoSleep final : transport::Sleeper {
    void sleep(int64_t) override {}
    void wake() override {}
    void watch(int) override {}
    void forget(int) override {}
  } sleeper;
  transport::SimTransport transport;
  rpc::Dispatch dispatch;
  transport::Identity identity;
  std::unique_ptr<transport::Endpoint> endpoint;
};

struct Observer final : LinkObserver {
  void onEnlisted(ServerId, ClusterId) override { enlisted = true; }
  void onMembers(std::vector<Member> members) override { told.push_back(members.size()); }
  void onRejected(Status status, const std::string& why) override {
    rejections.push_back(status);
    reason = why;
  }
  std::vector<IntakeRef> intakes() const override { return fetched; }
  bool enlisted = false;
  std::vector<IntakeRef> fetched;
  std::vector<size_t> told;  // how many live
  std::vector<Status> rejections;
  std::string reason;
};

/// A server's link to a coordinator that answers every enlistment with one status.
class CoordinatorLinkTest : public ::testing::Test {
 protected:
  /// @param more  locators of coordinators that are not there
  explicit CoordinatorLinkTest(std::vector<transport::Locator> more = {}) {
    std::vector<transport::Locator> locators{where_};
    locators.insert(locators.end(), more.begin(), more.end());
    link_.emplace(caller_, server_.dispatch, rpc::PeerAddress{.id = 0, .locators = std::move(locators)}, lease_,
                  *changes_, observer_, trace_);
    rpc::OpcodeRules rules{.roles = rpc::allow({transport::Role::Server})};
    rules.any_target = true;
    coordinator_.dispatch.services().add<&CoordinatorLinkTest::enlist>(wire::Opcode::Enlist, *this, rules);
    coordinator_.dispatch.services().add<&CoordinatorLinkTest::ping>(wire::Opcode::Ping, *this, rules);
    coordinator_.dispatch.services().add<&CoordinatorLinkTest::renew>(wire::Opcode::RenewServerLease, *this, rules);
    coordinator_.dispatch.services().add<&CoordinatorLinkTest::members>(wire::Opcode::GetMembership, *this, rules);
    coordinator_.dispatch.services().add<&CoordinatorLinkTest::raiseFloor>(wire::Opcode::RaiseFloor, *this, rules);
    coordinator_.dispatch.services().add<&CoordinatorLinkTest::checkClients>(wire::Opcode::CheckClient, *this, rules);
    RC_CHECK(coordinator_.endpoint->listen(where_).ok());
  }
  ~CoordinatorLinkTest() override {
    onServer([this] {
      link_->stop(false);
      caller_.shutDown();
    });
    RC_CHECK(runUntil([this] { return link_->stopped(); }));
  }

  /// Runs `action` on the server's dispatch thread, to which link and caller belong.
  void onServer(std::function<void()> action) {
    struct Once : runtime::Job {
      explicit Once(std::function<void()> what)
          : Job([](runtime::Job& job) {
              auto& once = static_cast<Once&>(job);
              once.action();
              once.is_done = true;
            }),
            action(std::move(what)) {}
      std::function<void()> action;
      bool is_done = false;
    } once(std::move(action));
    server_.dispatch.post(once);
    RC_CHECK(runUntil([&] { return once.is_done; }));
  }

  void ping(rpc::Request request) {
    ++pings_;
    request.reply(ping_answer_);
  }
  void enlist(rpc::Request request) {
    ++questions_;
    EXPECT_TRUE(rpc::parseRequest(request, enlistment_));
    if (answer_ != Status::Ok) return request.reply(answer_);
    wire::control::EnlistResponse response;
    response.set_id(11);
    response.set_cluster(77);
    response.set_lease_ns(lease_ns_);
    response.set_membership(version_);
    wire::fillChange(change_, *response.mutable_change());
    response.set_start(start_);
    rpc::replyControl(std::move(request), response);
  }
  void renew(rpc::Request request) {
    ++renewals_;
    EXPECT_TRUE(rpc::parseRequest(request, renewal_));
    if (renewal_answer_ != Status::Ok) return request.reply(renewal_answer_);
    wire::control::RenewServerLeaseResponse response;
    wire::fillChange(change_, *response.mutable_change());
    response.set_lease_ns(lease_ns_);
    response.set_membership(version_);
    response.set_start(start_);
    // The same clock as the server's, and the time that the server's clock has missed.
    missed_ns_ += missed_each_time_ns_;
    response.set_clock_ns(coordinator_.clock.nowNs() + missed_ns_);
    rpc::replyControl(std::move(request), response);
  }
  void raiseFloor(rpc::Request request) {
    wire::control::RaiseFloorResponse response;
    wire::fillChange(change_, *response.mutable_change());
    response.set_start(start_of_answers_);
    rpc::replyControl(std::move(request), response);
  }
  void checkClients(rpc::Request request) {
    wire::control::CheckClientResponse response;
    response.add_valid(false);
    response.set_start(start_of_answers_);
    rpc::replyControl(std::move(request), response);
  }
  void members(rpc::Request request) {
    ++members_asked_;
    if (refusals_-- > 0) return request.reply(Status::RetryLater);
    wire::control::GetMembershipResponse response;
    response.set_start(start_of_answers_);
    response.set_version(version_);
    for (uint64_t id = 1; id <= alive_; ++id) {
      wire::control::Member& member = *response.add_members();
      member.set_id(id);
      member.add_locators("sim://server" + std::to_string(id));
    }
    rpc::replyControl(std::move(request), response);
  }
  static runtime::Task<void> askOn(CoordinatorLink& link, runtime::Executor& executor, std::optional<Status>& raised,
                                   std::optional<CoordinatorLink::ClientCheck>& checked) {
    raised = co_await link.raiseFloor(SegmentId(3), 1);
    checked = co_await link.checkClients(executor, std::vector<ClientId>{ClientId(8)});
  }
  template <typename Done>
  bool runUntil(Done done) {
    for (int i = 0; i < 100'000; ++i) {
      if (done()) return true;
      const bool found = static_cast<int>(coordinator_.dispatch.step()) + static_cast<int>(server_.dispatch.step()) > 0;
      if (!found) scheduler_.runUntil(scheduler_.nowNs() + runtime::kNanosPerMilli, 1);
    }
    return false;
  }
  void start(Status answer, ServerId former = {}) {
    answer_ = answer;
    onServer([&] {
      link_->start({.locators = {"sim://server"},
                    .name = "server",
                    .memory_bytes = 1,
                    .former = former,
                    .former_cluster = former ? ClusterId(77) : ClusterId(),
                    .drawn_storage = drawn_,
                    .nonce = 7});
    });
  }

  runtime::SimScheduler scheduler_{1};
  transport::SimNetwork network_{scheduler_, {.mode = transport::SimMode::Stream}};
  const transport::Locator where_ = transport::Locator::parse("sim://coordinator").value();
  Node coordinator_{scheduler_, network_, "coordinator", transport::Role::Coordinator};
  Node server_{scheduler_, network_, "server", transport::Role::Server};
  rpc::Caller caller_{server_.dispatch};
  store::ServerLease lease_;
  Observer observer_;
  runtime::SimDisk disk_{scheduler_, "disk", {}};
  std::unique_ptr<runtime::Storage> storage_;  // nullptr: it has none
  std::unique_ptr<ChangeKeeper> changes_ = ChangeKeeper::open(nullptr, server_.dispatch, silentTrace()).value();
  struct Lines final : Trace {
    void write(TraceLevel level, std::string_view text) override {
      if (level >= TraceLevel::Warning) lines.emplace_back(text);
    }
    std::vector<std::string> lines;
  } trace_;
  std::optional<CoordinatorLink> link_;
  uint64_t drawn_ = 501;  // the drawn name for a storage
  Status answer_ = Status::Ok;
  int64_t lease_ns_ = runtime::kNanosPerSecond;
  int questions_ = 0;
  int pings_ = 0;
  Status ping_answer_ = Status::Ok;
  wire::control::EnlistRequest enlistment_;
  wire::control::RenewServerLeaseRequest renewal_;
  Status renewal_answer_ = Status::Ok;
  ChangeRef change_{.start = 5, .number = 100};
  uint64_t start_ = 5;
  uint64_t start_of_answers_ = 5;  // the start in answers to other requests than enlistments and renewals
  int64_t missed_ns_ = 0;
  int64_t missed_each_time_ns_ = 0;
  int members_asked_ = 0;
  int renewals_ = 0;
  uint64_t version_ = 1;
  uint64_t alive_ = 3;
  int refusals_ = 0;
};

// Repeating does not help against a description that is refused, nor if the nonce belongs to a dead server.
TEST_F(CoordinatorLinkTest, AnEnlistmentThatIsRefusedForGoodIsNotRepeated) {
  start(Status::BadRequest);
  ASSERT_TRUE(runUntil([this] { return link_->stopped(); }));
  EXPECT_EQ(questions_, 1);
  EXPECT_EQ(observer_.rejections, std::vector{Status::BadRequest});
  EXPECT_NE(observer_.reason.find("check its name"), std::string::npos) << observer_.reason;
}

TEST_F(CoordinatorLinkTest, AStorageOfAnotherClusterIsNamedAsTheReason) {
  start(Status::WrongCluster, ServerId(3));
  ASSERT_TRUE(runUntil([this] { return link_->stopped(); }));
  EXPECT_EQ(questions_, 1);
  EXPECT_EQ(enlistment_.former_id(), 3u);
  EXPECT_EQ(enlistment_.former_cluster(), 77u);
  EXPECT_EQ(observer_.rejections, std::vector{Status::WrongCluster});
  EXPECT_NE(observer_.reason.find("storage of this server belongs to another cluster"), std::string::npos)
      << observer_.reason;
}

TEST_F(CoordinatorLinkTest, AServerThatIsDeadBeforeItServesDoesNotAskAgain) {
  start(Status::Fenced);
  ASSERT_TRUE(runUntil([this] { return link_->stopped(); }));
  EXPECT_EQ(questions_, 1);
  EXPECT_EQ(observer_.rejections, std::vector{Status::Fenced});
}

TEST_F(CoordinatorLinkTest, AnEnlistmentThatCannotBeCarriedOutNowIsRepeated) {
  start(Status::RetryLater);
  EXPECT_TRUE(runUntil([this] { return questions_ >= 3; }));
  EXPECT_FALSE(link_->stopped());
  EXPECT_TRUE(observer_.rejections.empty());
  EXPECT_FALSE(observer_.enlisted);
}

TEST_F(CoordinatorLinkTest, RenewalsNameTheClusterAndTheLatestChangeThatWasHeard) {
  start(Status::Ok);
  ASSERT_TRUE(runUntil([this] { return renewals_ >= 1; }));
  EXPECT_EQ(renewal_.cluster(), 77U);
  EXPECT_EQ(wire::changeOf(renewal_.heard()), (ChangeRef{.start = 5, .number = 100}));
  change_ = {.start = 6, .number = 120};
  ASSERT_TRUE(runUntil([this] { return renewal_.heard().start() == 6; }));
  EXPECT_EQ(renewal_.heard().number(), 120U);
}

TEST_F(CoordinatorLinkTest, RenewalsNameTheTabletsThatAreFetched) {
  observer_.fetched = {{TabletId(5), TabletEpoch(3)}, {TabletId(6), TabletEpoch(1)}};
  start(Status::Ok);
  ASSERT_TRUE(runUntil([this] { return renewals_ >= 1; }));
  ASSERT_EQ(renewal_.intakes_size(), 2);
  EXPECT_EQ(renewal_.intakes(0).tablet(), 5U);
  EXPECT_EQ(renewal_.intakes(0).epoch(), 3U);
  EXPECT_EQ(renewal_.intakes(1).tablet(), 6U);
  // Of many some are named, and all of them in turn.
  observer_.fetched.clear();
  for (uint64_t id = 1; id <= 1'000; ++id) observer_.fetched.push_back({TabletId(id), TabletEpoch(1)});
  std::set<uint64_t> named;
  ASSERT_TRUE(runUntil([&] {
    EXPECT_LE(renewal_.intakes_size(), 256);
    for (const wire::control::Intake& intake : renewal_.intakes()) named.insert(intake.tablet());
    return named.size() == 1'000;
  }));
}

// A coordinator that was started on another directory, or on an older copy of its own, knows nothing of this server.
TEST_F(CoordinatorLinkTest, ACoordinatorWithoutTheStateOfThisClusterIsNotObeyedAndAskedOn) {
  start(Status::Ok);
  ASSERT_TRUE(runUntil([this] { return renewals_ >= 1; }));
  for (const Status wrong : {Status::WrongCluster, Status::StateBehind}) {
    renewal_answer_ = wrong;
    const int before = renewals_;
    ASSERT_TRUE(runUntil([&] { return renewals_ >= before + 20; })) << "it goes on asking";
    EXPECT_FALSE(lease_.isValid(server_.clock.nowNs())) << "and serves no longer than its lease";
    renewal_answer_ = Status::Ok;
    const int until = renewals_ + 2;
    ASSERT_TRUE(runUntil([&] { return renewals_ >= until; }));
    EXPECT_TRUE(lease_.isValid(server_.clock.nowNs()));
  }
  EXPECT_TRUE(observer_.rejections.empty());
  EXPECT_FALSE(link_->stopped());
}

TEST_F(CoordinatorLinkTest, WhoLivesIsAskedForAtOnceWhenSomebodyHasHeardOfADeath) {
  lease_ns_ = 1000 * runtime::kNanosPerSecond;  // the next renewal is far away
  start(Status::Ok);
  ASSERT_TRUE(runUntil([this] { return !observer_.told.empty(); }));
  EXPECT_EQ(observer_.told.back(), 3u);
  const int renewed = renewals_;
  version_ = 2;
  alive_ = 2;
  refusals_ = 2;
  const int64_t from_ns = scheduler_.nowNs();
  onServer([this] { link_->refreshMembers(); });
  ASSERT_TRUE(runUntil([this] { return observer_.told.back() == 2; }));
  EXPECT_LT(scheduler_.nowNs() - from_ns, 10 * runtime::kNanosPerSecond);
  EXPECT_EQ(renewals_, renewed);
}

// The other start may be that of an older copy, or long over: it has not shown that it has the latest change.
TEST_F(CoordinatorLinkTest, WhatAnotherStartAnswersIsNotBelieved) {
  lease_ns_ = 1000 * runtime::kNanosPerSecond;
  start_of_answers_ = 4;
  start(Status::Ok);
  ASSERT_TRUE(runUntil([this] { return members_asked_ >= 3; })) << "it asks on";
  EXPECT_TRUE(observer_.told.empty());
  change_ = {.start = 4, .number = 101};
  std::optional<Status> raised;
  std::optional<CoordinatorLink::ClientCheck> checked;
  const auto ask = [&] {
    raised.reset();
    checked.reset();
    onServer([&] { askOn(*link_, server_.dispatch, raised, checked).detach(); });
    return runUntil([&] { return raised && checked; });
  };
  ASSERT_TRUE(ask());
  EXPECT_EQ(*raised, Status::RetryLater);
  EXPECT_EQ(changes_->latest(), (ChangeRef{.start = 5, .number = 100}));
  EXPECT_EQ(checked->status, Status::RetryLater);

  start_of_answers_ = 5;
  change_ = {.start = 5, .number = 101};
  ASSERT_TRUE(ask());
  EXPECT_EQ(*raised, Status::Ok);
  EXPECT_EQ(changes_->latest(), change_);
  EXPECT_EQ(checked->status, Status::Ok);
  ASSERT_TRUE(runUntil([this] { return !observer_.told.empty(); }));
}

// As by a snapshot of the machine, or a move of it to another host. The lease that was granted before may be over.
TEST_F(CoordinatorLinkTest, AMachineThatWasFrozenTogetherWithItsClockServesNobodyUntilItIsRenewed) {
  start(Status::Ok);
  ASSERT_TRUE(runUntil([this] { return renewals_ >= 3; }));
  ASSERT_TRUE(lease_.isValid(server_.clock.nowNs()));
  EXPECT_TRUE(trace_.lines.empty());
  missed_ns_ = 40 * runtime::kNanosPerSecond;
  ASSERT_TRUE(runUntil([this] { return !trace_.lines.empty(); }));
  EXPECT_FALSE(lease_.isValid(server_.clock.nowNs()));
  EXPECT_NE(trace_.lines.back().find("frozen together with its clock"), std::string::npos) << trace_.lines.back();
  const int until = renewals_ + 1;
  ASSERT_TRUE(runUntil([&] { return renewals_ >= until && lease_.isValid(server_.clock.nowNs()); }));
  EXPECT_EQ(trace_.lines.size(), 1u);
}

TEST_F(CoordinatorLinkTest, AMachineWithASlowClockServesNobody) {
  missed_each_time_ns_ = 100 * runtime::kNanosPerMilli;
  start(Status::Ok);
  ASSERT_TRUE(runUntil([this] { return renewals_ >= 5; }));
  EXPECT_FALSE(lease_.isValid(server_.clock.nowNs()));
}

class LinkWithStorage : public CoordinatorLinkTest {
 protected:
  LinkWithStorage() { beginProcess(); }
  ~LinkWithStorage() override { endProcess(); }
  void beginProcess() {
    storage_ = disk_.open().value();
    changes_ = ChangeKeeper::open(storage_.get(), server_.dispatch, silentTrace()).value();
    link_.emplace(caller_, server_.dispatch, rpc::PeerAddress{.id = 0, .locators = {where_}}, lease_, *changes_,
                  observer_, trace_);
  }
  void endProcess() {
    onServer([this] { link_->stop(false); });
    RC_CHECK(runUntil([this] { return link_->stopped() && changes_->idle(); }));
  }
  // Only the link has written to the storage.
  void losePowerAndStartAgain() {
    disk_.losePower();
    endProcess();
    link_.reset();
    changes_.reset();
    storage_.reset();
    beginProcess();
  }
  uint64_t enlistNow() {
    const int before = questions_;
    start(Status::RetryLater);
    RC_CHECK(runUntil([&] { return questions_ > before; }));
    return enlistment_.storage();
  }
};

TEST_F(CoordinatorLinkTest, WithoutStorageThereIsNoNameOfOne) {
  start(Status::RetryLater);
  ASSERT_TRUE(runUntil([this] { return questions_ >= 1; }));
  EXPECT_EQ(enlistment_.storage(), 0u);
}

TEST_F(LinkWithStorage, AnEnlistmentTellsTheNameThatTheNextProcessWillTell) {
  for (int i = 0; i < 20; ++i) {
    drawn_ = 501 + static_cast<uint64_t>(i);
    EXPECT_EQ(enlistNow(), 501u);
    EXPECT_EQ(enlistment_.former_id(), 0u);
    losePowerAndStartAgain();
  }
}

// Machines may be made from the image of one whose storage has no name yet: their storages get different names.
TEST_F(LinkWithStorage, AStorageGetsItsNameWhenACoordinatorIsThere) {
  ping_answer_ = Status::NotLeader;
  start(Status::Ok);
  ASSERT_TRUE(runUntil([this] { return pings_ >= 3; }));
  EXPECT_TRUE(changes_->lacksName());
  EXPECT_EQ(questions_, 0);
  ping_answer_ = Status::Ok;
  ASSERT_TRUE(runUntil([this] { return observer_.enlisted; }));
  EXPECT_EQ(enlistment_.storage(), drawn_);
}

TEST_F(LinkWithStorage, ADiskThatFailsDoesNotKeepAServerFromEnlisting) {
  disk_.failFlushes(1);
  EXPECT_EQ(enlistNow(), 501u) << "the next process may find it";
}

TEST_F(LinkWithStorage, ALinkIsStoppedWhileItsStorageIsNamed) {
  start(Status::Ok);
  ASSERT_TRUE(runUntil([this] { return !changes_->idle(); }));
  // What is posted now is done before simulated time goes on.
  onServer([this] { link_->stop(true); });
  EXPECT_FALSE(changes_->idle());
  ASSERT_TRUE(runUntil([this] { return link_->stopped(); }));
  EXPECT_EQ(questions_, 0);
}

class LinkToSeveral : public CoordinatorLinkTest {
 protected:
  LinkToSeveral() : CoordinatorLinkTest({transport::Locator::parse("sim://nowhere").value()}) {}
};

// The coordinators are asked in turns, several times in a second.
TEST_F(LinkToSeveral, WhatIsWrongIsToldOnceThoughOthersAreAway) {
  start(Status::StateBehind);
  ASSERT_TRUE(runUntil([this] { return questions_ >= 10; }));
  EXPECT_LE(trace_.lines.size(), 2u) << trace_.lines.back();
  answer_ = Status::Ok;
  ASSERT_TRUE(runUntil([this] { return renewals_ >= 1; }));
  trace_.lines.clear();
  renewal_answer_ = Status::StateBehind;
  const int before = renewals_;
  ASSERT_TRUE(runUntil([&] { return renewals_ >= before + 10; }));
  ASSERT_EQ(trace_.lines.size(), 1u) << trace_.lines.back();
  EXPECT_NE(trace_.lines[0].find("is an older copy"), std::string::npos);
}

// A quarter of such a lease would be no pause at all: the server would do nothing but ask.
TEST_F(CoordinatorLinkTest, ALeaseOfNextToNothingIsNotRenewedWithoutPause) {
  lease_ns_ = 1;
  start(Status::Ok);
  ASSERT_TRUE(runUntil([this] { return observer_.enlisted; }));
  const int64_t until_ns = scheduler_.nowNs() + 100 * runtime::kNanosPerMilli;
  ASSERT_TRUE(runUntil([&] { return scheduler_.nowNs() >= until_ns; })) << renewals_;
  EXPECT_LE(renewals_, 110);
}

}  // namespace
}  // namespace ramcore::master
