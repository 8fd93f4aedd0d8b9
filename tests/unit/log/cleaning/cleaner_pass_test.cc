/// What a pass leaves behind: digests without the segments that it gave up, and survivors in the order of age.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "log/cleaning/cleaner.h"
#include "tests/unit/log/crash_trial.h"

namespace ramcore::log {
namespace {

std::set<SegmentId> membersOf(const DigestView& digest) {
  std::set<SegmentId> members;
  for (uint32_t i = 0; i < digest.payload.count; ++i) members.insert(digest.at(i));
  return members;
}

/// Passes everything on. Whenever a segment is freed, checks the replicas as a recovery could find them just before
/// that.
class FreeWatcher final : public Replicator {
 public:
  explicit FreeWatcher(CopyingReplicator& copies) : copies_(copies) {}

  uint32_t storagePercent() const override { return copies_.storagePercent(); }
  bool isShortOfPlaces() const override { return copies_.isShortOfPlaces(); }
  void attach(ReplicationEvents& events) override { copies_.attach(events); }
  void open(const Segment& segment) override {
    std::vector<std::byte> bytes(segment.committedBytes());
    segment.copyOut(0, segment.committedBytes(), bytes.data());
    SegmentPreamble preamble;
    EXPECT_EQ(readPreamble(bytes, preamble), Status::Ok);
    if (preamble.has_digest) listed_.merge(membersOf(preamble.digest));
    copies_.open(segment);
  }
  void advance(const Segment& segment) override { copies_.advance(segment); }
  void requestFlush(LogPosition position) override { copies_.requestFlush(position); }
  void close(const Segment& segment) override { copies_.close(segment); }
  void moved(const Segment& segment) override { copies_.moved(segment); }
  void withdraw(SegmentId head) override { copies_.withdraw(head); }
  void free(SegmentId segment) override {
    const auto replica = copies_.replicas().find(segment);
    ASSERT_NE(replica, copies_.replicas().end()) << "segment " << segment.value;
    // A survivor that was not needed is freed, too: it is never closed.
    if (replica->second.closed) lookAtHeads(segment);
    copies_.free(segment);
  }

  uint64_t freedCount() const { return freed_count_; }

 private:
  void lookAtHeads(SegmentId freed) {
    ++freed_count_;
    EXPECT_TRUE(listed_.contains(freed)) << "segment " << freed.value << " was never in the log";
    const auto& replicas = copies_.replicas();
    bool is_newest = true;
    bool can_recover = false;
    for (auto one = replicas.rbegin(); one != replicas.rend(); ++one) {  // ids ascend
      const CopyingReplicator::Replica& replica = one->second;
      SegmentPreamble preamble;
      if (readPreamble(replica.bytes, preamble) != Status::Ok || !preamble.has_digest) continue;
      const std::set<SegmentId> members = membersOf(preamble.digest);
      // A recovery can also find a head that is not open everywhere yet, or one that is not closed everywhere.
      if (is_newest || !replica.closed) {
        EXPECT_FALSE(members.contains(freed)) << "head " << one->first.value << " lists segment " << freed.value;
      }
      for (const SegmentId member : members) {
        if (is_newest) EXPECT_TRUE(replicas.contains(member)) << "segment " << member.value << " was freed before";
      }
      can_recover = can_recover || (replica.opened && !replica.closed);
      is_newest = false;
    }
    EXPECT_TRUE(can_recover) << "there is no head to choose when segment " << freed.value << " is freed";
  }

  CopyingReplicator& copies_;
  std::set<SegmentId> listed_;  // in any digest so far
  uint64_t freed_count_ = 0;    // segments that were in the log
};

/// A log whose segments leave by passes alone, with a FreeWatcher.
struct WatchedLog : LogFixture {
  WatchedLog() : LogFixture(LogConfig::forTest(), false) {
    copies.setStoragePercent(80);  // no compactions
    log.reset();
    log = std::make_unique<Log>(config, LogIdentity{ClusterId(7), ServerId(11)}, *memory,
                                Log::Environment{owner, watcher, rcu, pins});
    cleaner.emplace(*log, owner, watcher);
  }
  ~WatchedLog() {
    cleaner.reset();
    log.reset();
  }

  FreeWatcher watcher{copies};
  std::optional<Cleaner> cleaner;
};

// Replication reports in a random order, so heads are found opened, half closed, and with the next one beside them.
TEST(Cleaner, EverySegmentFreedIsInNoDigestThatCanBeChosen) {
  uint64_t freed = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    WatchedLog fixture;
    CrashTrial trial{.seed = seed, .steps = 6000, .judged_every = 40, .flush_percent = 50};
    trial.run(fixture, [&](std::mt19937_64&) { fixture.cleaner->step(2048); });
    if (HasFailure()) FAIL() << "seed " << seed;
    EXPECT_EQ(fixture.log->stats().segments_compacted.load(), 0u);
    EXPECT_GT(fixture.log->stats().segments_cleaned.load(), 0u) << "seed " << seed;
    EXPECT_GE(fixture.watcher.freedCount(), fixture.log->stats().segments_cleaned.load()) << "seed " << seed;
    freed += fixture.watcher.freedCount();
  }
  EXPECT_GT(freed, 30u);
}

/// A log whose segments are written one after the other, each with entries of one age.
struct AgedLog : LogFixture {
  AgedLog() : LogFixture(headsOnRequest()), cleaner(*log, owner, copies) {
    copies.setStoragePercent(80);  // no compactions
  }

  /// No head is opened ahead, which would leave empty segments between those that are written.
  static LogConfig headsOnRequest() {
    LogConfig config = LogConfig::forTest();
    config.prepare_head_percent = 100;
    return config;
  }
  /// Fills the head with objects, and in between with entries to which nothing refers, and closes it.
  /// @return where the latter lie; they count as alive
  std::vector<EntryRef> writeSegment(const std::string& prefix, int object_count, int other_count) {
    const SegmentId head = log->headId();
    std::vector<EntryRef> others;
    for (int i = 0; i < std::max(object_count, other_count); ++i) {
      if (i < object_count) {
        written.push_back(prefix + std::to_string(i));
        EXPECT_EQ(owner.put(*log, written.back(), std::string(500, 'x')), Status::Ok);
      }
      if (i >= other_count) continue;
      const auto appended = append("nobody", std::string(500, 'y'));
      EXPECT_TRUE(appended.ok());
      if (appended.ok()) others.push_back(appended->refs[0]);
    }
    EXPECT_EQ(log->headId(), head) << "more than a segment";
    EXPECT_TRUE(log->isRolled(log->requestRoll()));
    segments.push_back(head);
    return others;
  }
  void markDead(const std::vector<EntryRef>& entries) {
    for (const EntryRef ref : entries) log->markDead(ref);
  }
  void beginPass() {
    reclaim();  // closed long enough to be cleaned
    ASSERT_EQ(cleaner.step(1), Cleaner::Progress::Worked);
    ASSERT_TRUE(cleaner.isBusy());
  }
  void endPass() {
    for (int i = 0; i < 10'000 && cleaner.isBusy(); ++i) {
      cleaner.step(4096);
      reclaim();
    }
    ASSERT_FALSE(cleaner.isBusy());
  }
  /// Whether a pass has the segment: tombstones that name it would leave with it.
  bool isInPass(const Segment* segment) const { return !log->counts().isTombstoneLive(segment); }
  /// The keys in each survivor, in the order in which these were opened.
  std::vector<std::vector<std::string>> survivors() const {
    std::vector<std::vector<std::string>> keys;
    for (const auto& [id, replica] : copies.replicas()) {
      const Segment* const segment = log->pool().find(id);
      if (segment == nullptr || segment->state() != SegmentState::Closed) continue;
      if (segment->kind() != SegmentKind::Survivor) continue;
      keys.emplace_back();
      SegmentReader reader(replica.bytes);
      for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
        for (const EntryView& entry : group) {
          if (entry.type() == EntryType::Object) keys.back().emplace_back(asText(entry.key()));
        }
      }
      EXPECT_EQ(reader.end(), WalkEnd::Clean);
    }
    return keys;
  }

  Cleaner cleaner;
  std::vector<std::string> written;  ///< keys, the oldest first
  std::vector<SegmentId> segments;   ///< the segments that were written, in this order
};

// The age of entries is not that of their segment: here the oldest entries lie in the newest segment, which gains
// least.
TEST(Cleaner, SurvivorsHoldEntriesInTheOrderOfTheirAge) {
  constexpr size_t kSegments = 3;  // of each kind
  AgedLog fixture;
  const SegmentPool& pool = fixture.log->pool();
  // So much is garbage in these three that the first pass takes them and gains enough.
  for (size_t i = 0; i < kSegments; ++i) {
    fixture.markDead(fixture.writeSegment("old" + std::to_string(i) + "/", 36, 70));
  }
  std::vector<EntryRef> others;
  for (size_t i = 0; i < kSegments; ++i) {
    const auto added = fixture.writeSegment("new" + std::to_string(i) + "/", 36, 30);
    others.insert(others.end(), added.begin(), added.end());
  }
  ASSERT_NO_FATAL_FAILURE(fixture.beginPass());
  ASSERT_NO_FATAL_FAILURE(fixture.endPass());
  std::vector<const Segment*> chosen = {pool.segmentOf(fixture.owner.refs().at("old0/0"))};
  ASSERT_EQ(chosen[0]->kind(), SegmentKind::Survivor);
  for (size_t i = 0; i < fixture.segments.size(); ++i) {
    const Segment* const segment = pool.find(fixture.segments[i]);
    if (i < kSegments) {
      EXPECT_EQ(segment, nullptr) << "segment " << i << " was left";
      continue;
    }
    ASSERT_NE(segment, nullptr) << "segment " << i << " was not left";
    chosen.push_back(segment);
    EXPECT_LT(segment->id(), chosen[0]->id());
    EXPECT_LT(segment->begunBytes(), chosen[0]->begunBytes());
  }

  fixture.markDead(others);
  ASSERT_NO_FATAL_FAILURE(fixture.beginPass());
  for (const Segment* segment : chosen) ASSERT_TRUE(fixture.isInPass(segment)) << "segment " << segment->id().value;
  ASSERT_NO_FATAL_FAILURE(fixture.endPass());
  EXPECT_EQ(fixture.log->stats().cleaner_passes.load(), 2u);
  const auto survivors = fixture.survivors();
  EXPECT_EQ(survivors.size(), 2u) << "what is old and what is new do not fit into one";
  std::vector<std::string> moved;
  for (const auto& keys : survivors) moved.insert(moved.end(), keys.begin(), keys.end());
  EXPECT_EQ(moved, fixture.written);
  for (const std::string& key : fixture.written) EXPECT_EQ(fixture.owner.get(key), std::string(500, 'x')) << key;
}

}  // namespace
}  // namespace ramcore::log
