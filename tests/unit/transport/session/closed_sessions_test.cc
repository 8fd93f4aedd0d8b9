#include "transport/session/closed_sessions.h"

#include <gtest/gtest.h>

#include "transport/session/failed_sessions.h"

namespace ramcore::transport {
namespace {

struct EndedSession {
  SessionId id;
  bool is_announced = false;
  Status lost_reason = Status::SessionLost;
  OpenFailure open_failure = {};
};

struct EndSink final : MessageSink {
  void onRequests(std::span<RxMessage>) override {}
  void onSessionOpen(SessionId) override {}
  void onSessionLost(SessionId session, Status reason) override {
    lost.emplace_back(session.index, reason);
    texts.push_back(failure->text);
    if (then) std::exchange(then, {})();
  }
  std::vector<std::pair<uint32_t, Status>> lost;
  std::vector<std::string> texts;
  const OpenFailure* failure = nullptr;
  std::function<void()> then;
};

TEST(ClosedSessions, EachIsReportedOnceAndThenRemoved) {
  ClosedSessions<EndedSession> closed;
  EndedSession first{.id = {1, 1}, .is_announced = true, .lost_reason = Status::Refused};
  first.open_failure.text = "not us";
  EndedSession unheard{.id = {2, 1}};
  EndedSession last{.id = {3, 1}, .is_announced = true, .lost_reason = Status::Shutdown};
  closed.add(first);
  closed.add(unheard);
  OpenFailure failure;
  EndSink sink;
  sink.failure = &failure;
  sink.then = [&] { closed.add(last); };  // the sink closes another one
  std::vector<uint32_t> removed;
  closed.report(sink, failure, [&](EndedSession& session) { removed.push_back(session.id.index); });
  EXPECT_EQ(sink.lost, (std::vector<std::pair<uint32_t, Status>>{{1, Status::Refused}, {3, Status::Shutdown}}));
  EXPECT_EQ(sink.texts, (std::vector<std::string>{"not us", ""}));
  EXPECT_EQ(removed, (std::vector<uint32_t>{1, 2, 3}));
  EXPECT_TRUE(closed.empty());
}

TEST(FailedSessions, WhatFailsMeanwhileIsTakenTheNextTime) {
  FailedSessions failed;
  EXPECT_TRUE(failed.empty());
  failed.add({7, 1}, "why", true);
  for (const FailedSessions::Failed& one : failed.take()) {
    EXPECT_EQ(one.session, (SessionId{7, 1}));
    EXPECT_EQ(one.why, "why");
    EXPECT_TRUE(one.is_malformed);
    failed.add({8, 1}, "later", false);
  }
  ASSERT_FALSE(failed.empty());
  EXPECT_EQ(failed.take().at(0).session, (SessionId{8, 1}));
  EXPECT_TRUE(failed.empty());
}

}  // namespace
}  // namespace ramcore::transport
