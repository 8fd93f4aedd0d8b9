#include "log/joining_segments.h"

#include <gtest/gtest.h>

#include <array>

#include "log/memory/segment_pool.h"

namespace ramcore::log {
namespace {

using TakenBack = JoiningSegments::TakenBack;

/// Two closed segments of a side log, and a head to come.
struct JoiningFixture {
  JoiningFixture() : memory(LogMemory::open(config.memory_bytes).value()), pool(config, *memory) {
    for (Segment*& segment : segments) {
      segment = pool.allocate(SegmentKind::Side, SegmentId(++last_id));
      segment->setState(SegmentState::Closed);
    }
    next = pool.allocate(SegmentKind::Head, SegmentId(++last_id));
    request = next->id();
    LogGuard guard(lock);
    joining.noteRoll(request, {});
    joining.add(segments, request);
  }
  TakenBack takeBack(const JoiningSegments::NextHead& head) {
    LogGuard guard(lock);
    return joining.takeBack(segments, request, head);
  }
  bool isHeld() {
    LogGuard guard(lock);
    return joining.isHeld();
  }
  SegmentId wantedRoll() {
    LogGuard guard(lock);
    return joining.wantedRoll();
  }

  LogConfig config = LogConfig::forTest();
  std::unique_ptr<LogMemory> memory;
  SegmentPool pool;
  uint64_t last_id = 0;
  std::array<Segment*, 2> segments{};
  Segment* next = nullptr;
  SegmentId request;
  LogLock lock;
  JoiningSegments joining{16};
};

TEST(JoiningSegments, WhatNoHeadListsIsTakenBackAtOnce) {
  JoiningFixture fixture;
  EXPECT_EQ(fixture.wantedRoll(), fixture.request);
  EXPECT_EQ(fixture.takeBack({}), TakenBack::Yes);
  EXPECT_EQ(fixture.wantedRoll(), SegmentId());
  for (const Segment* segment : fixture.segments) {
    EXPECT_FALSE(segment->membership().is_joining);
    EXPECT_FALSE(segment->membership().joins_with);
  }
  EXPECT_EQ(fixture.takeBack({}), TakenBack::Late) << "they joined with nothing";
}

TEST(JoiningSegments, AHeadThatListsThemHasToBeWithdrawnFirst) {
  JoiningFixture fixture;
  EXPECT_EQ(fixture.takeBack({.head = {}, .unopened = {}, .is_preparing = true}), TakenBack::Wait);
  EXPECT_TRUE(fixture.isHeld());
  {
    LogGuard guard(fixture.lock);
    fixture.joining.noteListed(*fixture.next);
  }
  const JoiningSegments::NextHead unopened{.head = {}, .unopened = fixture.next->id(), .is_preparing = false};
  EXPECT_EQ(fixture.takeBack(unopened), TakenBack::Wait);
  EXPECT_TRUE(fixture.isHeld());
  {
    LogGuard guard(fixture.lock);
    fixture.joining.noteWithdrawn(fixture.next->id());
  }
  EXPECT_EQ(fixture.takeBack({}), TakenBack::Yes);
  EXPECT_FALSE(fixture.isHeld());
}

TEST(JoiningSegments, WhatAnOpenHeadListsHasJoined) {
  JoiningFixture fixture;
  LogGuard guard(fixture.lock);
  fixture.joining.noteListed(*fixture.next);
  fixture.joining.noteOpened();
  for (const Segment* segment : fixture.segments) EXPECT_FALSE(segment->membership().is_joining);
  EXPECT_EQ(fixture.joining.takeBack(fixture.segments, fixture.request, {}), TakenBack::Late);
  EXPECT_FALSE(fixture.joining.isHeld());
}

TEST(JoiningSegments, WhatTheCleanerMayHaveStays) {
  JoiningFixture fixture;
  fixture.segments[1]->membership().stays = true;
  EXPECT_EQ(fixture.takeBack({}), TakenBack::Late);
}

TEST(JoiningSegments, ARequestThatSeveralShareStaysUntilAllHaveForgottenIt) {
  LogLock lock;
  JoiningSegments joining(4);
  LogGuard guard(lock);
  joining.noteRoll(SegmentId(5), {});
  joining.noteRoll(SegmentId(7), {});
  joining.noteRoll(SegmentId(7), {});
  joining.forgetRoll(SegmentId(7));
  EXPECT_EQ(joining.wantedRoll(), SegmentId(7));
  joining.forgetRoll(SegmentId(7));
  EXPECT_EQ(joining.wantedRoll(), SegmentId(5));
  joining.noteRoll(SegmentId(9), SegmentId(6));
  joining.forgetRoll(SegmentId(9));
  EXPECT_EQ(joining.wantedRoll(), SegmentId()) << "the head has satisfied the other one";
}

}  // namespace
}  // namespace ramcore::log
