#include "master/replication/log_requests.h"

#include "unit/rpc/rpc_fixture.h"

namespace ramcore::master {
namespace {

class LogRequestsTest : public rpc::RpcTest {
 protected:
  using Kind = LogRequest::Kind;
  struct Work : runtime::Job {
    explicit Work(LogRequestsTest& test)
        : Job([](runtime::Job& job) {
            LogRequestsTest& owner = static_cast<Work&>(job).test;
            owner.requests_.noteRunning();
            ++owner.runs_;
          }),
          test(test) {}
    LogRequestsTest& test;
  };

  rpc::RpcProcess& process_{add("server", {.role = transport::Role::Server, .id = 11})};
  int runs_ = 0;
  Work work_{*this};
  LogRequests requests_{process_.dispatch(), work_};
};

TEST_F(LogRequestsTest, TheJobIsPostedOnceUntilItRuns) {
  process_.onDispatch([&] {
    requests_.add({.kind = Kind::Withdraw, .id = SegmentId(1)});
    requests_.wake();
  });
  EXPECT_TRUE(runUntil([this] { return !requests_.isPosted(); }));
  EXPECT_EQ(runs_, 1);
  process_.onDispatch([&] { requests_.wake(); });
  EXPECT_TRUE(runUntil([this] { return runs_ == 2; }));
}

TEST_F(LogRequestsTest, TheOneWhoWaitsForMostStandsForThoseBeforeIt) {
  process_.onDispatch([&] {
    requests_.add({.kind = Kind::Flush, .id = SegmentId(1), .bytes = 100});
    requests_.add({.kind = Kind::Flush, .id = SegmentId(1), .bytes = 300});
    requests_.add({.kind = Kind::Flush, .id = SegmentId(1), .bytes = 200});
    requests_.add({.kind = Kind::Durable, .id = SegmentId(1), .bytes = 50});
    requests_.add({.kind = Kind::Durable, .id = SegmentId(2), .bytes = 60});
  });
  const std::vector<LogRequest> taken = requests_.take();
  ASSERT_EQ(taken.size(), 3U);
  EXPECT_EQ(taken[0].bytes, 300U);
  EXPECT_EQ(taken[1].bytes, 50U);
  EXPECT_EQ(taken[2].bytes, 60U);
  EXPECT_TRUE(requests_.take().empty());
  EXPECT_TRUE(runUntil([this] { return !requests_.isPosted(); }));
}

}  // namespace
}  // namespace ramcore::master
