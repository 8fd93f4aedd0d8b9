/// Results that objects carry: their bytes, and how they are counted in each order of events.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "log/cleaning/entry_mover.h"
#include "log/cleaning/memory_scrubber.h"
#include "log/format/entry_writer.h"
#include "tests/unit/log/log_fixture.h"

namespace ramcore::log {
namespace {

constexpr uint8_t kWriteOpcode = 17;

CarriedResult resultWith(uint64_t sequence, uint64_t acknowledged) {
  return {ClientId(0x0102030405060708), Sequence(sequence), Sequence(acknowledged), kWriteOpcode};
}

/// An object with what it may have: the caller sets what it has.
struct Carrying {
  explicit Carrying(std::string object_key, std::string object_value)
      : key(std::move(object_key)), value(std::move(object_value)) {}
  EntryInput input(const CarriedResult* result, bool names, uint32_t expiry_s = 0) {
    payload = asBytes(value);
    return {.type = EntryType::Object,
            .table = TableId(5),
            .version = 9,
            .key = asBytes(key),
            .payload = std::span(&payload, 1),
            .expiry_s = expiry_s,
            .dead = names ? EntryRef::fromOffset(64) : EntryRef(),
            .result = result};
  }
  static std::vector<std::byte> write(const EntryInput& input, bool continues = false) {
    std::vector<std::byte> bytes(input.alignedBytes(), std::byte{0xee});
    writeEntry(bytes.data(), input, continues, SegmentId(0xa1a2a3a4a5));
    return bytes;
  }
  std::string key;
  std::string value;
  ByteSpan payload;
};

DecodeError errorOfBytes(std::vector<std::byte> bytes, EntryView& view) {
  storeAs(bytes.data() + offsetof(EntryHeader, crc), EntryView(bytes.data()).computeCrc());
  return decodeEntry(bytes, view);
}

TEST(CarriedFormat, Bytes) {
  const CarriedResult result = resultWith(0xc1c2c3c4c5c6, 0xc1c2c3c4c5c6 - 0xd1d2d3d4);
  Carrying object("key", "value");
  std::vector<std::byte> bytes = Carrying::write(object.input(&result, true));
  const std::vector<uint8_t> wanted = {0x51, 0x00, 3,    0,    5,    0,    0,    5,    0, 0,
                                       0,                                      // object, names, carries; lengths; table
                                       0,    0,    0,    0,                    // checksum
                                       9,    0,    0,    0,    0,    0,    0,  // version
                                       0xa5, 0xa4, 0xa3, 0xa2, 0xa1,           // named segment
                                       0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,  // client
                                       0xc6, 0xc5, 0xc4, 0xc3, 0xc2, 0xc1,              // sequence
                                       0xd4, 0xd3, 0xd2, 0xd1, 17,                      // ahead, opcode
                                       'k',  'e',  'y',  'v',  'a',  'l',  'u',  'e',  0, 0};
  EntryView view;
  ASSERT_EQ(decodeEntry(bytes, view), DecodeError::None);
  EXPECT_EQ(view.carriedResult(), result);
  EXPECT_EQ(view.namedSegment(), SegmentId(0xa1a2a3a4a5));
  storeAs(bytes.data() + offsetof(EntryHeader, crc), uint32_t{0});
  ASSERT_EQ(bytes.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(static_cast<uint8_t>(bytes[i]), wanted[i]) << "byte " << i;

  EXPECT_EQ(alignedEntryBytes(30, 100, false, true, true), 176u);
  EXPECT_EQ(alignedEntryBytes(30, 100, false, false, true), 176u);
  EXPECT_EQ(alignedEntryBytes(30, 100, false, false, false), 152u);
}

TEST(CarriedFormat, NumbersUpToTheirLimits) {
  constexpr uint64_t kLast = CarriedResult::kSequenceMax;
  const ClientId client(1);
  EXPECT_TRUE(CarriedResult::canCarry(client, Sequence(kLast), Sequence(kLast - UINT32_MAX)));
  EXPECT_FALSE(CarriedResult::canCarry(client, Sequence(kLast), Sequence(kLast - UINT32_MAX - 1)));
  EXPECT_FALSE(CarriedResult::canCarry(client, Sequence(kLast + 1), Sequence(kLast)));
  EXPECT_FALSE(CarriedResult::canCarry(client, Sequence(4), Sequence(4)));
  EXPECT_FALSE(CarriedResult::canCarry(client, Sequence(4), Sequence(5)));
  EXPECT_FALSE(CarriedResult::canCarry(ClientId(), Sequence(4), Sequence(3)));
  for (const CarriedResult& result : {resultWith(kLast, kLast - UINT32_MAX), resultWith(1, 0)}) {
    Carrying object("k", "");
    const std::vector<std::byte> bytes = Carrying::write(object.input(&result, false));
    EntryView view;
    ASSERT_EQ(decodeEntry(bytes, view), DecodeError::None);
    EXPECT_EQ(view.carriedResult(), result);
  }
}

TEST(CarriedFormat, WhatNobodyWritesIsRefused) {
  const CarriedResult result = resultWith(8, 4);
  Carrying object("key", "value");
  const std::vector<std::byte> right = Carrying::write(object.input(&result, false));
  EntryView view;
  ASSERT_EQ(errorOfBytes(right, view), DecodeError::None);
  const auto errorWith = [&](size_t at, uint64_t value, size_t bytes) {
    std::vector<std::byte> changed = right;
    std::memcpy(changed.data() + kEntryHeaderBytes + at, &value, bytes);
    return errorOfBytes(changed, view);
  };
  EXPECT_EQ(errorWith(0, 0, 8), DecodeError::BadLength) << "of nobody";
  EXPECT_EQ(errorWith(8, 0, 6), DecodeError::BadLength) << "call 0";
  EXPECT_EQ(errorWith(14, 0, 4), DecodeError::BadLength) << "acknowledged already";
  EXPECT_EQ(errorWith(14, 9, 4), DecodeError::BadLength) << "before call 0";
  EXPECT_EQ(errorWith(14, 8, 4), DecodeError::None);
  for (int type = 0; type < 16; ++type) {
    std::vector<std::byte> changed = right;
    changed[0] = static_cast<std::byte>(type | kCarriesResult);
    const bool is_object = static_cast<EntryType>(type) == EntryType::Object;
    EXPECT_EQ(errorOfBytes(changed, view), is_object ? DecodeError::None : DecodeError::BadType) << "type " << type;
  }
}

TEST(CarriedFormat, ACopyIsWhatWouldHaveBeenWritten) {
  const CarriedResult result = resultWith(8, 4);
  Carrying object("some key", "some value");
  for (int bits = 0; bits < 64; ++bits) {
    const bool names = (bits & 1) != 0;
    const bool carries = (bits & 2) != 0;
    const bool continues = (bits & 4) != 0;
    const uint32_t expiry_s = (bits & 8) != 0 ? 77 : 0;
    const Keep keep{.name = (bits & 16) != 0, .result = (bits & 32) != 0};
    std::vector<std::byte> bytes =
        Carrying::write(object.input(carries ? &result : nullptr, names, expiry_s), continues);
    bytes[1] = static_cast<std::byte>(EntryState::Superseded);
    const EntryView entry(bytes.data());
    const EntryInput wanted_input =
        object.input(carries && keep.result ? &result : nullptr, names && keep.name, expiry_s);
    const std::vector<std::byte> wanted = Carrying::write(wanted_input);
    ASSERT_EQ(entry.copyBytes(keep), wanted.size());
    std::vector<std::byte> copy(wanted.size(), std::byte{0xee});
    copyEntry(copy.data(), entry, keep);
    EXPECT_EQ(copy, wanted) << bits;
    const EntryView view(copy.data());
    EXPECT_EQ(asText(view.key()), "some key");
    EXPECT_EQ(asText(view.payload()), "some value");
    if (expiry_s != 0) EXPECT_EQ(view.expiry(), 77u);
    EXPECT_EQ(entry.resultBytes(), carries ? bytes.size() - entry.copyBytes({.name = true, .result = false}) : 0u);
    EXPECT_EQ(wanted_input.resultBytes(), view.resultBytes());
  }
}

/// A log with objects that carry results, and a target and an owner for what moves them.
struct CarryingLog : LogFixture, MoveTarget {
  CarryingLog() {
    log->integrity().setObserver(&observer);
    log->requestRoll();
  }
  ~CarryingLog() override { log.reset(); }

  EntryRef put(const std::string& key, size_t value_bytes) {
    const CarriedResult result = resultWith(8, 4);
    Carrying object(key, std::string(value_bytes, 'v'));
    EntryInput input = object.input(&result, false);
    const auto appended = log->append(std::span(&input, 1), AppendClass::Write);
    EXPECT_TRUE(appended.ok());
    return appended.ok() ? appended->refs[0] : EntryRef();
  }
  Segment& closeHead() {
    Segment& segment = *log->pool().find(log->headId());
    log->requestRoll();
    reclaim();
    EXPECT_EQ(segment.state(), SegmentState::Closed);
    return segment;
  }
  struct Counts {
    int64_t live, results, large;
    bool operator==(const Counts&) const = default;
  };
  Counts all() const {
    const LogStats& stats = log->stats();
    return {stats.live_bytes.load(), stats.result_bytes.load(), stats.large_bytes.load()};
  }
  Counts of(EntryRef ref) const {
    const Segment& segment = *log->pool().segmentOf(ref);
    return {segment.live().bytes(), segment.live().resultBytes(), segment.live().largeBytes()};
  }
  Place place(uint32_t aligned_bytes, bool) override {
    Place place{.segment = survivor, .ref = {}, .before = survivor->cursor()};
    Segment::Cursor cursor = place.before;
    if (!survivor->place(cursor, aligned_bytes, place.ref)) return {};
    survivor->adopt(cursor);
    return place;
  }
  /// Answers for all objects, after `at_swap`.
  struct Owner final : EntryOwner {
    Moved relocated(EntryRef from, EntryRef to, const EntryView&, Hint) override {
      moved_to = to;
      return at_swap(from, to);
    }
    void dropped(EntryRef, const EntryView&) override {}
    SafeVersionPayload safeVersion() override { return {}; }
    std::function<Moved(EntryRef, EntryRef)> at_swap = [](EntryRef, EntryRef) { return Moved::Yes; };
    EntryRef moved_to;
  };
  void move(Segment& from) {
    survivor = log->privateSegments().open(SegmentKind::Survivor, 32 << 10);
    ASSERT_NE(survivor, nullptr);
    EntryMover mover(*log, mover_owner);
    uint32_t offset = 0;
    EXPECT_TRUE(mover.move(from, offset, from.committedBytes(), *this));
    survivor->commit(survivor->cursor().offset);
    copies.advance(*survivor);
  }
  void endMove() { log->privateSegments().close(*survivor); }
  struct Observer final : DamageObserver {
    bool canRestore() const override { return true; }
    void onDamaged(const Damage& damage) override { damages.push_back(damage); }
    std::vector<Damage> damages;
  };
  ByteSpan replicaFrom(const Damage& damage) {
    return ByteSpan(copies.replicas().at(damage.segment).bytes).subspan(damage.offset_bytes);
  }
  void flipKey(EntryRef ref) {
    const auto at = log->view(ref).key().data() - log->view(ref).address();
    memory->at(ref)[at] ^= std::byte{1};
  }

  Observer observer;
  Owner mover_owner;
  Segment* survivor = nullptr;
};

TEST(CarriedCounts, WhateverComesFirst) {
  for (const size_t value_bytes : {size_t{100}, size_t{3000}}) {  // small, and large for segments of this size
    for (const bool acknowledged_first : {true, false}) {
      CarryingLog fixture;
      const CarryingLog::Counts before = fixture.all();
      const EntryRef ref = fixture.put("key", value_bytes);
      const EntryView entry = fixture.log->view(ref);
      const int64_t bytes = entry.alignedBytes();
      const int64_t carried = entry.resultBytes();
      const bool is_large = bytes > fixture.config.smallEntryBytesMax();
      EXPECT_EQ(is_large, value_bytes == 3000);
      ASSERT_GT(carried, 0);
      const CarryingLog::Counts written = fixture.of(ref);
      EXPECT_EQ(fixture.all().live, before.live + bytes);
      EXPECT_EQ(fixture.all().results, carried);
      EXPECT_EQ(fixture.all().large, is_large ? bytes : 0);
      if (acknowledged_first) {
        fixture.log->markAcknowledged(ref);
        EXPECT_EQ(entry.state(), EntryState::Acknowledged);
        EXPECT_EQ(fixture.all(),
                  (CarryingLog::Counts{before.live + bytes - carried, 0, is_large ? bytes - carried : 0}));
        EXPECT_EQ(fixture.of(ref),
                  (CarryingLog::Counts{written.live - carried, 0, is_large ? written.large - carried : 0}));
        fixture.log->markDead(ref);
      } else {
        fixture.log->markDead(ref);
        fixture.log->markAcknowledged(ref);
      }
      EXPECT_EQ(entry.state(), EntryState::Superseded);
      EXPECT_EQ(fixture.all(), before);
      EXPECT_EQ(fixture.of(ref), (CarryingLog::Counts{written.live - bytes, 0, 0}));
    }
  }
}

TEST(CarriedCounts, ACopyHasWhatIsStillNeeded) {
  for (const bool is_acknowledged : {false, true}) {
    CarryingLog fixture;
    const EntryRef ref = fixture.put("key", 100);
    const uint32_t carried = fixture.log->view(ref).resultBytes();
    if (is_acknowledged) fixture.log->markAcknowledged(ref);
    const CarryingLog::Counts before = fixture.all();
    fixture.move(fixture.closeHead());
    const EntryRef copy = fixture.mover_owner.moved_to;
    const EntryView moved = fixture.log->view(copy);
    EXPECT_EQ(moved.carriesResult(), !is_acknowledged);
    EXPECT_TRUE(moved.verify());
    EXPECT_EQ(fixture.all(), before) << "nothing has died";
    EXPECT_EQ(fixture.of(copy), (CarryingLog::Counts{moved.alignedBytes(), is_acknowledged ? 0 : carried, 0}));
    EXPECT_EQ(fixture.of(ref).live, 0);
    EXPECT_EQ(fixture.of(ref).results, 0);
    fixture.endMove();
  }
}

TEST(CarriedCounts, AcknowledgedBetweenCopyAndSwap) {
  for (const bool dies_at_once : {false, true}) {
    CarryingLog fixture;
    const EntryRef ref = fixture.put("key", 100);
    const uint32_t carried = fixture.log->view(ref).resultBytes();
    const CarryingLog::Counts before = fixture.all();
    fixture.mover_owner.at_swap = [&](EntryRef from, EntryRef to) {
      fixture.log->markAcknowledged(from);
      // A thread that is led to the copy may kill it before it is counted.
      if (dies_at_once) fixture.log->markDead(to);
      return EntryOwner::Moved::WithoutResult;
    };
    fixture.move(fixture.closeHead());
    const EntryRef copy = fixture.mover_owner.moved_to;
    const int64_t bytes = fixture.log->view(copy).alignedBytes();
    EXPECT_TRUE(fixture.log->view(copy).carriesResult()) << "it was copied before";
    EXPECT_EQ(fixture.of(ref).live, 0);
    EXPECT_EQ(fixture.of(ref).results, 0);
    EXPECT_EQ(fixture.of(copy).results, 0);
    EXPECT_EQ(fixture.all().results, 0);
    EXPECT_EQ(fixture.log->view(copy).state(), dies_at_once ? EntryState::Superseded : EntryState::Acknowledged);
    EXPECT_EQ(fixture.of(copy).live, dies_at_once ? 0 : bytes - carried);
    EXPECT_EQ(fixture.all().live, before.live - (dies_at_once ? bytes : carried));
    fixture.endMove();
  }
}

TEST(CarriedDamage, WhatWasAcknowledgedStaysSo) {
  CarryingLog fixture;
  const EntryRef ref = fixture.put("key", 100);
  const EntryView entry = fixture.log->view(ref);
  fixture.closeHead();
  fixture.log->markAcknowledged(ref);
  const int64_t live = fixture.all().live;
  // A flipped bit of the state is mended to what the state was; until then the result is not counted twice.
  fixture.memory->at(ref)[1] ^= std::byte{0x10};
  EXPECT_TRUE(entry.isAcknowledged());
  fixture.log->integrity().mendState(ref);
  EXPECT_EQ(entry.state(), EntryState::Acknowledged);

  fixture.flipKey(ref);
  MemoryScrubber scrubber(*fixture.log);
  while (scrubber.step(16 << 10) >= 16 << 10) {
  }
  ASSERT_EQ(fixture.observer.damages.size(), 1u);
  const Damage damage = fixture.observer.damages[0];
  ASSERT_EQ(fixture.log->integrity().restore(damage, fixture.replicaFrom(damage)), Status::Ok);
  const Integrity::Released released = fixture.log->release(damage);
  EXPECT_FALSE(released.has_been_acknowledged);
  EXPECT_FALSE(released.has_died);
  EXPECT_EQ(entry.state(), EntryState::Acknowledged);
  EXPECT_EQ(fixture.all().live, live);
  fixture.log->markDead(ref);
  EXPECT_EQ(fixture.all().live, live - entry.alignedBytes() + entry.resultBytes());
}

/// The owner hears of a copy before the slice is committed, and until then no thread may look at what lies there.
TEST(CarriedDamage, AcknowledgedBeforeTheCopyIsCommitted) {
  CarryingLog fixture;
  fixture.put("key", 100);
  fixture.mover_owner.at_swap = [&](EntryRef, EntryRef to) {
    fixture.memory->at(to)[0] ^= static_cast<std::byte>(kCarriesResult);
    fixture.log->markAcknowledged(to);
    fixture.memory->at(to)[0] ^= static_cast<std::byte>(kCarriesResult);
    return EntryOwner::Moved::Yes;
  };
  fixture.move(fixture.closeHead());
  const EntryView copy = fixture.log->view(fixture.mover_owner.moved_to);
  EXPECT_TRUE(copy.carriesResult());
  EXPECT_FALSE(copy.isAcknowledged()) << "the next move finds out";
  EXPECT_TRUE(fixture.observer.damages.empty());
  fixture.endMove();
}

/// The flags of the object may be what is damaged: nothing is counted before it is restored, and then once.
TEST(CarriedDamage, AcknowledgedWhileItIsDamaged) {
  for (const bool is_noticed : {true, false}) {
    CarryingLog fixture;
    const EntryRef ref = fixture.put("key", 100);
    const EntryView entry = fixture.log->view(ref);
    const uint32_t carried = entry.resultBytes();
    fixture.closeHead();
    const CarryingLog::Counts before = fixture.all();
    fixture.memory->at(ref)[0] ^= static_cast<std::byte>(kCarriesResult);
    MemoryScrubber scrubber(*fixture.log);
    while (is_noticed && scrubber.step(16 << 10) >= 16 << 10) {
    }
    fixture.log->markAcknowledged(ref);
    ASSERT_EQ(fixture.observer.damages.size(), 1u) << "whoever comes by notices";
    EXPECT_EQ(fixture.all(), before);
    const Damage damage = fixture.observer.damages[0];
    ASSERT_EQ(fixture.log->integrity().restore(damage, fixture.replicaFrom(damage)), Status::Ok);
    const Integrity::Released released = fixture.log->release(damage);
    EXPECT_TRUE(released.has_been_acknowledged);
    EXPECT_FALSE(released.has_died);
    EXPECT_EQ(entry.state(), EntryState::Acknowledged);
    EXPECT_EQ(fixture.all().live, before.live - carried);
    EXPECT_EQ(fixture.all().results, 0);
  }
}

/// The cleaner may move an entry as soon as it is released, and leaves a state that does not tell what has been
/// counted.
struct ReleasedLog : CarryingLog {
  ReleasedLog()
      : ref(put("key", 100)), entry(log->view(ref)), bytes(entry.alignedBytes()), carried(entry.resultBytes()) {
    segment = &closeHead();
    before = all();
    before_here = of(ref);
  }
  void damage() {
    flipKey(ref);
    MemoryScrubber scrubber(*log);
    while (scrubber.step(16 << 10) >= 16 << 10) {
    }
    ASSERT_EQ(observer.damages.size(), 1u);
  }
  /// Restores the bytes; while the mark is there, the object is not moved.
  void restore() {
    ASSERT_EQ(log->integrity().restore(observer.damages[0], replicaFrom(observer.damages[0])), Status::Ok);
    survivor = log->privateSegments().open(SegmentKind::Survivor, 32 << 10);
    ASSERT_NE(survivor, nullptr);
    EntryMover mover(*log, mover_owner);
    uint32_t offset = 0;
    EXPECT_FALSE(mover.move(*segment, offset, segment->committedBytes(), *this));
    EXPECT_EQ(entry.state(), EntryState::Restoring);
    EXPECT_EQ(mover_owner.moved_to, EntryRef());
    log->privateSegments().close(*survivor);
  }
  void release() {
    log->release(observer.damages[0]);
    EXPECT_FALSE(segment->isDamaged());
  }
  /// @param lost  how many of the object's bytes were alive before and are not any more
  void expectLost(int64_t lost) const {
    EXPECT_EQ(all().live, before.live - lost);
    EXPECT_EQ(all().results, 0);
    EXPECT_EQ(of(ref).live, before_here.live - lost);
    EXPECT_EQ(of(ref).results, 0);
  }

  EntryRef ref;
  EntryView entry;
  int64_t bytes;
  int64_t carried;
  Segment* segment = nullptr;
  Counts before{};
  Counts before_here{};
};

TEST(CarriedDamage, ADeathIsCountedBeforeTheCleanerCanCome) {
  for (const char* acknowledged : {"never", "before", "meanwhile"}) {
    ReleasedLog fixture;
    if (acknowledged == std::string_view("before")) fixture.log->markAcknowledged(fixture.ref);
    const CarryingLog::Counts counts = fixture.all();
    fixture.damage();
    if (acknowledged == std::string_view("meanwhile")) fixture.log->markAcknowledged(fixture.ref);
    fixture.log->markDead(fixture.ref);
    fixture.restore();
    EXPECT_EQ(fixture.all(), counts) << "its lengths say nothing yet";
    fixture.release();
    EXPECT_EQ(fixture.entry.state(), EntryState::Superseded) << acknowledged;
    fixture.expectLost(fixture.bytes);
    fixture.mover_owner.at_swap = [](EntryRef, EntryRef) {
      ADD_FAILURE() << "it is known to be dead";
      return EntryOwner::Moved::No;
    };
    fixture.move(*fixture.segment);
    fixture.expectLost(fixture.bytes);
    EXPECT_EQ(fixture.entry.state(), EntryState::Superseded);
    fixture.endMove();
  }
}

TEST(CarriedDamage, AnAcknowledgementIsCountedBeforeTheCleanerCanCome) {
  ReleasedLog fixture;
  fixture.damage();
  fixture.log->markAcknowledged(fixture.ref);
  fixture.restore();
  EXPECT_EQ(fixture.all(), fixture.before) << "its lengths say nothing yet";
  fixture.release();
  EXPECT_EQ(fixture.entry.state(), EntryState::Acknowledged);
  fixture.expectLost(fixture.carried);
  fixture.mover_owner.at_swap = [](EntryRef, EntryRef) { return EntryOwner::Moved::WithoutResult; };
  fixture.move(*fixture.segment);
  const EntryRef copy = fixture.mover_owner.moved_to;
  EXPECT_EQ(fixture.entry.state(), EntryState::Freed);
  EXPECT_FALSE(fixture.log->view(copy).carriesResult());
  EXPECT_EQ(fixture.all().live, fixture.before.live - fixture.carried);
  EXPECT_EQ(fixture.all().results, 0);
  EXPECT_EQ(fixture.of(fixture.ref).live, fixture.before_here.live - fixture.bytes);
  EXPECT_EQ(fixture.of(fixture.ref).results, 0);
  EXPECT_EQ(fixture.of(copy).results, 0);
  fixture.endMove();
}

/// The same with a cleaner that waits at each entry until it is released.
TEST(CarriedDamage, ACleanerThatWaitsForAReleaseFindsItCounted) {
  for (int round = 0; round < 20; ++round) {
    CarryingLog fixture;
    constexpr int kObjects = 40;
    const CarryingLog::Counts empty = fixture.all();
    const auto dies = [](int i) { return i % 2 == 0; };
    std::vector<EntryRef> refs;
    for (int i = 0; i < kObjects; ++i) refs.push_back(fixture.put("key" + std::to_string(i), 100));
    const int64_t written = fixture.all().live - empty.live;
    Segment& segment = fixture.closeHead();
    for (int i = 0; i < kObjects; i += 4) fixture.log->markAcknowledged(refs[i]);  // half of those that die
    for (const EntryRef ref : refs) {
      fixture.flipKey(ref);
      uint32_t next = 0;
      EXPECT_FALSE(fixture.log->integrity().isSound(segment, segment.offsetOf(ref), next));
    }
    ASSERT_EQ(fixture.observer.damages.size(), refs.size());
    for (int i = 0; i < kObjects; ++i) {
      if (dies(i)) {
        fixture.log->markDead(refs[i]);
      } else {
        fixture.log->markAcknowledged(refs[i]);
      }
    }
    for (const Damage& damage : fixture.observer.damages) {
      ASSERT_EQ(fixture.log->integrity().restore(damage, fixture.replicaFrom(damage)), Status::Ok);
    }
    fixture.mover_owner.at_swap = [&](EntryRef from, EntryRef) {
      const auto i = static_cast<int>(std::ranges::find(refs, from) - refs.begin());
      return dies(i) ? EntryOwner::Moved::No : EntryOwner::Moved::WithoutResult;
    };
    fixture.survivor = fixture.log->privateSegments().open(SegmentKind::Survivor, 32 << 10);
    ASSERT_NE(fixture.survivor, nullptr);
    std::atomic<bool> is_waiting{false};
    std::thread cleaner([&] {
      EntryMover mover(*fixture.log, fixture.mover_owner);
      uint32_t offset = 0;
      while (!mover.move(segment, offset, segment.committedBytes(), fixture)) is_waiting.store(true);
    });
    while (!is_waiting.load()) std::this_thread::yield();
    for (const Damage& damage : fixture.observer.damages) fixture.log->release(damage);
    cleaner.join();
    fixture.survivor->commit(fixture.survivor->cursor().offset);
    fixture.copies.advance(*fixture.survivor);
    const int64_t carried = fixture.log->view(refs[0]).resultBytes();
    int64_t left = 0;
    for (int i = 0; i < kObjects; ++i) {
      if (!dies(i)) left += fixture.log->view(refs[i]).alignedBytes() - carried;
    }
    EXPECT_LT(left, written);
    EXPECT_EQ(fixture.all(), (CarryingLog::Counts{empty.live + left, 0, 0}));
    EXPECT_EQ(fixture.of(refs[0]).results, 0);
    fixture.endMove();
  }
}

TEST(CarriedDamage, EachFormIsFoundInAReplica) {
  const CarriedResult result = resultWith(8, 4);
  for (const Keep keep : {Keep{true, true}, Keep{true, false}, Keep{false, true}, Keep{false, false}}) {
    CarryingLog fixture;
    const EntryRef first = fixture.put("key", 50);
    Carrying object("key", std::string(100, 'w'));
    EntryInput input = object.input(&result, false);
    input.dead = first;
    const auto appended = fixture.log->append(std::span(&input, 1), AppendClass::Write);
    ASSERT_TRUE(appended.ok());
    const EntryRef ref = appended->refs[0];
    Segment& segment = fixture.closeHead();
    // The form is written as relocation would write it, into a segment of its own.
    const EntryView entry = fixture.log->view(ref);
    Segment* const copy = fixture.log->privateSegments().open(SegmentKind::Survivor, 1024);
    ASSERT_NE(copy, nullptr);
    Segment::Cursor cursor = copy->cursor();
    EntryRef at;
    ASSERT_TRUE(copy->place(cursor, entry.copyBytes(keep), at));
    copyEntry(fixture.memory->at(at), entry, keep);
    copy->adopt(cursor);
    copy->commit(cursor.offset);
    const std::vector<std::byte> right(fixture.memory->at(at), fixture.memory->at(at) + entry.copyBytes(keep));
    fixture.flipKey(at);
    uint32_t next = 0;
    EXPECT_FALSE(fixture.log->integrity().isSound(*copy, copy->offsetOf(at), next));
    ASSERT_EQ(fixture.observer.damages.size(), 1u);
    const std::vector<std::byte> replica = fixture.copies.replicas().at(segment.id()).bytes;
    EXPECT_EQ(fixture.log->integrity().restoreFrom(fixture.observer.damages[0], replica), Status::Ok);
    std::vector<std::byte> now(fixture.memory->at(at), fixture.memory->at(at) + right.size());
    now[1] = right[1];
    EXPECT_EQ(now, right) << keep.name << keep.result;
    fixture.log->privateSegments().close(*copy);
  }
}

}  // namespace
}  // namespace ramcore::log
