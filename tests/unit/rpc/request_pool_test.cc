#include "rpc/request_pool.h"

#include "rpc/answer_counts.h"
#include "unit/rpc/rpc_fixture.h"

namespace ramcore::rpc {
namespace {

class RequestPoolTest : public RpcTest {
 protected:
  RpcProcess& process_{add("server", {.role = transport::Role::Server, .id = 11})};
  RequestPool pool_{process_.dispatch(), [](runtime::Job&) {}};
};

TEST_F(RequestPoolTest, ListsWhatIsInServiceOldestFirst) {
  RequestRecord* records[3];
  for (int i = 0; i < 3; ++i) {
    records[i] = pool_.take();
    records[i]->arrival_ns = 10 * (i + 1);
    records[i]->peer_id = static_cast<uint64_t>(i);
  }
  pool_.giveBack(records[1]);
  const std::vector<RequestInService> left = pool_.inService(100);
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left[0].peer_id, 0U);
  EXPECT_EQ(left[0].age_ns, 90);
  EXPECT_EQ(left[1].peer_id, 2U);
  EXPECT_EQ(pool_.count(), 2U);
  pool_.giveBack(records[0]);
  pool_.giveBack(records[2]);
  EXPECT_EQ(pool_.count(), 0U);
  EXPECT_TRUE(pool_.inService(100).empty());
}

TEST_F(RequestPoolTest, ARecordThatCameBackIsUsedAgain) {
  RequestRecord* const first = pool_.take();
  EXPECT_EQ(first->dispatch, &process_.dispatch());
  pool_.giveBack(first);
  EXPECT_EQ(pool_.take(), first);
  pool_.giveBack(first);
}

TEST_F(RequestPoolTest, AnswersAreCountedWithOneLookAtTheClock) {
  runtime::ManualClock clock;
  AnswerCounts counts(clock);
  counts.begin(clock.nowNs());
  RequestRecord* const record = pool_.take();
  record->opcode = wire::Opcode::Read;
  record->arrival_ns = clock.nowNs();
  record->started_ns = clock.nowNs();
  record->response = process_.caller->allocate(sizeof(wire::ResponseHeader));
  record->response.appendHead(wire::ResponseHeader{.status = Status::NotFound});
  clock.advance(1000);
  counts.note(*record);
  EXPECT_EQ(counts.requestCount(), 0U);
  counts.count();
  EXPECT_EQ(counts.requestCount(), 1U);
  EXPECT_EQ(counts.stats(wire::Opcode::Read).failures.load(), 1U);
  EXPECT_EQ(counts.handlingNs(), clock.nowNs());
  clock.advance(1000);
  counts.count();
  EXPECT_NE(counts.handlingNs(), clock.nowNs()) << "there was nothing to count";
  record->response = {};
  pool_.giveBack(record);
}

}  // namespace
}  // namespace ramcore::rpc
