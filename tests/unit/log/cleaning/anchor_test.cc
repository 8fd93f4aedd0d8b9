/// Tombstones that name an anchor: the cleaner keeps them until the anchor is dropped.

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

#include "log/cleaning/cleaner.h"
#include "unit/log/log_fixture.h"

namespace ramcore::log {
namespace {

constexpr size_t kAnchoredKeys = 40;

/// A server that a tablet arrives at, without the server: keys are removed with two tombstones, as the store does.
class AnchorFixture : public LogFixture {
 public:
  AnchorFixture() : cleaner_(*log, owner, copies) {}

  static std::string keyOf(size_t number) { return "removed" + std::to_string(number); }
  /// Removes a key with the tombstone of its object, and one that names the anchor.
  void removeAnchored(const std::string& key, SegmentId anchor) {
    const EntryRef dead = owner.refs().at(key);
    const Version dead_version = log->view(dead).version();
    std::array<EntryInput, 2> group;
    for (EntryInput& tombstone : group) {
      tombstone.type = EntryType::Tombstone;
      tombstone.table = TableId(1);
      tombstone.version = dead_version;
      tombstone.key = asBytes(key);
    }
    group[0].dead = dead;
    group[1].anchor = anchor;
    ASSERT_TRUE(log->append(group, AppendClass::Remove).ok());
    owner.forget(key);
  }
  void putAndRemoveAnchored(SegmentId anchor) {
    for (size_t i = 0; i < kAnchoredKeys; ++i) ASSERT_EQ(owner.put(*log, keyOf(i), "value"), Status::Ok);
    for (size_t i = 0; i < kAnchoredKeys; ++i) removeAnchored(keyOf(i), anchor);
  }
  /// Writes the memory several times over, so that each segment of now is cleaned; in the end nothing is under way.
  void churn() {
    const uint64_t goal = log->stats().appended_bytes.load() + 4 * config.memory_bytes;
    for (int i = 0; log->stats().appended_bytes.load() < goal; ++i) {
      if (cleaner_.isNeeded()) clean();
      const Status status = owner.put(*log, "churn" + std::to_string(i % 300), std::string(300, 'x'));
      ASSERT_TRUE(status == Status::Ok || status == Status::RetryLater) << name(status);
      if (status != Status::Ok) clean();
    }
    clean();
  }
  /// The bytes of all tombstones in the log that name the segment.
  int64_t bytesNaming(SegmentId named) {
    int64_t bytes = 0;
    forEachEntry([&](const EntryView& entry) {
      const bool is_tombstone = entry.type() == EntryType::Tombstone;
      if (is_tombstone && entry.namedSegment() == named) bytes += entry.alignedBytes();
    });
    return bytes;
  }
  /// The keys of the anchored tombstones that a recovery would find.
  std::set<std::string> anchoredInReplicas(SegmentId anchor) {
    std::set<std::string> keys;
    for (const auto& [id, replica] : copies.replicas()) {
      SegmentReader reader(replica.bytes);
      for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
        for (const EntryView& entry : group) {
          const bool is_anchored = entry.type() == EntryType::Tombstone && entry.namedSegment() == anchor;
          if (is_anchored) keys.insert(std::string(asText(entry.key())));
        }
      }
    }
    return keys;
  }
  /// Compares what the log has counted for tombstones with a walk over what there is.
  void expectTombstoneBytesAreRight() {
    int64_t bytes = 0;
    forEachEntry([&](const EntryView& entry) {
      const Segment* const named = entry.namesSegment() ? log->pool().find(entry.namedSegment()) : nullptr;
      if (named == nullptr || named->state() == SegmentState::Unlinked) return;
      // A dead object stands for the tombstone that the cleaner writes when it drops it.
      const bool is_due = entry.type() == EntryType::Object && entry.state() == EntryState::Superseded;
      if (is_due || entry.type() == EntryType::Tombstone) bytes += alignedTombstoneBytes(entry.keyBytes());
    });
    EXPECT_EQ(log->stats().tombstone_bytes.load(), bytes);
    expectCountsAreRight();
  }
  void clean() {
    for (int i = 0; i < 10'000; ++i) {
      const auto progress = cleaner_.step(16u << 10);
      reclaim();
      if (progress == Cleaner::Progress::Idle) return;
    }
    ADD_FAILURE() << "a pass without end";
  }

 private:
  template <typename Visit>
  void forEachEntry(Visit&& visit) {
    for (uint32_t i = 0; i < log->pool().slotCount(); ++i) {
      const Segment& segment = log->pool().slot(i);
      if (segment.state() == SegmentState::Free || segment.state() == SegmentState::Unlinked) continue;
      for (uint32_t offset = 0; offset < segment.committedBytes();) {
        const EntryView entry = log->view(segment.refAt(offset));
        visit(entry);
        offset += entry.alignedBytes();
      }
    }
  }
  Cleaner cleaner_;
};

TEST(Anchor, KeepsTheTombstonesThatNameItHoweverMuchIsCleaned) {
  AnchorFixture fixture;
  Segment* const anchor = fixture.log->privateSegments().openAnchor();
  ASSERT_NE(anchor, nullptr);
  const SegmentId id = anchor->id();
  fixture.putAndRemoveAnchored(id);
  int64_t written = 0;
  for (size_t i = 0; i < kAnchoredKeys; ++i) written += alignedTombstoneBytes(AnchorFixture::keyOf(i).size());
  EXPECT_EQ(fixture.bytesNaming(id), written);
  EXPECT_EQ(static_cast<int64_t>(anchor->live().namedByTombstoneBytes()), written);
  fixture.expectTombstoneBytesAreRight();

  for (int round = 0; round < 3; ++round) {
    const uint64_t dropped = fixture.owner.droppedCount();
    fixture.churn();
    EXPECT_EQ(fixture.anchoredInReplicas(id).size(), kAnchoredKeys) << "round " << round;
    EXPECT_EQ(fixture.bytesNaming(id), written) << "each is there once, round " << round;
    EXPECT_EQ(static_cast<int64_t>(anchor->live().namedByTombstoneBytes()), written);
    if (round == 0) EXPECT_GE(fixture.owner.droppedCount() - dropped, kAnchoredKeys) << "those of the objects are gone";
    fixture.expectTombstoneBytesAreRight();
  }

  // From here on nothing needs them: they count as dead at once, and leave with the segments that they are in.
  const int64_t live_before = fixture.log->stats().live_bytes.load();
  const int64_t tombstones_before = fixture.log->stats().tombstone_bytes.load();
  const uint64_t dropped = fixture.owner.droppedCount();
  fixture.log->privateSegments().dropAnchor(*anchor);
  fixture.reclaim();
  EXPECT_EQ(fixture.log->stats().live_bytes.load(), live_before - written);
  EXPECT_EQ(fixture.log->stats().tombstone_bytes.load(), tombstones_before - written);
  EXPECT_EQ(fixture.log->pool().find(id), nullptr);
  fixture.expectTombstoneBytesAreRight();
  for (int round = 0; round < 3; ++round) fixture.churn();
  EXPECT_TRUE(fixture.anchoredInReplicas(id).empty());
  EXPECT_EQ(fixture.bytesNaming(id), 0);
  EXPECT_GE(fixture.owner.droppedCount() - dropped, kAnchoredKeys);
  fixture.expectTombstoneBytesAreRight();
}

// It takes a slot and the least memory that a segment can have, and gives both back.
TEST(Anchor, CostsLittleAndLeavesNothing) {
  AnchorFixture fixture;
  fixture.churn();
  const size_t replicas = fixture.copies.replicas().size();
  for (uint32_t i = 0; i < 4 * fixture.log->pool().slotCount(); ++i) {
    Segment* const anchor = fixture.log->privateSegments().openAnchor();
    ASSERT_NE(anchor, nullptr) << i;
    EXPECT_FALSE(anchor->isListed());
    fixture.log->privateSegments().dropAnchor(*anchor);
    fixture.reclaim();
    fixture.reclaim();
  }
  EXPECT_EQ(fixture.copies.replicas().size(), replicas) << "nothing replicates it";
  fixture.expectTombstoneBytesAreRight();
}

}  // namespace
}  // namespace ramcore::log
