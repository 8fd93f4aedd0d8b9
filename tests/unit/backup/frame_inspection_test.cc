#include "backup/frame_inspection.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "base/crc32c.h"
#include "tests/unit/backup/store_fixture.h"

namespace ramcore::backup {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint32_t kFirstFrame = 0;  // of 16

/// A frame file in memory, to be damaged.
class CopiedFile final : public FrameBytes {
 public:
  explicit CopiedFile(ByteSpan content) : content_(content.begin(), content.end()) {}
  uint64_t bytes() const override { return content_.size(); }
  Status read(uint64_t offset_bytes, MutableByteSpan out) override {
    EXPECT_LE(offset_bytes + out.size(), content_.size());
    if (offset_bytes < unreadable_to && offset_bytes + out.size() > unreadable_from) return Status::IoError;
    std::copy_n(content_.begin() + static_cast<ptrdiff_t>(offset_bytes), out.size(), out.begin());
    return Status::Ok;
  }
  void flipBit(uint64_t at, uint32_t bit = 0) { content_[at] ^= std::byte{1} << bit; }
  void cut(uint64_t bytes) { content_.resize(bytes); }
  void fill(uint64_t at, std::byte with, uint64_t count) {
    std::fill_n(content_.begin() + static_cast<ptrdiff_t>(at), count, with);
  }
  template <Fixed T>
  void store(uint64_t at, const T& value) {
    storeAs(content_.data() + at, value);
  }
  template <Fixed T>
  T load(uint64_t at) const {
    return loadAs<T>(content_.data() + at);
  }

  uint64_t unreadable_from = 0;
  uint64_t unreadable_to = 0;

 private:
  std::vector<std::byte> content_;
};

uint64_t frameAt(uint32_t frame) { return FrameFile::fileBytes(frame, kSegmentBytes); }
uint64_t slotAt(uint32_t frame, uint32_t slot) { return frameAt(frame) + slot * kSectorBytes; }
uint64_t dataAt(uint32_t frame) { return frameAt(frame) + kBlockBytes; }

/// A file with a closed survivor in its first free frame and an open head, certified twice, in the next.
struct InspectedFile {
  InspectedFile() : survivor(kCluster, kMaster, SegmentId(3)), head(kCluster, kMaster, SegmentId(8)) {
    survivor.addObject(TableId(1), "first", "value");
    survivor.addObject(TableId(1), "second", "another value");
    head.addDigest(SegmentId(2), {SegmentId(2), SegmentId(3), SegmentId(8)});
    head.addSafeVersion(100);
    const uint32_t part = head.length();
    head.addObject(TableId(2), "third", "value");
    head.addTombstone(TableId(2), "third");
    world.start();
    EXPECT_EQ(world.put(kMaster, survivor, 1, true).frame, kFirstFrame);
    auto first = StoreWorld::makeWrite(kMaster, head, 6, 0, part, wire::WriteReplica::kOpen | wire::WriteReplica::kHead,
                                       head.certificate(part, 6, false));
    EXPECT_EQ(world.store->write(first).frame, kFirstFrame + 1);
    auto rest =
        StoreWorld::makeWrite(kMaster, head, 6, part, head.length(), 0, head.certificate(head.length(), 6, false));
    EXPECT_EQ(world.store->write(rest).status, Status::Ok);
    world.close();
    part_bytes = part;
  }
  CopiedFile copy() const { return CopiedFile(world.disk.cachedBytes("frames")); }

  StoreWorld world;
  SegmentMaker survivor;
  SegmentMaker head;
  uint32_t part_bytes = 0;
};

/// What is wrong with the file and its frames, one line each.
std::vector<std::string> damageIn(FrameBytes& file) {
  auto inspection = FrameInspection::open(file);
  if (!inspection.ok()) return {"failed: " + inspection.error().message};
  std::vector<std::string> damage = inspection->damage();
  std::vector<std::byte> bytes;
  for (uint32_t frame = 0; frame < inspection->frameCount(); ++frame) {
    for (const std::string& one : inspection->inspect(frame, bytes).damage) {
      damage.push_back("frame " + std::to_string(frame) + ": " + one);
    }
  }
  return damage;
}

TEST(FrameInspection, AnIntactFileShowsWhatWasWritten) {
  const InspectedFile made;
  CopiedFile file = made.copy();
  auto inspection = FrameInspection::open(file);
  ASSERT_TRUE(inspection.ok()) << inspection.error().message;
  EXPECT_THAT(inspection->damage(), IsEmpty());
  ASSERT_TRUE(inspection->superblock());
  EXPECT_EQ(inspection->superblock()->server, ServerId(101));
  EXPECT_EQ(inspection->copyState(0), CopyState::Whole);
  EXPECT_EQ(inspection->copyState(1), CopyState::Whole);
  ASSERT_EQ(inspection->frameCount(), 16u);
  std::vector<std::byte> bytes;
  for (uint32_t frame = 0; frame < 16; ++frame) {
    const FrameFinding finding = inspection->inspect(frame, bytes);
    EXPECT_EQ(finding.frame, frame);
    EXPECT_EQ(finding.isFree(), frame != kFirstFrame && frame != kFirstFrame + 1) << frame;
    EXPECT_THAT(finding.damage, IsEmpty());
  }
  const FrameFinding survivor = inspection->inspect(kFirstFrame, bytes);
  EXPECT_EQ(survivor.replica, made.survivor.certificate(made.survivor.length(), 1, true));
  EXPECT_FALSE(survivor.is_head);
  EXPECT_EQ(survivor.slots[1].state, SlotState::Empty);
  const FrameFinding head = inspection->inspect(kFirstFrame + 1, bytes);
  EXPECT_EQ(head.replica, made.head.certificate(made.head.length(), 6, false));
  EXPECT_TRUE(head.is_head);
  EXPECT_FALSE(head.may_be_short);
  EXPECT_EQ(head.slots[0].state, SlotState::Verified);
  EXPECT_EQ(head.slots[0].certificate.length_bytes, made.part_bytes);
  EXPECT_EQ(head.slots[1].state, SlotState::Verified);
  EXPECT_EQ(asText(bytes), asText(made.head.bytes(0, made.head.length())));
}

TEST(FrameInspection, OneDamagedSuperblockIsNamedAndTwoAreTheEnd) {
  const InspectedFile made;
  CopiedFile file = made.copy();
  file.flipBit(kBlockBytes + 24, 3);
  EXPECT_THAT(damageIn(file), ElementsAre("superblock 1 is damaged; the other one counts"));
  file.flipBit(16, 7);
  EXPECT_THAT(damageIn(file), ElementsAre(HasSubstr("both superblocks")));
  CopiedFile zeros = made.copy();
  zeros.fill(0, std::byte{0}, kBlockBytes);
  EXPECT_THAT(damageIn(zeros), ElementsAre("superblock 0 is gone; the other one counts"));
}

TEST(FrameInspection, EveryBitOfTheSuperblocksAndSlotsThatIsTurnedOverIsFound) {
  const InspectedFile made;
  CopiedFile file = made.copy();
  const auto check = [&](uint64_t from, size_t bytes) {
    for (uint64_t bit = 0; bit < bytes * 8; ++bit) {
      file.flipBit(from + bit / 8, bit % 8);
      EXPECT_EQ(damageIn(file).size(), 1u) << "byte " << from + bit / 8 << " bit " << bit % 8;
      file.flipBit(from + bit / 8, bit % 8);
    }
  };
  check(0, sizeof(Superblock));
  check(kBlockBytes, sizeof(Superblock));
  check(slotAt(kFirstFrame, 0), sizeof(log::CertificateBytes));
  check(slotAt(kFirstFrame + 1, 1), sizeof(log::CertificateBytes));
  check(slotAt(0, 2), sizeof(log::CertificateBytes));
  check(frameAt(kFirstFrame) + FrameFile::kMarkOffset, sizeof(ShortMark));
  EXPECT_THAT(damageIn(file), IsEmpty());
}

TEST(FrameInspection, ABrokenCertificateLeavesTheOlderOne) {
  const InspectedFile made;
  CopiedFile file = made.copy();
  file.flipBit(slotAt(kFirstFrame + 1, 1) + 41, 2);
  EXPECT_THAT(damageIn(file), ElementsAre("frame 1: certificate 1 is broken: its checksum is wrong"));
  auto inspection = FrameInspection::open(file);
  std::vector<std::byte> bytes;
  const FrameFinding finding = inspection->inspect(kFirstFrame + 1, bytes);
  ASSERT_TRUE(finding.replica);
  EXPECT_EQ(finding.replica->length_bytes, made.part_bytes);
  EXPECT_EQ(finding.slots[1].state, SlotState::Broken);
}

TEST(FrameInspection, ATurnedBitInAnEntryNamesTheEntry) {
  const InspectedFile made;
  const uint32_t at = made.survivor.groupEnds()[1];  // the second object
  CopiedFile file = made.copy();
  file.flipBit(dataAt(kFirstFrame) + at + log::kEntryHeaderBytes, 5);
  EXPECT_THAT(
      damageIn(file),
      ElementsAre("frame 0: certificate 0 is unfulfilled: bad checksum in the entry at offset " + std::to_string(at)));
  auto inspection = FrameInspection::open(file);
  std::vector<std::byte> bytes;
  const FrameFinding finding = inspection->inspect(kFirstFrame, bytes);
  EXPECT_FALSE(finding.replica);
  ASSERT_NE(finding.newest(), nullptr);
  EXPECT_EQ(finding.newest()->segment, SegmentId(3));
  std::vector<std::pair<uint32_t, log::DecodeError>> entries;
  EXPECT_EQ(
      walkEntries(bytes, [&](const EntryFinding& entry) { entries.emplace_back(entry.offset_bytes, entry.error); }),
      made.survivor.length());
  using log::DecodeError;
  EXPECT_THAT(entries,
              ElementsAre(std::pair(0u, DecodeError::None), std::pair(made.survivor.groupEnds()[0], DecodeError::None),
                          std::pair(at, DecodeError::BadChecksum)));
}

TEST(FrameInspection, EveryTurnedBitOfCertifiedBytesIsFound) {
  const InspectedFile made;
  CopiedFile file = made.copy();
  for (uint32_t byte = 0; byte < made.survivor.length(); ++byte) {
    file.flipBit(dataAt(kFirstFrame) + byte, byte % 8);
    const std::vector<std::string> damage = damageIn(file);
    file.flipBit(dataAt(kFirstFrame) + byte, byte % 8);
    // The state byte is no part of what is certified.
    const auto& ends = made.survivor.groupEnds();
    const bool is_state = byte == 1 || std::find(ends.begin(), ends.end(), byte - 1) != ends.end();
    EXPECT_EQ(damage.size(), is_state ? 0u : 1u) << byte;
  }
}

TEST(FrameInspection, BytesOfAnotherSegmentDoNotFulfilACertificate) {
  const InspectedFile made;
  CopiedFile file = made.copy();
  const SegmentMaker other(kCluster, kMaster, SegmentId(9));
  log::Certificate certificate = other.certificate(other.length(), 1, true);
  certificate.length_bytes = made.survivor.groupEnds()[0];
  file.store(slotAt(kFirstFrame, 0), log::encodeCertificate(certificate));
  EXPECT_THAT(damageIn(file), ElementsAre(HasSubstr("the bytes are those of segment 3 of server 5")));
  certificate.cluster = ClusterId(99);
  file.store(slotAt(kFirstFrame, 0), log::encodeCertificate(certificate));
  EXPECT_THAT(damageIn(file), ElementsAre(HasSubstr("another cluster")));
  certificate.cluster = kCluster;
  certificate.length_bytes = UINT32_MAX;
  file.store(slotAt(kFirstFrame, 0), log::encodeCertificate(certificate));
  EXPECT_THAT(damageIn(file), ElementsAre(HasSubstr("a frame has 16384")));
}

TEST(FrameInspection, AFileThatWasCutOffShowsWhatIsLeft) {
  const InspectedFile made;
  for (const uint64_t bytes : {frameAt(16) - 1, frameAt(15) + FrameFile::kUsedHeaderBytes, frameAt(15), frameAt(6)}) {
    CopiedFile file = made.copy();
    file.cut(bytes);
    auto inspection = FrameInspection::open(file);
    ASSERT_TRUE(inspection.ok());
    EXPECT_THAT(inspection->damage(), ElementsAre(HasSubstr("are cut off"))) << bytes;
    EXPECT_EQ(inspection->frameCount(), bytes == frameAt(6) ? 6u : bytes == frameAt(15) ? 15u : 16u);
    EXPECT_THAT(damageIn(file), ElementsAre(HasSubstr("are cut off")));
  }
  CopiedFile within = made.copy();
  within.cut(dataAt(kFirstFrame) + 10);
  EXPECT_THAT(damageIn(within),
              ElementsAre(HasSubstr("frames from 0 on are cut off"), HasSubstr("frame 0: certificate 0")));
  for (uint64_t bytes = 0; bytes < 2 * kBlockBytes; bytes += 512) {
    CopiedFile file = made.copy();
    file.cut(bytes);
    EXPECT_THAT(damageIn(file), ElementsAre(HasSubstr("failed: this is no frame file")));
  }
}

TEST(FrameInspection, WhatCannotBeReadIsDamage) {
  const InspectedFile made;
  CopiedFile file = made.copy();
  file.unreadable_from = dataAt(kFirstFrame) + 8;
  file.unreadable_to = file.unreadable_from + 1;
  EXPECT_THAT(damageIn(file), ElementsAre("frame 0: its bytes cannot be read", HasSubstr("frame 0: certificate 0")));
  file.unreadable_from = frameAt(kFirstFrame);
  file.unreadable_to = file.unreadable_from + 1;
  EXPECT_THAT(damageIn(file), ElementsAre("frame 0: its header cannot be read"));
  file.unreadable_from = 0;
  file.unreadable_to = 1;
  EXPECT_THAT(damageIn(file), ElementsAre(HasSubstr("cannot read superblock 0")));
}

TEST(FrameInspection, AMarkedReplicaMayBeShort) {
  InspectedFile made;
  made.world.disk.hidePowerEpoch();
  made.world.start();
  made.world.close();
  CopiedFile file = made.copy();
  auto inspection = FrameInspection::open(file);
  ASSERT_TRUE(inspection.ok());
  std::vector<std::byte> bytes;
  EXPECT_TRUE(inspection->inspect(kFirstFrame + 1, bytes).may_be_short);
  EXPECT_FALSE(inspection->inspect(kFirstFrame, bytes).may_be_short) << "it is closed";
}

TEST(FrameInspection, WhatIsNotAFrameFileOrWasNeverUsed) {
  const InspectedFile made;
  CopiedFile file = made.copy();
  file.fill(0, std::byte{0}, 2 * kBlockBytes);
  auto unused = FrameInspection::open(file);
  ASSERT_TRUE(unused.ok());
  EXPECT_FALSE(unused->superblock());
  EXPECT_EQ(unused->frameCount(), 0u);
  file.fill(0, std::byte{'x'}, kBlockBytes);
  EXPECT_THAT(damageIn(file), ElementsAre(HasSubstr("this is no frame file")));

  CopiedFile other = made.copy();
  auto superblock = other.load<Superblock>(0);
  superblock.format = 2;
  superblock.crc = crc32c(bytesOf(superblock).first(offsetof(Superblock, crc)));
  other.store(0, superblock);
  EXPECT_EQ(FrameInspection::open(other).status(), Status::WrongFormat);
}

TEST(FrameInspection, ImpossibleSizesAreRefused) {
  const InspectedFile made;
  for (const uint32_t frame_bytes : {0U, log::kSegmentBytesMax + 1, UINT32_MAX}) {
    CopiedFile file = made.copy();
    for (const uint64_t at : {uint64_t{0}, kBlockBytes}) {
      auto superblock = file.load<Superblock>(at);
      superblock.frame_bytes = frame_bytes;
      superblock.crc = crc32c(bytesOf(superblock).first(offsetof(Superblock, crc)));
      file.store(at, superblock);
    }
    EXPECT_EQ(FrameInspection::open(file).status(), Status::Corrupt) << frame_bytes;
  }
  CopiedFile many = made.copy();
  for (const uint64_t at : {uint64_t{0}, kBlockBytes}) {
    auto superblock = many.load<Superblock>(at);
    superblock.frame_count = FrameFile::kFrameCountMax;
    superblock.crc = crc32c(bytesOf(superblock).first(offsetof(Superblock, crc)));
    many.store(at, superblock);
  }
  EXPECT_THAT(damageIn(many), ElementsAre(HasSubstr("frames from 16 on are cut off")));
}

TEST(WalkEntries, EndsWhereNothingSaysWhatFollows) {
  SegmentMaker segment(kCluster, kMaster, SegmentId(3));
  segment.addObject(TableId(1), "key", "value");
  const ByteSpan made = segment.bytes(0, segment.length());
  for (uint32_t length = 0; length <= made.size(); ++length) {
    uint32_t shown = 0;
    const uint32_t end = walkEntries(made.first(length), [&](const EntryFinding& entry) {
      shown += entry.error == log::DecodeError::None ? 1 : 0;
      EXPECT_EQ(static_cast<bool>(entry.entry), entry.error == log::DecodeError::None);
    });
    EXPECT_EQ(shown, length < segment.groupEnds()[0] ? 0u : length < made.size() ? 1u : 2u);
    EXPECT_EQ(end, shown == 0 ? 0u : segment.groupEnds()[shown - 1]);
  }
}

}  // namespace
}  // namespace ramcore::backup
