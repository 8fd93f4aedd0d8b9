#include "soak/support/log_rebuild.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "accounting/log_recount.h"
#include "log/format/log_reader.h"
#include "log/side_log.h"
#include "store/dead_versions.h"

namespace ramcore::soak {
namespace {

constexpr int kDifferencesMax = 10;
constexpr int kTurnsMax = 100'000;

template <typename Item>
void mixUp(std::vector<Item>& items, runtime::Random& random) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(i)]);
}

std::vector<std::byte> bytesOfSegment(const log::Segment& segment) {
  std::vector<std::byte> bytes(segment.committedBytes());
  segment.copyOut(0, segment.committedBytes(), bytes.data());
  return bytes;
}

void listDigest(log::Log& log, std::vector<SegmentId>& members) {
  const log::Segment* const head = log.pool().find(log.headId());
  ASSERT_NE(head, nullptr);
  const std::vector<std::byte> bytes = bytesOfSegment(*head);
  log::SegmentPreamble preamble;
  ASSERT_EQ(log::readPreamble(bytes, preamble), Status::Ok);
  ASSERT_TRUE(preamble.has_digest);
  for (uint32_t i = 0; i < preamble.digest.payload.count; ++i) members.push_back(preamble.digest.at(i));
}

// The entries of one segment that say something about objects and results; raises the safe version by the others.
void readContents(const std::vector<std::byte>& bytes, store::ObjectStore& store,
                  std::vector<log::EntryView>& contents) {
  log::SegmentReader reader(bytes);
  for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
    for (const log::EntryView& entry : group) {
      switch (entry.type()) {
        case log::EntryType::Object:
        case log::EntryType::Tombstone:
        case log::EntryType::ResultRecord:
          contents.push_back(entry);
          break;
        case log::EntryType::SafeVersion:
          store.raiseSafeVersion(entry.payloadAs<log::SafeVersionPayload>().version);
          break;
        default:
          break;
      }
    }
  }
  ASSERT_EQ(reader.end(), log::WalkEnd::Clean) << log::name(reader.end());
}

void replaySegments(SoakStore& source, SoakStore& target, log::SideLog& side, runtime::RcuReader self,
                    runtime::Random& random, Rebuilt& rebuilt) {
  std::vector<SegmentId> members;
  listDigest(source.log(), members);
  if (::testing::Test::HasFatalFailure()) return;
  mixUp(members, random);
  store::DeadVersions dead(members, 1);
  for (const SegmentId member : members) {
    const log::Segment* const segment = source.log().pool().find(member);
    ASSERT_NE(segment, nullptr) << "the digest lists segment " << member.value << ", which is gone";
    const std::vector<std::byte> bytes = bytesOfSegment(*segment);
    std::vector<log::EntryView> entries;
    readContents(bytes, target.store(), entries);
    if (::testing::Test::HasFatalFailure()) return;
    mixUp(entries, random);
    for (std::span<const log::EntryView> rest = entries; !rest.empty();) {
      const auto batch = rest.first(std::min<size_t>(rest.size(), 64));
      size_t taken = 0;
      const Status status = target.store().replay().replayBatch(batch, side, taken, &dead);
      ASSERT_EQ(status, Status::Ok) << name(status) << " of an entry of type " << static_cast<int>(batch[taken].type())
                                    << " and " << batch[taken].alignedBytes() << " bytes in segment " << member.value;
      rest = rest.subspan(batch.size());
      target.turn(self);
    }
    dead.segmentDone();
    ++rebuilt.segments;
    rebuilt.entries += entries.size();
  }
}

}  // namespace

void rebuild(SoakStore& source, SoakStore& target, runtime::RcuReader self, runtime::Random& random, Rebuilt& rebuilt) {
  log::SideLog side(target.log(), target.replicator());
  replaySegments(source, target, side, self, random, rebuilt);
  int turns = 0;
  if (!::testing::Test::HasFatalFailure()) {
    side.close();
    for (; !side.isClosed() && turns < kTurnsMax; ++turns) target.turn(self);
    EXPECT_TRUE(side.isClosed());
  }
  if (!side.isClosed()) return side.leave();
  side.join();
  for (; !side.isJoined() && turns < kTurnsMax; ++turns) target.turn(self);
  ASSERT_TRUE(side.isJoined()) << "no head of the rebuilt store takes its segments over";
}

void compare(const SoakStore& store, const SoakModel& model, std::string_view what) {
  int differences = 0;
  for (uint32_t number = 0; number < model.keyCount(); ++number) {
    std::string wrong = model.judge(number, store.find(model.key(number)));
    // Of a key that is gone only this is left: its next version has to be a new one.
    const Version known = model.at(number).version;
    if (wrong.empty() && !model.isPresent(number) && store.store().safeVersionNow() <= known) {
      wrong = "key '" + model.key(number) + "' is gone and had version " + std::to_string(known) +
              ", the next new object gets version " + std::to_string(store.store().safeVersionNow());
    }
    if (!wrong.empty() && ++differences <= kDifferencesMax) ADD_FAILURE() << what << ": " << wrong;
  }
  EXPECT_EQ(differences, 0) << what << ": keys that differ";
}

void compareCounters(SoakStore& store, std::span<const SoakModel* const> models) {
  uint64_t objects = 0;
  uint64_t bytes = 0;
  uint64_t carried = 0;
  for (const SoakModel* model : models) {
    objects += model->presentCount();
    // As they lie there: some name a segment, and are longer for it.
    uint64_t unnamed_bytes = 0;
    for (uint32_t number = 0; number < model->keyCount(); ++number) {
      const store::Found found = store.find(model->key(number));
      if (!found.ref) continue;
      const bool carries = found.entry.carriesResult() && !found.entry.isAcknowledged();
      bytes += found.entry.alignedBytes() - (carries ? 0 : found.entry.resultBytes());
      carried += carries ? 1 : 0;
      unnamed_bytes += found.entry.copyBytes({.name = false, .result = false});
    }
    EXPECT_EQ(unnamed_bytes, model->entryBytes());
  }
  EXPECT_EQ(store.store().objectCount(), objects);
  constexpr uint32_t kRecordBytes = log::alignedEntryBytes(0, sizeof(log::ResultRecordPayload) + 8, false);
  bytes += (store.results().recordCount() - carried) * kRecordBytes;
  const log::LogStats& stats = store.stats();
  EXPECT_EQ(stats.live_bytes.load(), static_cast<int64_t>(bytes) + stats.tombstone_bytes.load())
      << "bytes are counted as alive that are not, or the other way round";
}

void recountLog(SoakStore& store, runtime::RcuReader self) {
  constexpr uint32_t kBytesPerStep = 64 * 1024;
  const auto refers = [&store](log::EntryRef ref, const log::EntryView& entry) {
    if (entry.type() == log::EntryType::ResultRecord) {
      const auto record = entry.payloadAs<log::ResultRecordPayload>();
      return store.results().isLive(record.client, record.sequence, ref);
    }
    const KeyHash hash = hashKey(entry.table(), entry.key());
    return store.store().lookup(entry.table(), hash, entry.key()).ref == ref;
  };
  log::Cleaner& cleaner = store.maintenanceParts().cleaner;
  const auto awaits = [&store](log::EntryRef ref, const log::CarriedResult& carried) {
    return store.results().isLive(carried.client, carried.sequence, ref);
  };
  accounting::Recount recount = accounting::recount(store.log(), refers, awaits);
  for (int turns = 0; !recount.is_quiet && turns < kTurnsMax; ++turns) {
    if (cleaner.isBusy()) static_cast<void>(cleaner.step(kBytesPerStep));
    store.turn(self);
    if (!cleaner.isBusy()) recount = accounting::recount(store.log(), refers, awaits);
  }
  ASSERT_TRUE(recount.is_quiet) << "a pass does not end, or what it gave up is not freed";
  for (const std::string& difference : recount.differences) ADD_FAILURE() << difference;
  EXPECT_EQ(recount.results, store.results().recordCount());
  std::printf("recounted %llu segments with %llu entries\n", static_cast<unsigned long long>(recount.segments),
              static_cast<unsigned long long>(recount.entries));
}

}  // namespace ramcore::soak
