/// Disks that rot under replicas which nobody reads: servers find out, and the copies are made anew.

#include <gtest/gtest.h>

#include <algorithm>

#include "backup/frame_inspection.h"
#include "sim/checkers/linearizability.h"
#include "sim/cluster/sim_cluster.h"

namespace ramcore::sim {
namespace {

using runtime::kNanosPerSecond;

/// The bytes of a simulated disk.
class DiskBytes final : public backup::FrameBytes {
 public:
  explicit DiskBytes(ByteSpan bytes) : bytes_(bytes) {}
  uint64_t bytes() const override { return bytes_.size(); }
  Status read(uint64_t offset_bytes, MutableByteSpan out) override {
    std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset_bytes), out.size(), out.begin());
    return Status::Ok;
  }

 private:
  ByteSpan bytes_;
};

/// Servers whose disks rot, one closed replica after the other.
class Rotting {
 public:
  struct Place {
    size_t server = 0;
    uint32_t frame = 0;
    log::Certificate certificate;
  };

  Rotting(uint64_t seed, backup::ScrubOptions scrub)
      : tables_({{.name = "table", .durability = Durability::Buffered}}),
        cluster_(seed, options(scrub)),
        generator_({.client_count = kClients, .large_value_permille = 400, .large_value_bytes = 6000}, seed),
        random_(cluster_.scheduler.stream("rot")) {}

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
    SimClient& first = *clients_.front();
    first.dispatch().post(create_, runtime::Priority::Client);
    first.wake();
    ASSERT_TRUE(runUntil([&] { return created_; })) << "the table is not created";
    for (auto& client : clients_) client->start(kCalls);
    ASSERT_TRUE(runUntil([&] {
      return std::all_of(clients_.begin(), clients_.end(), [](const auto& client) { return client->isDone(); });
    })) << "the clients' work does not end";
    ASSERT_TRUE(runUntil([&] { return isWhole(); }));
  }

  /// A replica of a closed segment, of this life.
  Place somePlace() {
    std::vector<Place> places;
    std::vector<std::byte> bytes;
    for (size_t i = 0; i < cluster_.disks.size(); ++i) {
      DiskBytes disk(cluster_.disks[i]->cachedBytes("frames"));
      auto inspection = backup::FrameInspection::open(disk);
      EXPECT_TRUE(inspection.ok());
      for (uint32_t frame = 0; frame < inspection->frameCount(); ++frame) {
        const backup::FrameFinding finding = inspection->inspect(frame, bytes);
        if (finding.replica && finding.replica->closed) places.push_back({i, frame, *finding.replica});
      }
    }
    EXPECT_FALSE(places.empty()) << "no segment was closed";
    return places[random_.below(places.size())];
  }
  void rot(const Place& place) {
    const uint64_t at = backup::FrameFile::fileBytes(place.frame, log::LogConfig::forTest().segment_bytes);
    cluster_.disks[place.server]->flipBit("frames", (at + backup::kBlockBytes) * 8 + 1);  // in the first entry
  }
  bool isFound(size_t server, uint64_t times) const {
    return cluster_.servers[server]->backup()->store().stats().corrupt_frames.load() == times;
  }
  uint64_t repairs() const { return cluster_.countAll().replicas_repaired; }
  bool isWhole() const {
    return std::all_of(cluster_.servers.begin(), cluster_.servers.end(), [](const auto& server) {
      if (!server->isServing() || server->master().replicas() == nullptr) return false;
      const auto counts = server->master().replicas()->counts();
      return counts.repairing == 0 && counts.least == 3;
    });
  }
  /// How many disks have it, whole and closed. A copy that was made after the segment was compacted is shorter.
  size_t copiesOf(const log::Certificate& wanted) {
    size_t copies = 0;
    std::vector<std::byte> bytes;
    for (const auto& disk : cluster_.disks) {
      DiskBytes content(disk->cachedBytes("frames"));
      auto inspection = backup::FrameInspection::open(content);
      bool is_there = false;
      for (uint32_t frame = 0; frame < inspection->frameCount(); ++frame) {
        const auto replica = inspection->inspect(frame, bytes).replica;
        is_there = is_there || (replica && replica->closed && replica->master == wanted.master &&
                                replica->segment == wanted.segment && replica->length_bytes <= wanted.length_bytes);
      }
      copies += is_there ? 1 : 0;
    }
    return copies;
  }
  void readEverything() {
    clients_.front()->readAll();
    ASSERT_TRUE(runUntil([&] { return clients_.front()->isDone(); })) << "the end state cannot be read";
    EXPECT_EQ(checkLinearizability(history_).text(), "");
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
  static constexpr uint64_t kCalls = 120;
  static constexpr uint64_t kEventsMax = 10'000'000;

  static SimClusterOptions options(backup::ScrubOptions scrub) {
    SimClusterOptions options;
    options.durable = true;
    options.scrub = scrub;
    return options;
  }

  struct Create : runtime::Job {
    explicit Create(Rotting& owner)
        : Job([](runtime::Job& job) { static_cast<Create&>(job).owner.create().detach(); }), owner(owner) {}
    Rotting& owner;
  };
  runtime::Task<void> create() {
    SimClient& client = *clients_.front();
    const int64_t deadline_ns = client.node().clock().nowNs() + 60 * kNanosPerSecond;
    const auto table = co_await client.core().createTable("table", 4, deadline_ns, Durability::Buffered);
    created_ = table.ok();
  }

  const SimTables tables_;
  SimCluster cluster_;
  Generator generator_;
  runtime::Random random_;
  History history_;
  std::vector<ScanRecord> scans_;
  std::vector<std::unique_ptr<SimClient>> clients_;
  Create create_{*this};
  bool created_ = false;
};

constexpr backup::ScrubOptions kOften = {.bytes_per_second = 16u << 20, .pass_ns = kNanosPerSecond};

TEST(Scrub, WhatRotsIsFoundAndMadeAnew) {
  for (uint64_t seed = 1; seed <= 10 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rotting rotting(seed, kOften);
    rotting.prepare();
    std::vector<uint64_t> rotted(4);
    for (int i = 0; i < 5 && !testing::Test::HasFailure(); ++i) {
      const Rotting::Place place = rotting.somePlace();
      const uint64_t repairs = rotting.repairs();
      rotting.rot(place);
      ASSERT_EQ(rotting.copiesOf(place.certificate), 2u);
      ++rotted[place.server];
      EXPECT_TRUE(rotting.runUntil([&] { return rotting.isFound(place.server, rotted[place.server]); }));
      EXPECT_TRUE(rotting.runUntil([&] { return rotting.repairs() > repairs && rotting.isWhole(); }));
      EXPECT_EQ(rotting.copiesOf(place.certificate), 3u);
    }
    rotting.readEverything();
  }
}

TEST(Scrub, WithoutScrubbingNobodyNotices) {
  Rotting rotting(1, {});
  rotting.prepare();
  const Rotting::Place place = rotting.somePlace();
  rotting.rot(place);
  rotting.runFor(60 * kNanosPerSecond);
  EXPECT_TRUE(rotting.isFound(place.server, 0));
  EXPECT_EQ(rotting.copiesOf(place.certificate), 2u);
}

TEST(Scrub, OneSeedIsOneRun) {
  std::vector<uint64_t> hashes;
  for (int i = 0; i < 2; ++i) {
    Rotting rotting(7, kOften);
    rotting.prepare();
    rotting.rot(rotting.somePlace());
    rotting.runFor(10 * kNanosPerSecond);
    hashes.push_back(rotting.cluster().scheduler.traceHash());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

}  // namespace
}  // namespace ramcore::sim
