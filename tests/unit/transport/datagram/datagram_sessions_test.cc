#include "transport/datagram/datagram_sessions.h"

#include <gtest/gtest.h>

#include "unit/transport/datagram/endpoint_parts.h"

namespace ramcore::transport::datagram {
namespace {

class HeardOfSessions final : public MessageSink {
 public:
  void onRequests(std::span<RxMessage>) override {}
  void onSessionOpen(SessionId session) override { opened.push_back(session); }
  void onSessionLost(SessionId session, Status reason) override {
    lost.push_back(session);
    reasons.push_back(reason);
  }

  std::vector<SessionId> opened;
  std::vector<SessionId> lost;
  std::vector<Status> reasons;
};

TEST(DatagramSessions, FindsSessionsByIdNumberAndPeer) {
  EndpointParts parts;
  Session& session = parts.open();
  EXPECT_EQ(parts.sessions.findOpen(session.id), &session);
  EXPECT_EQ(parts.sessions.findNumber(session.route.number), &session);
  EXPECT_EQ(parts.sessions.findNumber(session.route.number ^ (uint64_t{1} << 40)), nullptr);
  EXPECT_EQ(parts.sessions.idOfPeer(macOf(2), 7), nullptr);
  parts.sessions.setPeer(session);
  ASSERT_NE(parts.sessions.idOfPeer(macOf(2), 7), nullptr);
  EXPECT_EQ(*parts.sessions.idOfPeer(macOf(2), 7), session.id);
  parts.sessions.end(session, Status::Shutdown);
  EXPECT_EQ(parts.sessions.idOfPeer(macOf(2), 7), nullptr);
  EXPECT_EQ(parts.sessions.findNumber(session.route.number), nullptr);
  EXPECT_EQ(parts.sessions.findOpen(session.id), nullptr);
  EXPECT_EQ(parts.sessions.find(session.id), &session);
}

TEST(DatagramSessions, TheSinkHearsOfBeginningsAndEnds) {
  EndpointParts parts;
  HeardOfSessions sink;
  Session& session = parts.open();
  const SessionId id = session.id;
  ASSERT_TRUE(parts.sessions.hasOpened());
  parts.sessions.announceOpened(sink);
  EXPECT_EQ(sink.opened, std::vector{id});
  EXPECT_FALSE(parts.sessions.hasOpened());
  parts.sessions.end(session, Status::SessionLost);
  ASSERT_TRUE(parts.sessions.hasClosed());
  EXPECT_EQ(parts.sessions.count(), 1u);
  OpenFailure failure;
  parts.sessions.report(sink, failure);
  EXPECT_EQ(sink.lost, std::vector{id});
  EXPECT_EQ(sink.reasons, std::vector{Status::SessionLost});
  EXPECT_EQ(parts.sessions.count(), 0u);
}

TEST(DatagramSessions, SessionsWithoutAPlaceAreNotAdded) {
  EndpointParts parts;
  EXPECT_NE(parts.sessions.add(1, true), nullptr);
  EXPECT_EQ(parts.sessions.add(1, true), nullptr);
  EXPECT_NE(parts.sessions.add(2, false), nullptr);
  EXPECT_EQ(parts.sessions.admission().pendingCount(), 2u);
  EXPECT_EQ(parts.sessions.admission().acceptingCount(), 1u);
}

}  // namespace
}  // namespace ramcore::transport::datagram
