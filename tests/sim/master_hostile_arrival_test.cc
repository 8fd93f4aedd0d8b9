/// A source of a move that is not what it says, after the hand-over, when the move cannot be given up any more: what it
/// may not send is refused, and asked for again.
#include "sim/cluster/memory_damage.h"
#include "sim/hostile_source.h"

namespace ramcore::sim::raw {
namespace {

/// The tablet is handed over by a source that answers with whatever a test wants.
class MasterHostileArrivalTest : public MasterHostilePullTest {
 protected:
  MasterHostileArrivalTest() {
    EXPECT_EQ(take(9, 0, kFirstHash - 1, 1), Status::Ok);  // another one, whose keys are not to be harmed
    EXPECT_EQ(write(here_, "mine", ++sequence_, {.epoch = 1}).status, Status::Ok);
  }
  static std::string keyFrom(KeyHash first, KeyHash last, const std::string& name) {
    for (int i = 0;; ++i) {
      const std::string key = name + std::to_string(i);
      const KeyHash hash = hashOf(key);
      if (hash >= first && hash <= last) return key;
    }
  }
  static KeyHash hashOf(const std::string& key) { return hashKey(TableId(kTable), asBytes(key)); }
  static std::vector<std::byte> object(const std::string& key, const std::string& value, Version version = 5,
                                       uint32_t table = kTable) {
    const std::array<ByteSpan, 1> payload{asBytes(value)};
    return entryOf({.type = log::EntryType::Object,
                    .table = TableId(table),
                    .version = version,
                    .key = asBytes(key),
                    .payload = payload});
  }
  static constexpr Version kLost = 0;
  /// @param version  of the key that was removed; kLost: the source has lost it
  static std::vector<std::byte> tombstone(const std::string& key, Version version) {
    return entryOf({.type = log::EntryType::Tombstone,
                    .table = TableId(kTable),
                    .version = version,
                    .key = asBytes(key),
                    .payload = {},
                    .anchor = SegmentId(1)});
  }
  /// @param returns  the tablet was here before, and is handed back
  void handOverHere(bool returns = false) {
    control::PullTabletRequest ask;
    *ask.mutable_tablet() = tabletOf(kPulled, kFirstHash, kLast, kEpoch);
    ask.set_source_epoch(kSourceEpoch);
    ask.set_source(world.other_server.identity.id);
    ask.add_source_locators("sim://other");
    ask.set_returns(returns);
    ASSERT_EQ(beginPull(ask, 0), Status::Ok);
    ASSERT_EQ(pullProgress(kPulled, 0, control::PULL_PREPARED).phase(), control::PULL_PREPARED);
    ASSERT_EQ(adopt(kPulled, kEpoch, kCeiling, 0), Status::Ok);
    ASSERT_EQ(takeArriving(kPulled, kFirstHash, kLast, kEpoch, 0), Status::Ok);
  }
  /// Of a multi-read of these keys, the status of each.
  std::vector<Status> readTogether(const std::vector<std::string>& keys) {
    auto bytes = join({bytesOf(
        wire::MultiRead::Request{.header = header(Opcode::MultiRead), .count = static_cast<uint32_t>(keys.size())})});
    for (const std::string& key : keys) {
      add(bytes,
          wire::MultiRead::RequestPart{
              .epoch = TabletEpoch(kEpoch), .table = TableId(kTable), .key_bytes = static_cast<uint16_t>(key.size())},
          key);
    }
    return statusesOf<wire::MultiRead>(bytes, keys.size());
  }
  /// The same, of writes that demand that no such key exists.
  std::vector<Status> createTogether(const std::vector<std::string>& keys) {
    auto bytes = join({bytesOf(wire::MultiMutate::Request{.header = header(Opcode::MultiMutate),
                                                          .client = ClientId(1),
                                                          .acknowledged = Sequence(0),
                                                          .count = static_cast<uint32_t>(keys.size())})});
    for (const std::string& key : keys) {
      add(bytes,
          wire::MultiMutate::RequestPart{.sequence = Sequence(++sequence_),
                                         .epoch = TabletEpoch(kEpoch),
                                         .condition_version = 0,
                                         .table = TableId(kTable),
                                         .value_bytes = 0,
                                         .key_bytes = static_cast<uint16_t>(key.size()),
                                         .kind = wire::MultiMutate::Kind::Write,
                                         .condition = Condition::MustNotExist},
          key);
    }
    return statusesOf<wire::MultiMutate>(bytes, keys.size());
  }
  template <typename Part>
  static void add(std::vector<std::byte>& bytes, const Part& part, const std::string& key) {
    auto more = join({bytesOf(part), asBytes(key)});
    more.resize(alignUp(more.size(), 8));
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  template <typename Message>
  std::vector<Status> statusesOf(const std::vector<std::byte>& request, size_t count) {
    const auto call = world.send(request, 0);
    EXPECT_EQ(call->outcome(), Status::Ok);
    const std::string answer = bytesOfAnswer(*call);
    std::vector<Status> statuses;
    for (size_t i = 0; i < count; ++i) {
      const size_t at = sizeof(typename Message::Response) + i * sizeof(typename Message::ResponsePart);
      statuses.push_back(loadAs<typename Message::ResponsePart>(asBytes(answer).data() + at).status);
    }
    return statuses;
  }
  /// The move has not come further for a while, and says why. Nobody else is harmed.
  void expectToWait(const char* what) {
    SCOPED_TRACE(what);
    const int pulls = source_.pulls_of_objects;
    world.runFor(300 * kNanosPerMilli);
    EXPECT_GT(source_.pulls_of_objects, pulls + 2) << "it is asked again";
    control::PullProgressResponse progress;
    ASSERT_EQ(progressNow(kPulled, 0, progress), Status::Ok);
    EXPECT_EQ(progress.phase(), control::PULL_ARRIVING);
    EXPECT_EQ(static_cast<Status>(progress.problem()), Status::BadRequest);
    EXPECT_EQ(read(here_, 1).value, "mine");
    EXPECT_EQ(write(here_, "mine", ++sequence_, {.epoch = 1}).status, Status::Ok);
  }
  /// From now on the source is an honest one, and everything arrives.
  void expectToArrive() {
    source_.objects = [](KeyHash) { return Contents{.entries = object(good_, "good")}; };
    source_.hashes = [](const std::vector<KeyHash>& wanted) {
      const bool has_good = std::ranges::find(wanted, hashOf(good_)) != wanted.end();
      return has_good ? Contents{.entries = object(good_, "good")} : Contents();
    };
    EXPECT_EQ(read(good_, kEpoch).value, "good");
    ASSERT_EQ(pullProgress(kPulled, 0, control::PULL_JOINED).phase(), control::PULL_JOINED);
    ASSERT_EQ(take(kPulled, kFirstHash, kLast, kEpoch, 0, false), Status::Ok);
    EXPECT_EQ(read(good_, kEpoch).value, "good");
    EXPECT_EQ(read(bad_, kEpoch).status, Status::NotFound);
    EXPECT_EQ(read(here_, 1).value, "mine");
    world.runFor(kNanosPerSecond);
    EXPECT_EQ(world.servers[0]->master().log()->limit().heldBytes(), 0u);
  }

  static constexpr uint64_t kEpoch = kSourceEpoch + 1;
  static inline const std::string good_ = keyFrom(kFirstHash + 1000, kLast, "good");
  static inline const std::string bad_ = keyFrom(kFirstHash + 1000, kLast, "bad");
  static inline const std::string here_ = keyFrom(0, kFirstHash - 1, "here");
  uint64_t sequence_ = 100;
};

TEST_F(MasterHostileArrivalTest, WhatASourceMayNotSend) {
  ASSERT_NO_FATAL_FAILURE(handOverHere());
  const auto refuse = [&](const char* what, const std::function<Contents(KeyHash)>& objects) {
    source_.objects = objects;
    expectToWait(what);
  };
  const auto send = [](std::vector<std::byte> entries) {
    return [entries](KeyHash) { return Contents{.entries = entries}; };
  };
  refuse("another table", send(object(bad_, "x", 5, kTable + 1)));
  refuse("another range", send(object(here_, "not mine")));
  refuse("a version above the ceiling", send(object(bad_, "x", kCeiling + 1)));
  refuse("a wrong checksum", [](KeyHash) {
    Contents torn{.entries = object(bad_, "x")};
    torn.entries.back() ^= std::byte{1};
    return torn;
  });
  refuse("half an entry", [](KeyHash) {
    Contents torn{.entries = object(bad_, std::string(100, 'x'))};
    torn.entries.resize(torn.entries.size() / 2);
    return torn;
  });
  refuse("a result", [&](KeyHash) {
    const Version result{};
    const std::array<ByteSpan, 2> payload{bytesOf(source_.record), bytesOf(result)};
    return Contents{.entries = entryOf({.type = log::EntryType::ResultRecord,
                                        .table = TableId(kTable),
                                        .version = 3,
                                        .key = {},
                                        .payload = payload})};
  });
  refuse("a removed key, of a tablet that is not handed back", send(tombstone(good_, 1)));
  refuse("a key behind the next cursor",
         [](KeyHash) { return Contents{.entries = object(bad_, "x"), .next = kFirstHash + 1, .is_last = false}; });
  refuse("the same cursor again",
         [](KeyHash cursor) { return Contents{.entries = {}, .next = cursor, .is_last = false}; });
  refuse("a cursor behind the range", [](KeyHash) { return Contents{.entries = {}, .next = 1, .is_last = false}; });
  expectToArrive();
}

/// A tablet that comes back: what the other server may say of what was kept here.
TEST_F(MasterHostileArrivalTest, WhatMayNotBeSentBack) {
  ASSERT_EQ(take(kPulled, kFirstHash, kLast, kSourceEpoch - 1, 0), Status::Ok);
  const std::string kept = keyFrom(kFirstHash, kLast, "kept ");
  const std::string newer = keyFrom(kFirstHash, kLast, "newer ");
  for (const std::string& key : {kept, bad_, newer}) {
    ASSERT_EQ(write(key, "before", ++sequence_, {.epoch = kSourceEpoch - 1}).status, Status::Ok);
  }
  const uint64_t ceiling = freezeForCeiling(kPulled, kSourceEpoch - 1, 0);
  ASSERT_GT(ceiling, 0u);
  ASSERT_LT(ceiling, kCeiling);
  ASSERT_EQ(lend(kPulled, kSourceEpoch - 1), Status::Ok);
  source_.objects = [](KeyHash cursor) { return Contents{.entries = {}, .next = cursor, .is_last = false}; };
  source_.hashes = [](const auto&) { return Contents{.entries = tombstone(bad_, kCeiling + 1)}; };
  ASSERT_NO_FATAL_FAILURE(handOverHere(true));
  EXPECT_EQ(read(bad_, kEpoch).status, Status::RetryLater) << "removed with a version above the ceiling";
  EXPECT_EQ(write(newer, "after", ++sequence_, {.epoch = kEpoch}).status, Status::Ok);
  const auto refuse = [&](const char* what, const std::vector<std::byte>& entries) {
    source_.objects = [entries](KeyHash) { return Contents{.entries = entries}; };
    expectToWait(what);
  };
  refuse("a version above the ceiling", tombstone(kept, kCeiling + 1));
  refuse("another range", tombstone(here_, 5));
  // It may remove what was here before, and nothing else.
  source_.hashes = [](const auto&) { return Contents(); };
  source_.objects = [&](KeyHash) {
    Contents contents{.entries = tombstone(bad_, kCeiling)};
    for (const std::string& key : {newer, good_}) {
      const std::vector<std::byte> more = tombstone(key, kCeiling);
      contents.entries.insert(contents.entries.end(), more.begin(), more.end());
    }
    return contents;
  };
  ASSERT_EQ(pullProgress(kPulled, 0, control::PULL_JOINED).phase(), control::PULL_JOINED);
  ASSERT_EQ(take(kPulled, kFirstHash, kLast, kEpoch, 0, false), Status::Ok);
  EXPECT_EQ(read(kept, kEpoch).value, "before");
  EXPECT_EQ(read(newer, kEpoch).value, "after");
  EXPECT_EQ(read(bad_, kEpoch).status, Status::NotFound);
  EXPECT_EQ(read(good_, kEpoch).status, Status::NotFound);
  EXPECT_EQ(read(here_, 1).value, "mine");
}

TEST_F(MasterHostileArrivalTest, HashesThatNobodyAskedFor) {
  ASSERT_NO_FATAL_FAILURE(handOverHere());
  source_.objects = [](KeyHash cursor) { return Contents{.entries = {}, .next = cursor, .is_last = false}; };
  source_.hashes = [](const auto&) { return Contents{.entries = object(bad_, "x")}; };
  EXPECT_EQ(read(good_, kEpoch).status, Status::RetryLater);
  EXPECT_GT(source_.pulls_of_hashes, 0);
  source_.hashes = [](const auto&) { return Contents{.entries = {}, .next = 0, .is_last = true, .count = 1000}; };
  EXPECT_EQ(read(good_, kEpoch).status, Status::RetryLater) << "more than were asked for";
  source_.hashes = [](const auto&) { return Contents{.entries = object(good_, "x", kCeiling + 1)}; };
  EXPECT_EQ(read(good_, kEpoch).status, Status::RetryLater);
  expectToWait("the bulk");
  expectToArrive();
}

/// A tablet that is Arriving remembers some of the hashes that were asked for, and forgets them for others.
TEST_F(MasterHostileArrivalTest, AbsentKeysThatMakeEachOtherForgotten) {
  ASSERT_NO_FATAL_FAILURE(handOverHere());
  source_.objects = [](KeyHash cursor) { return Contents{.entries = {}, .next = cursor, .is_last = false}; };
  constexpr KeyHash kRemembered = 4096;
  const std::string first = keyFrom(kFirstHash, kLast, "absent ");
  std::string second;
  for (int i = 0; second.empty(); ++i) {
    const std::string key = "absent as well " + std::to_string(i);
    if (hashOf(key) >= kFirstHash && hashOf(key) % kRemembered == hashOf(first) % kRemembered) second = key;
  }
  EXPECT_EQ(readTogether({first, second}), (std::vector{Status::NotFound, Status::NotFound}));
  EXPECT_EQ(source_.pulls_of_hashes, 1);
  EXPECT_EQ(createTogether({first, second}), (std::vector{Status::Ok, Status::Ok}));
  expectToArrive();
}

/// Objects of one hash that are too long for an answer keep nobody else from being answered.
TEST_F(MasterHostileArrivalTest, AHashThatIsTooLongForAnAnswer) {
  ASSERT_NO_FATAL_FAILURE(handOverHere());
  source_.objects = [](KeyHash cursor) { return Contents{.entries = {}, .next = cursor, .is_last = false}; };
  const std::string long_one = keyFrom(kFirstHash, hashOf(good_) - 1, "long ");
  source_.hashes = [&](const std::vector<KeyHash>& wanted) {
    if (wanted.front() == hashOf(long_one)) return Contents{.entries = {}, .status = Status::TooLarge};
    return Contents{.entries = object(good_, "good")};
  };
  const auto refused = world.send(join({bytesOf(readRequest(long_one, kEpoch)), asBytes(long_one)}), 0);
  EXPECT_EQ(refused->outcome(), Status::RetryLater);
  EXPECT_EQ(readTogether({long_one, good_}), (std::vector{Status::RetryLater, Status::Ok}));
}

/// It has come with all others of its hash, so there is a place for it.
TEST_F(MasterHostileArrivalTest, ALostKeyOfACrowdedHashCanBeOverwritten) {
  source_.measured.crowded_count = wire::MeasureTablet::kCrowdedAll;
  ASSERT_NO_FATAL_FAILURE(handOverHere());
  source_.objects = [](KeyHash) { return Contents{.entries = tombstone(good_, kLost)}; };
  source_.hashes = [this](const auto&) { return source_.objects(0); };
  EXPECT_EQ(read(good_, kEpoch).status, Status::Corrupt);
  control::PullProgressResponse progress;
  ASSERT_TRUE(world.runUntil([&] { return read(good_, kEpoch).status == Status::Corrupt; }));
  ASSERT_EQ(progressNow(kPulled, 0, progress), Status::Ok);
  EXPECT_EQ(static_cast<Status>(progress.problem()), Status::Corrupt);
  EXPECT_EQ(write(good_, "x", ++sequence_, {.epoch = kEpoch, .condition = Condition::MustExist}).status,
            Status::Corrupt);
  EXPECT_EQ(write(good_, "overwritten", ++sequence_, {.epoch = kEpoch}).status, Status::Ok);
  ASSERT_EQ(pullProgress(kPulled, 0, control::PULL_JOINED).phase(), control::PULL_JOINED);
  ASSERT_EQ(take(kPulled, kFirstHash, kLast, kEpoch, 0, false), Status::Ok);
  EXPECT_EQ(read(good_, kEpoch).value, "overwritten");
}

/// Without replicas it stays lost, as anything else of this server's would. The rest arrives.
TEST_F(MasterHostileArrivalTest, WhatIsLostHereAfterItHasArrivedKeepsNothingElse) {
  ASSERT_NO_FATAL_FAILURE(handOverHere());
  source_.objects = [](KeyHash cursor) { return Contents{.entries = {}, .next = cursor, .is_last = false}; };
  source_.hashes = [](const auto&) { return Contents{.entries = object(good_, "good")}; };
  EXPECT_EQ(read(good_, kEpoch).value, "good");
  master::Master& master = world.servers[0]->master();
  const log::EntryRef ref = master.store().lookup(TableId(kTable), hashOf(good_), asBytes(good_)).ref;
  const auto value_at = static_cast<uint32_t>(log::kEntryHeaderBytes + good_.size());
  MemoryDamage::flip(*master.log(), {.ref = ref, .bit = value_at * 8});
  log::Segment& segment = *master.log()->pool().segmentOf(ref);
  uint32_t next = 0;
  ASSERT_FALSE(master.log()->integrity().isSound(segment, segment.offsetOf(ref), next));
  EXPECT_EQ(read(good_, kEpoch).status, Status::Corrupt);
  const std::string other = keyFrom(kFirstHash, kLast, "other ");
  source_.objects = [&](KeyHash) {
    Contents contents{.entries = object(good_, "good")};
    const std::vector<std::byte> more = object(other, "other");
    contents.entries.insert(contents.entries.end(), more.begin(), more.end());
    return contents;
  };
  ASSERT_EQ(pullProgress(kPulled, 0, control::PULL_JOINED).phase(), control::PULL_JOINED);
  ASSERT_EQ(take(kPulled, kFirstHash, kLast, kEpoch, 0, false), Status::Ok);
  EXPECT_EQ(read(other, kEpoch).value, "other");
  EXPECT_EQ(read(good_, kEpoch).status, Status::Corrupt);
  EXPECT_NE(segment.state(), log::SegmentState::Open);
}

/// It has announced 4 KB for each part of the range, and never ends.
TEST_F(MasterHostileArrivalTest, AnswersWithoutEnd) {
  ASSERT_NO_FATAL_FAILURE(handOverHere());
  uint64_t sent = 0;
  source_.objects = [&](KeyHash cursor) {
    Contents contents{.entries = {}, .next = cursor + (uint64_t{1} << 56), .is_last = false};
    for (int i = 0; i < 40; ++i) {
      const std::string key = keyFrom(cursor, contents.next - 1, "endless " + std::to_string(sent++) + " ");
      const std::vector<std::byte> entry = object(key, std::string(1500, 'x'));
      contents.entries.insert(contents.entries.end(), entry.begin(), entry.end());
    }
    return contents;
  };
  world.runFor(10 * kNanosPerSecond);
  expectToWait("more than it has announced");
  EXPECT_LT(world.servers[0]->master().log()->stats().live_bytes.load(), int64_t{3} << 20);
}

}  // namespace
}  // namespace ramcore::sim::raw
