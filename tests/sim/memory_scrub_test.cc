/// Bits that flip in the memories of masters while clients work: found, and restored from replicas.

#include <gtest/gtest.h>

#include <algorithm>

#include "backup/frame_inspection.h"
#include "log/cleaning/memory_scrubber.h"
#include "sim/checkers/linearizability.h"
#include "sim/cluster/memory_damage.h"
#include "sim/cluster/replica_check.h"
#include "sim/cluster/sim_cluster.h"

namespace ramcore::sim {
namespace {

using runtime::kNanosPerMilli;
using runtime::kNanosPerSecond;

class Flipping {
 public:
  struct Place {
    size_t server = 0;
    log::EntryRef ref;
    uint32_t bit = 0;
  };

  explicit Flipping(uint64_t seed, master::MemoryScrubOptions scrub = {})
      : tables_({{.name = "table", .durability = Durability::Buffered}}),
        cluster_(seed, options(scrub)),
        generator_({.client_count = kClients, .large_value_permille = 400, .large_value_bytes = 6000}, seed),
        random_(cluster_.scheduler.stream("flips")) {}

  void prepare() {
    cluster_.startCoordinator();
    for (size_t i = 0; i < 4; ++i) cluster_.addServer();
    for (uint32_t i = 0; i < kClients; ++i) {
      clients_.push_back(std::make_unique<SimClient>(
          cluster_.scheduler, cluster_.trace, cluster_.network, "client" + std::to_string(i), i,
          SimCluster::kClusterName, SimCluster::kCoordinatorNode,
          SimClient::Shared{.generator = generator_, .history = history_, .scans = scans_, .tables = tables_}));
    }
    ASSERT_TRUE(runUntil([&] { return cluster_.allServe(); }));
    clients_.front()->dispatch().post(create_, runtime::Priority::Client);
    clients_.front()->wake();
    ASSERT_TRUE(runUntil([&] { return created_; })) << "the table is not created";
    for (auto& client : clients_) client->start(kCalls);
  }
  bool isDone() const {
    return std::all_of(clients_.begin(), clients_.end(), [](const auto& client) { return client->isDone(); });
  }

  /// Some bit of some entry of a closed segment that nothing is wrong with; nothing if there is none.
  std::optional<Place> somePlace() {
    std::vector<Place> places;
    for (size_t i = 0; i < cluster_.servers.size(); ++i) {
      log::Log* const log = cluster_.servers[i]->master().log();
      if (log == nullptr) continue;
      for (const log::EntryRef ref : MemoryDamage::soundEntries(*log)) {
        places.push_back({i, ref, static_cast<uint32_t>(random_.below(log->view(ref).alignedBytes() * 8))});
      }
    }
    if (places.empty()) return std::nullopt;
    return places[random_.below(places.size())];
  }
  log::Log& logOf(const Place& place) { return *cluster_.servers[place.server]->master().log(); }
  void flip(const Place& place) { MemoryDamage::flip(logOf(place), {.ref = place.ref, .bit = place.bit}); }
  /// At once: reads do not look at checksums, so what they show before it is found is not right.
  void find(const Place& place) {
    log::MemoryScrubber scrubber(logOf(place));
    while (scrubber.step(1 << 20) >= 1 << 20) {
    }
  }
  /// Turns a bit over in the closed replica of this segment on disk `disk`.
  void rot(size_t disk, ServerId master, SegmentId segment) {
    class Bytes final : public backup::FrameBytes {
     public:
      explicit Bytes(ByteSpan bytes) : bytes_(bytes) {}
      uint64_t bytes() const override { return bytes_.size(); }
      Status read(uint64_t offset_bytes, MutableByteSpan out) override {
        std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset_bytes), out.size(), out.begin());
        return Status::Ok;
      }

     private:
      ByteSpan bytes_;
    };
    Bytes bytes(cluster_.disks[disk]->cachedBytes("frames"));
    auto inspection = backup::FrameInspection::open(bytes);
    ASSERT_TRUE(inspection.ok());
    std::vector<std::byte> buffer;
    for (uint32_t frame = 0; frame < inspection->frameCount(); ++frame) {
      const auto replica = inspection->inspect(frame, buffer).replica;
      if (!replica || !replica->closed || replica->master != master || replica->segment != segment) continue;
      const uint64_t at = backup::FrameFile::fileBytes(frame, log::LogConfig::forTest().segment_bytes);
      cluster_.disks[disk]->flipBit("frames", (at + backup::kBlockBytes) * 8 + 1);
      return;
    }
    FAIL() << "it is not there";
  }
  /// Expects that the replicas on the disks are what masters have in memory.
  void compareReplicas() {
    ReplicaCheck check;
    check.start(cluster_, SIZE_MAX);
    EXPECT_TRUE(runUntil([&] { return check.isIdle(cluster_); }));
    check.stop();
    EXPECT_GT(check.comparedCount(), 0u);
    for (const std::string& failure : check.failures()) ADD_FAILURE() << failure;
  }
  template <typename Count>
  uint64_t sum(Count count) const {
    uint64_t all = 0;
    for (const auto& server : cluster_.servers) {
      const log::Log* const log = server->master().log();
      if (log != nullptr) all += count(log->stats()).load();
    }
    return all;
  }
  uint64_t found() const {
    return sum([](const log::LogStats& s) -> auto& { return s.damaged_entries; });
  }
  uint64_t mended() const {
    return sum([](const log::LogStats& s) -> auto& { return s.mended_states; });
  }
  uint64_t restored() const {
    return sum([](const log::LogStats& s) -> auto& { return s.restored_entries; });
  }
  uint64_t damagedNow() const {
    return sum([](const log::LogStats& s) -> auto& { return s.damaged_now; });
  }
  void readEverything() {
    clients_.front()->readAll();
    ASSERT_TRUE(runUntil([&] { return clients_.front()->isDone(); })) << "the end state cannot be read";
    EXPECT_EQ(checkLinearizability(history_).text(), "");
  }
  /// One call of the first client, whose own have ended; in no history.
  client::PointResult call(wire::Opcode kind, const std::string& key, const std::string& value = {}) {
    call_.request = {.kind = kind, .table = table_, .key = asBytes(key), .value = asBytes(value)};
    call_.is_over = false;
    clients_.front()->dispatch().post(call_, runtime::Priority::Client);
    clients_.front()->wake();
    EXPECT_TRUE(runUntil([&] { return call_.is_over; }));
    return std::move(call_.result);
  }
  std::string valueOf(const std::string& key) {
    const client::PointResult result = call(wire::Opcode::Read, key);
    std::string value(name(result.status));
    if (result.status == Status::Ok) result.takeValue(value);
    return value;
  }
  /// The first bit of a key's object.
  Place placeOf(const std::string& key) {
    for (size_t i = 0; i < cluster_.servers.size(); ++i) {
      if (!cluster_.servers[i]->isServing()) continue;
      const store::ObjectStore& store = cluster_.servers[i]->master().store();
      const log::EntryRef ref = store.lookup(table_, hashKey(table_, asBytes(key)), asBytes(key)).ref;
      if (!ref) continue;
      const auto at = static_cast<uint32_t>(store.entry(ref).key().data() - store.entry(ref).address());
      return {i, ref, at * 8};
    }
    ADD_FAILURE() << "no server has " << key;
    return {};
  }
  /// In what the head of some server has and no backup was sent; nothing if there is no such thing now.
  std::optional<Place> someUnsentPlace() {
    for (size_t i = 0; i < cluster_.servers.size(); ++i) {
      if (cluster_.isDown(i) || !cluster_.servers[i]->isServing()) continue;
      log::Log& log = *cluster_.servers[i]->master().log();
      const log::Segment* const head = log.pool().find(log.headId());
      if (head == nullptr) continue;
      uint32_t sent_bytes = 0;
      for (const auto& replica : cluster_.servers[i]->master().replicas()->replicas()) {
        if (replica.segment == head->id()) sent_bytes = std::max(sent_bytes, replica.sent_bytes);
      }
      if (sent_bytes == 0 || sent_bytes >= head->committedBytes()) continue;
      const auto bytes = log.view(head->refAt(sent_bytes)).bytes();
      const auto byte = static_cast<uint32_t>(random_.below(bytes));
      // The state is none of what is sent.
      return Place{i, head->refAt(sent_bytes), 8 * (byte == 1 ? 0 : byte) + static_cast<uint32_t>(random_.below(8))};
    }
    return std::nullopt;
  }
  bool isClosed(const Place& place) {
    return logOf(place).pool().segmentOf(place.ref)->state() == log::SegmentState::Closed;
  }
  void runFor(int64_t ns) { cluster_.scheduler.runUntil(cluster_.scheduler.nowNs() + ns, kEventsMax); }
  template <typename Done>
  bool runUntil(Done done) {
    const int64_t give_up_ns = cluster_.scheduler.nowNs() + 600 * kNanosPerSecond;
    cluster_.scheduler.runUntil([&] { return done() || cluster_.scheduler.nowNs() > give_up_ns; }, kEventsMax);
    return done();
  }
  SimCluster& cluster() { return cluster_; }

 private:
  static constexpr uint32_t kClients = 3;
  static constexpr uint64_t kCalls = 150;
  static constexpr uint64_t kEventsMax = 10'000'000;

  static SimClusterOptions options(master::MemoryScrubOptions scrub) {
    SimClusterOptions options;
    options.durable = true;
    options.memory_scrub = scrub;
    return options;
  }

  struct Create : runtime::Job {
    explicit Create(Flipping& owner)
        : Job([](runtime::Job& job) { static_cast<Create&>(job).owner.create().detach(); }), owner(owner) {}
    Flipping& owner;
  };
  runtime::Task<void> create() {
    SimClient& client = *clients_.front();
    const int64_t deadline_ns = client.node().clock().nowNs() + 60 * kNanosPerSecond;
    const auto table = co_await client.core().createTable("table", 4, deadline_ns, Durability::Buffered);
    if (table.ok()) table_ = *table;
    created_ = table.ok();
  }
  struct Call : runtime::Job {
    explicit Call(Flipping& owner)
        : Job([](runtime::Job& job) { static_cast<Call&>(job).run().detach(); }), owner(owner) {}
    runtime::Task<void> run() {
      SimClient& client = *owner.clients_.front();
      result = co_await client.core().execute(request, client.node().clock().nowNs() + 60 * kNanosPerSecond);
      is_over = true;
    }
    Flipping& owner;
    client::PointRequest request;
    client::PointResult result;
    bool is_over = true;
  };

  const SimTables tables_;
  SimCluster cluster_;
  Generator generator_;
  runtime::Random random_;
  History history_;
  std::vector<ScanRecord> scans_;
  std::vector<std::unique_ptr<SimClient>> clients_;
  Create create_{*this};
  Call call_{*this};
  TableId table_;
  bool created_ = false;
};

TEST(MemoryScrub, FlippedBitsAreRestoredUnderLoad) {
  uint64_t flips = 0;
  uint64_t restored = 0;
  for (uint64_t seed = 1; seed <= 20 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Flipping flipping(seed);
    flipping.prepare();
    uint64_t flipped = 0;
    while (!flipping.isDone() && !testing::Test::HasFailure()) {
      flipping.runFor(5 * kNanosPerMilli);
      const auto place = flipping.somePlace();
      if (!place) continue;
      flipping.flip(*place);
      flipping.find(*place);
      ++flipped;
      EXPECT_EQ(flipping.found() + flipping.mended(), flipped);
    }
    EXPECT_TRUE(flipping.runUntil([&] { return flipping.damagedNow() == 0; })) << "something is not restored";
    EXPECT_GT(flipping.restored(), 0u);
    flipping.readEverything();
    flips += flipped;
    restored += flipping.restored();
  }
  EXPECT_GT(flips, 200u);
  EXPECT_GT(restored, 150u);
}

/// A call for a key finds the damage before the scrubber does: no call is answered that there is no such key, and no
/// second object is written for it.
TEST(MemoryScrub, AKeyThatHasChangedIsNotAbsent) {
  Flipping flipping(3);
  flipping.prepare();
  ASSERT_TRUE(flipping.runUntil([&] { return flipping.isDone(); }));
  using wire::Opcode;
  for (int i = 0; i < 500; ++i) ASSERT_EQ(flipping.call(Opcode::Write, "twice", "old").status, Status::Ok);
  Flipping::Place place = flipping.placeOf("twice");
  ASSERT_FALSE(flipping.isClosed(place)) << "the head is closed first, so that backups give it away";
  flipping.flip(place);
  ASSERT_EQ(flipping.valueOf("twice"), "old");
  EXPECT_EQ(flipping.restored(), 1u);
  place = flipping.placeOf("twice");
  ASSERT_TRUE(flipping.isClosed(place));
  flipping.flip(place);
  const auto written = flipping.call(Opcode::Write, "twice", "new");
  ASSERT_EQ(written.status, Status::Ok);
  EXPECT_GT(written.version, 500u) << "it does not follow on the one before";
  EXPECT_EQ(flipping.restored(), 2u);
  EXPECT_EQ(flipping.damagedNow(), 0u);
  EXPECT_EQ(flipping.valueOf("twice"), "new");
  // A recovery does not find the older value either.
  flipping.cluster().killServer(place.server, false);
  EXPECT_EQ(flipping.valueOf("twice"), "new");
  EXPECT_EQ(flipping.call(Opcode::Remove, "twice").status, Status::Ok);
  flipping.runFor(kNanosPerSecond);
  EXPECT_EQ(flipping.valueOf("twice"), "NotFound");
  flipping.cluster().restartServer(place.server);
  flipping.readEverything();
}

TEST(MemoryScrub, ItIsFoundWithoutBeingAskedFor) {
  Flipping flipping(3, {.bytes_per_second = 16u << 20, .pass_ns = kNanosPerSecond});
  flipping.prepare();
  ASSERT_TRUE(flipping.runUntil([&] { return flipping.isDone(); }));
  for (uint64_t i = 1; i <= 20; ++i) {
    const auto place = flipping.somePlace();
    ASSERT_TRUE(place);
    flipping.flip(*place);
    EXPECT_TRUE(flipping.runUntil([&] { return flipping.restored() + flipping.mended() == i; }));
  }
  flipping.readEverything();
}

TEST(MemoryScrub, WithoutScrubbingNobodyNotices) {
  Flipping flipping(3);
  flipping.prepare();
  ASSERT_TRUE(flipping.runUntil([&] { return flipping.isDone(); }));
  flipping.flip(flipping.somePlace().value());
  flipping.runFor(30 * kNanosPerSecond);
  EXPECT_EQ(flipping.found() + flipping.mended(), 0u);
}

/// A master whose replicas are copied anew: not from memory that is damaged.
TEST(MemoryScrub, ReplicasAreNotMadeOfDamage) {
  int flips = 0;
  for (uint64_t seed = 1; seed <= 5 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Flipping flipping(seed);
    flipping.prepare();
    ASSERT_TRUE(flipping.runUntil([&] { return flipping.isDone(); }));
    std::optional<Flipping::Place> place;
    for (int i = 0; i < 100 && (!place || place->server == 3); ++i) place = flipping.somePlace();
    if (!place || place->server == 3) continue;
    ++flips;
    flipping.flip(*place);
    // Half of all closed segments have a replica there; its own tablets are recovered.
    flipping.cluster().killServer(3, false);
    flipping.runFor(30 * kNanosPerSecond);
    flipping.cluster().restartServer(3);
    flipping.find(*place);
    EXPECT_TRUE(flipping.runUntil([&] {
      return std::all_of(flipping.cluster().servers.begin(), flipping.cluster().servers.end(), [](const auto& server) {
        if (!server->isServing() || server->master().replicas() == nullptr) return false;
        const auto counts = server->master().replicas()->counts();
        return counts.repairing == 0 && counts.least == 3 && server->master().log()->stats().damaged_now.load() == 0;
      });
    }));
    flipping.compareReplicas();
    flipping.readEverything();
  }
  EXPECT_GE(flips, 3);
}

/// A bit that flips between the writing of an entry and its sending: the server stops, and what it has acknowledged is
/// recovered.
TEST(MemoryScrub, WhatIsDamagedBeforeItIsCopiedStopsTheServerAndNothingIsLost) {
  for (uint64_t seed = 1; seed <= 10 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Flipping flipping(seed);
    flipping.prepare();
    flipping.runFor(static_cast<int64_t>(seed * 20) * kNanosPerMilli);
    std::optional<Flipping::Place> place;
    ASSERT_TRUE(flipping.runUntil([&] {
      if (!flipping.isDone()) place = flipping.someUnsentPlace();
      return place || flipping.isDone();
    }));
    ASSERT_TRUE(place) << "the test has found no moment";
    flipping.flip(*place);
    const SimServer& server = *flipping.cluster().servers[place->server];
    ASSERT_TRUE(flipping.runUntil([&] { return !server.rejected().empty() || flipping.isDone(); }));
    EXPECT_NE(server.rejected().find("is not what was written, before it is copied"), std::string::npos)
        << server.rejected();
    // As its process would end.
    flipping.cluster().killServer(place->server, false);
    ASSERT_TRUE(flipping.runUntil([&] { return flipping.isDone(); }));
    flipping.readEverything();
  }
}

/// Memory is damaged, and the first replica that is asked for has rotted: its master learns of it, and makes another.
TEST(MemoryScrub, ARottenReplicaThatIsAskedForIsMadeAnew) {
  for (uint64_t seed = 1; seed <= 5 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Flipping flipping(seed);
    flipping.prepare();
    ASSERT_TRUE(flipping.runUntil([&] { return flipping.isDone(); }));
    std::optional<Flipping::Place> place;
    // The state byte and the zeros behind an entry are mended without a replica.
    for (int i = 0; i < 100 && !place; ++i) {
      place = flipping.somePlace();
      if (place) place->bit = 8 * 9;
    }
    ASSERT_TRUE(place);
    const auto& servers = flipping.cluster().servers;
    const master::ReplicaManager& replicas = *servers[place->server]->master().replicas();
    const auto lost = [&replicas] { return replicas.stats().replicas_lost.load(); };
    const uint64_t lost_before = lost();
    const SegmentId segment = flipping.logOf(*place).pool().segmentOf(place->ref)->id();
    const auto holders = replicas.closedHolders(segment);
    ASSERT_FALSE(holders.empty());
    for (size_t i = 0; i < servers.size(); ++i) {
      if (servers[i]->master().id().value != holders.front().address.id) continue;
      flipping.rot(i, servers[place->server]->master().id(), segment);
    }
    flipping.flip(*place);
    flipping.find(*place);
    EXPECT_TRUE(flipping.runUntil([&] { return flipping.damagedNow() == 0; }));
    EXPECT_EQ(lost(), lost_before + 1) << "nobody has heard of it";
    EXPECT_TRUE(flipping.runUntil([&] {
      const auto counts = replicas.counts();
      return counts.repairing == 0 && counts.least == 3;
    }));
    flipping.compareReplicas();
    flipping.readEverything();
  }
}

/// Backups that do not answer take seconds each. Calls for the objects get their answer within the time that is
/// promised all the same.
TEST(MemoryScrub, ItIsSaidInTimeThatNobodyHasTheBytesAndTakenBackLater) {
  Flipping flipping(9);
  flipping.prepare();
  ASSERT_TRUE(flipping.runUntil([&] { return flipping.isDone(); }));
  const auto& servers = flipping.cluster().servers;
  // Of a server with some closed segments, of which few have many.
  const auto closed = [&](const Flipping::Place& place) {
    std::vector<log::Segment*> segments;
    log::Log& log = flipping.logOf(place);
    for (uint32_t slot = 0; slot < log.pool().slotCount(); ++slot) {
      log::Segment& segment = log.pool().slot(slot);
      if (segment.state() == log::SegmentState::Closed && log.members().isListed(segment)) segments.push_back(&segment);
    }
    return segments;
  };
  std::optional<Flipping::Place> first;
  for (int i = 0; i < 100 && (!first || closed(*first).size() < 3); ++i) first = flipping.somePlace();
  ASSERT_TRUE(first);
  log::Log& log = flipping.logOf(*first);
  for (size_t i = 0; i < servers.size(); ++i) {
    if (i != first->server) {
      flipping.cluster().network.partition(servers[first->server]->networkNode(), servers[i]->networkNode());
    }
  }
  const uint64_t found_before = flipping.found();
  const std::vector<log::Segment*> segments = closed(*first);
  const auto flipped = static_cast<uint32_t>(segments.size());
  ASSERT_GE(flipped, 3u);
  for (log::Segment* segment : segments) {
    flipping.flip({.server = first->server, .ref = segment->refAt(0), .bit = 8 * 9});
  }
  flipping.find(*first);
  ASSERT_EQ(flipping.found(), found_before + flipped);
  EXPECT_EQ(log.integrity().rangeStatus(), Status::RetryLater);
  flipping.runFor(5 * kNanosPerSecond + kNanosPerSecond / 2);
  EXPECT_NE(log.integrity().rangeStatus(), Status::RetryLater) << "somebody still waits";
  EXPECT_EQ(flipping.damagedNow(), flipped);
  flipping.cluster().network.healAll();
  EXPECT_TRUE(flipping.runUntil([&] { return flipping.damagedNow() == 0; }));
  flipping.readEverything();
}

/// All servers that keep a replica of the segment are started again before they are asked. What they kept is on their
/// disks, and they are the only ones who have it.
TEST(MemoryScrub, ItIsRestoredFromReplicasOfFormerLives) {
  for (uint64_t seed = 1; seed <= 3 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Flipping flipping(seed);
    flipping.prepare();
    ASSERT_TRUE(flipping.runUntil([&] { return flipping.isDone(); }));
    auto place = flipping.somePlace();
    ASSERT_TRUE(place);
    place->bit = 8 * 9;
    const auto& servers = flipping.cluster().servers;
    const SimServer& owner = *servers[place->server];
    const ServerId master = owner.master().id();
    const log::EntryView entry = flipping.logOf(*place).view(place->ref);
    const SegmentId segment = flipping.logOf(*place).pool().segmentOf(place->ref)->id();
    ASSERT_EQ(owner.master().replicas()->closedHolders(segment).size(), 3u);
    flipping.flip(*place);
    for (size_t i = 0; i < servers.size(); ++i) {
      if (i != place->server) flipping.cluster().killServer(i, false);
    }
    flipping.find(*place);
    // They come back before the object is given up, or when nobody was asked for it for long.
    flipping.runFor(seed == 1 ? kNanosPerSecond : 30 * kNanosPerSecond);
    for (size_t i = 0; i < servers.size(); ++i) {
      if (i != place->server) flipping.cluster().restartServer(i);
    }
    const int64_t back_ns = flipping.cluster().scheduler.nowNs();
    EXPECT_TRUE(flipping.runUntil([&] { return flipping.damagedNow() == 0; })) << "nobody gives the bytes back";
    EXPECT_LT(flipping.cluster().scheduler.nowNs() - back_ns, 5 * kNanosPerSecond) << "they were not asked at once";
    ASSERT_EQ(owner.master().id(), master);
    EXPECT_TRUE(entry.verify());
    EXPECT_TRUE(flipping.runUntil([&] {
      const auto counts = owner.master().replicas()->counts();
      return counts.repairing == 0 && counts.least == 3;
    }));
    flipping.compareReplicas();
    flipping.readEverything();
  }
}

/// Bits of a restored entry flip again before its mark is removed: damage of a marked entry is not reported.
TEST(MemoryScrub, WhatFlipsAgainBeforeItIsUnmarkedIsFetchedAgain) {
  Flipping flipping(5);
  flipping.prepare();
  ASSERT_TRUE(flipping.runUntil([&] { return flipping.isDone(); }));
  auto place = flipping.somePlace();
  ASSERT_TRUE(place);
  place->bit = 8 * 9;
  const log::EntryView entry = flipping.logOf(*place).view(place->ref);
  flipping.flip(*place);
  flipping.find(*place);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(flipping.runUntil([&] { return entry.verify(); }));
    ASSERT_EQ(flipping.damagedNow(), 1u) << "the mark is gone already";
    flipping.flip(*place);
  }
  ASSERT_TRUE(flipping.runUntil([&] { return flipping.damagedNow() == 0; }));
  EXPECT_TRUE(entry.verify());
  flipping.readEverything();
}

/// Damage that is found while a server ends starts no restoring.
TEST(MemoryScrub, DamageThatIsFoundAfterTheEndChangesNothing) {
  Flipping flipping(2);
  flipping.prepare();
  ASSERT_TRUE(flipping.runUntil([&] { return flipping.isDone(); }));
  const auto place = flipping.somePlace();
  ASSERT_TRUE(place);
  SimServer& server = *flipping.cluster().servers[place->server];
  server.stopInOrder();
  ASSERT_TRUE(flipping.runUntil([&] { return server.hasStopped(); }));
  const uint64_t found_before = flipping.found();
  flipping.flip({.server = place->server, .ref = place->ref, .bit = 8 * 9});
  flipping.find(*place);
  EXPECT_EQ(flipping.found(), found_before + 1);
  EXPECT_TRUE(server.hasStopped());
}

}  // namespace
}  // namespace ramcore::sim
