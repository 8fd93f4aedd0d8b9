#include "backup/frame_table.h"

#include <gmock/gmock.h>

namespace ramcore::backup {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Makes `frame` the newest of the segment.
void linkFrame(FrameTable& frames, ServerId master, SegmentId segment, uint32_t frame, FrameState state) {
  frames[frame].state = state;
  frames[frame].older = frames.find(master, segment);
  frames.link(master, segment, frame);
}

TEST(FrameTable, FindsTheNewestFrameOfASegment) {
  FrameTable frames(8);
  EXPECT_EQ(frames.size(), 8u);
  EXPECT_EQ(frames.find(ServerId(1), SegmentId(2)), kNoFrame);
  linkFrame(frames, ServerId(1), SegmentId(2), 5, FrameState::Former);
  linkFrame(frames, ServerId(1), SegmentId(2), 3, FrameState::Own);
  EXPECT_EQ(frames.find(ServerId(1), SegmentId(2)), 3u);
  EXPECT_EQ(frames[3].older, 5u);
  EXPECT_EQ(frames.find(ServerId(2), SegmentId(2)), kNoFrame);
  EXPECT_EQ(frames.find(ServerId(1), SegmentId(1)), kNoFrame);
}

TEST(FrameTable, ListsMastersAndSegmentsInOrder) {
  FrameTable frames(8);
  linkFrame(frames, ServerId(7), SegmentId(9), 0, FrameState::Own);
  linkFrame(frames, ServerId(7), SegmentId(2), 1, FrameState::Former);
  linkFrame(frames, ServerId(7), SegmentId(2), 2, FrameState::Own);
  linkFrame(frames, ServerId(4), SegmentId(3), 3, FrameState::Former);
  EXPECT_THAT(frames.masters(), ElementsAre(ServerId(4), ServerId(7)));
  EXPECT_THAT(frames.segments(ServerId(7)), ElementsAre(SegmentId(2), SegmentId(9)));
  EXPECT_THAT(frames.formerSegments(ServerId(7)), ElementsAre(SegmentId(2)));
  frames.unlink(ServerId(7), SegmentId(2));
  EXPECT_THAT(frames.segments(ServerId(7)), ElementsAre(SegmentId(9)));
  frames.unlink(ServerId(7), SegmentId(9));
  EXPECT_THAT(frames.masters(), ElementsAre(ServerId(4)));
  EXPECT_THAT(frames.segments(ServerId(7)), IsEmpty());
}

TEST(FrameTable, AnOpenReplicaMayBeShortUpToTheEpochOfItsMark) {
  FrameTable frames(8);
  linkFrame(frames, ServerId(1), SegmentId(2), 5, FrameState::Former);
  frames[5].short_epoch = 3;
  log::Certificate loaded{.cluster = {}, .master = ServerId(1), .segment = SegmentId(2), .replica_epoch = 3};
  frames[5].certificate = loaded;
  EXPECT_TRUE(frames.mayBeShort(loaded));
  loaded.closed = true;
  EXPECT_FALSE(frames.mayBeShort(loaded));
  loaded.closed = false;
  loaded.replica_epoch = 4;
  EXPECT_FALSE(frames.mayBeShort(loaded));
  loaded.segment = SegmentId(8);
  EXPECT_FALSE(frames.mayBeShort(loaded)) << "has no storage frame here";
}

TEST(FrameTable, OnlyBytesUnderACertificateOfThePresentEpochAreCertified) {
  StorageFrame frame;
  frame.replica_epoch = 2;
  frame.certificate.replica_epoch = 2;
  frame.certificate.length_bytes = 100;
  EXPECT_EQ(frame.certifiedBytes(), 0u);
  frame.certified = true;
  EXPECT_EQ(frame.certifiedBytes(), 100u);
  frame.replica_epoch = 3;
  EXPECT_EQ(frame.certifiedBytes(), 0u);
}

}  // namespace
}  // namespace ramcore::backup
