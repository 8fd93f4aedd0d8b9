/// Histories of writes, flushes, kills and power losses, many seeds. A model knows what was answered; after each life
/// everything that was promised has to be there and to verify.

#include <algorithm>
#include <map>

#include <gtest/gtest-spi.h>

#include "tests/unit/backup/store_fixture.h"
#include "tests/unit/runtime/watched_storage.h"

namespace ramcore::backup {
namespace {

using Flags = wire::WriteReplica;

constexpr uint32_t kSegments = 6;

class History {
 public:
  /// @param thread  the thread that writes; the disk's own stands still now and then
  /// @param refused_permille  of writes of data
  explicit History(uint64_t seed, WriteThread thread = WriteThread::Auto, uint64_t refused_permille = 0)
      : world_(seed, 12), random_(world_.scheduler.stream("history")) {
    world_.write_thread = thread;
    if (refused_permille != 0) {
      world_.wrap_storage = [this, refused_permille](std::unique_ptr<runtime::Storage> storage) {
        return std::make_unique<runtime::WatchedStorage>(std::move(storage), [this, refused_permille](uint64_t offset) {
          const uint64_t first = FrameFile::fileBytes(0, kSegmentBytes);
          const uint64_t stride = FrameFile::fileBytes(1, kSegmentBytes) - first;
          const bool is_data = offset >= first && (offset - first) % stride >= kBlockBytes;
          if (!is_data || random_.below(1'000) >= refused_permille) return Status::Ok;
          ++refused;
          return Status::IoError;
        });
      };
    }
    world_.start();
  }

  void life() {
    const uint64_t steps = random_.between(5, 60);
    const SegmentId busy(1 + random_.below(kSegments));
    for (uint64_t i = 0; i < steps; ++i) {
      step(random_.chance(0.6) ? busy : SegmentId(1 + random_.below(kSegments)));
      if (world_.write_thread == WriteThread::Disk) stallOrGoOn();
      if (random_.chance(0.5)) continue;
      for (uint64_t events = random_.below(6); events > 0; --events) world_.scheduler.step();
    }
    if (world_.disk_thread.isPaused()) world_.disk_thread.resume();
    const bool power = random_.chance(0.6);
    if (power) {
      world_.disk.losePower();
      ++power_losses;
    }
    world_.close();
    for (auto& [id, replica] : replicas_) {
      replica.open = false;
      if (power) replica.answered = replica.flushed;
      replica.former_epoch = std::max(replica.former_epoch, replica.epoch);
    }
    world_.start();
    check();
  }

  uint64_t power_losses = 0;
  uint64_t flushed_checks = 0;
  uint64_t answered_checks = 0;
  uint64_t short_replicas = 0;
  uint64_t freed_found = 0;
  uint64_t refused = 0;
  uint64_t waited = 0;  // writes that were not done when they were taken

 private:
  /// One segment of the master, and what it knows of its replica here.
  struct Replica {
    explicit Replica(SegmentId id, runtime::Random& random) : segment(kCluster, kMaster, id) {
      if (random.chance(0.5)) segment.addDigest({}, {id});
      while (segment.length() < kSegmentBytes - 2'100) {
        segment.addObject(TableId(1), "key" + std::to_string(random.below(100)),
                          std::string(random.below(random.chance(0.8) ? 200 : 2'000), 'x'));
      }
    }
    uint32_t endOf(size_t groups) const { return groups == 0 ? 0 : segment.groupEnds()[groups - 1]; }

    SegmentMaker segment;
    bool open = false;
    uint64_t epoch = 0;
    uint64_t former_epoch = 0;
    size_t groups = 0;  // sent
    bool closed = false;
    std::optional<log::Certificate> certificate;  // the last one, of this life and epoch
    // The least that has to be there after a kill, and after a power loss.
    std::optional<log::Certificate> answered;
    std::optional<log::Certificate> flushed;
    // What was ever answered since it was last freed, power losses or not.
    std::optional<log::Certificate> claimed;
    // Freed when the certificate of this epoch that closed it had been flushed: 0 if it was not.
    uint64_t freed_closed_epoch = 0;
  };

  static void raise(std::optional<log::Certificate>& promise, const log::Certificate& to) {
    if (!promise || to.isNewerThan(*promise)) promise = to;
  }

  void stallOrGoOn() {
    if (world_.disk_thread.isPaused() ? !random_.chance(0.3) : !random_.chance(0.1)) return;
    if (world_.disk_thread.isPaused()) {
      world_.disk_thread.resume();
    } else {
      world_.disk_thread.pause();
    }
  }

  void step(SegmentId id) {
    Replica& replica = replicas_.try_emplace(id, id, random_).first->second;
    const uint64_t what = random_.below(20);
    if (!replica.open || what == 0) return reopen(replica);
    if (what == 1) return forget(id);
    if (what == 2) return raiseEpoch(replica);
    append(replica);
  }

  // A new replica of a new epoch: from the start, in one or more writes, certified with the last one.
  void reopen(Replica& replica) {
    replica.epoch = std::max(replica.epoch, replica.former_epoch) + (random_.chance(0.7) || replica.open ? 1 : 0);
    replica.epoch = std::max<uint64_t>(replica.epoch, 1);
    const size_t groups = replica.groups == 0 ? 1 : replica.groups;
    const size_t writes = random_.between(1, 3);
    size_t sent = 0;
    for (size_t i = 1; i <= writes; ++i) {
      const size_t upto = i == writes ? groups : groups * i / writes;
      const bool last = i == writes;
      std::optional<log::Certificate> certificate;
      if (last) certificate = replica.segment.certificate(replica.endOf(groups), replica.epoch, replica.closed);
      const Status status = send(replica, sent, upto, i == 1 ? Flags::kOpen : 0, certificate, random_.chance(0.4));
      if (status == Status::NoSpace || status == Status::IoError) {
        replica.former_epoch = replica.epoch;
        replica.open = false;
        return;
      }
      ASSERT_EQ(status, Status::Ok);
      sent = upto;
      if (!last && random_.chance(0.05)) {  // the master gave it up half way
        replica.open = false;
        return;
      }
    }
    replica.groups = groups;
    replica.open = true;
  }

  void append(Replica& replica) {
    if (replica.closed) return;
    const size_t total = replica.segment.groupEnds().size();
    const size_t from = random_.chance(0.1) && replica.groups > 0 ? replica.groups - 1 : replica.groups;  // repeats one
    const size_t to = std::min<size_t>(total, replica.groups + random_.below(3));
    if (to <= from && from != to) return;
    const bool close = to == total || random_.chance(0.05);
    std::optional<log::Certificate> certificate;
    if (close || random_.chance(0.8)) {
      certificate = replica.segment.certificate(replica.endOf(to), replica.epoch, close);
    }
    if (certificate && close) replica.closed = true;
    if (!sendMore(replica, from, to, certificate, random_.chance(close ? 0.9 : 0.3))) return;
    replica.groups = std::max(replica.groups, to);
  }

  void raiseEpoch(Replica& replica) {
    ++replica.epoch;
    const auto certificate = replica.segment.certificate(replica.endOf(replica.groups), replica.epoch, replica.closed);
    sendMore(replica, replica.groups, replica.groups, certificate, random_.chance(0.5));
  }

  /// False: the replica takes no more, and there has to be another one.
  bool sendMore(Replica& replica, size_t from, size_t to, const std::optional<log::Certificate>& certificate,
                bool flush) {
    const Status status = send(replica, from, to, 0, certificate, flush);
    if (status != Status::Ok) giveUp(replica, replica.epoch);
    EXPECT_TRUE(status == Status::Ok || (status == Status::IoError && refused != 0)) << name(status);
    return status == Status::Ok;
  }
  static void giveUp(Replica& replica, uint64_t epoch) {
    if (replica.epoch != epoch) return;
    replica.former_epoch = epoch;
    replica.open = false;
  }

  void forget(SegmentId id) {
    world_.store->free(kMaster, id);
    // The id is not used again by a master. Here the same bytes come again, under a newer epoch.
    Replica& replica = replicas_.at(id);
    replica.former_epoch = replica.epoch + 1;
    replica.open = false;
    if (replica.flushed && replica.flushed->closed) replica.freed_closed_epoch = replica.flushed->replica_epoch;
    replica.answered.reset();
    replica.flushed.reset();
    replica.claimed.reset();
    ++replica_generation_[id];
  }

  Status send(Replica& replica, size_t from, size_t to, uint8_t flags, std::optional<log::Certificate> certificate,
              bool flush) {
    FrameStore::Written written = world_.store->write(StoreWorld::makeWrite(
        kMaster, replica.segment, replica.epoch, replica.endOf(from), replica.endOf(to), flags, certificate));
    if (written.status != Status::Ok) return written.status;
    const uint64_t generation = replica_generation_[replica.segment.id()];
    if (!world_.store->isWritten(written)) {
      ++waited;
      awaitWrite(replica, written, certificate, generation).detach();
    } else {
      noteAnswer(replica, certificate);
    }
    replica.certificate = flags & Flags::kOpen ? certificate : (certificate ? certificate : replica.certificate);
    if (flush) awaitFlush(replica, written, replica.certificate, generation).detach();
    return Status::Ok;
  }

  static void noteAnswer(Replica& replica, const std::optional<log::Certificate>& certificate) {
    if (certificate) raise(replica.answered, *certificate);
    if (certificate) raise(replica.claimed, *certificate);
  }

  runtime::Task<void> awaitWrite(Replica& replica, FrameStore::Written written,
                                 std::optional<log::Certificate> certificate, uint64_t generation) {
    const Status status = co_await world_.onExecutor([&] { return world_.store->written(written); });
    if (generation != replica_generation_[replica.segment.id()]) co_return;
    if (status == Status::Ok) noteAnswer(replica, certificate);
    if (status == Status::IoError) giveUp(replica, written.replica_epoch);
  }

  runtime::Task<void> awaitFlush(Replica& replica, FrameStore::Written written,
                                 std::optional<log::Certificate> certificate, uint64_t generation) {
    const Status status = co_await world_.onExecutor([&] { return world_.store->flushed(written); });
    if (status != Status::Ok || !certificate || generation != replica_generation_[replica.segment.id()]) co_return;
    EXPECT_GE(written.flushed_bytes, certificate->length_bytes);
    raise(replica.flushed, *certificate);
    // What came after this write, but before the flush.
    raise(replica.flushed, replica.segment.certificate(written.flushed_bytes, written.replica_epoch, false));
  }

  void check() {
    for (const SegmentId id : world_.store->segments(kMaster)) {
      const Replica& replica = replicas_.at(id);
      const StoreWorld::Loaded loaded = world_.load(kMaster, id);
      if (loaded.status != Status::Ok) continue;
      const uint32_t length = loaded.certificate.length_bytes;
      ASSERT_EQ(loaded.certificate.segment, id);
      ASSERT_LE(length, replica.segment.length());
      ASSERT_TRUE(std::ranges::equal(loaded.bytes, replica.segment.bytes(0, length)));
      if (loaded.certificate.replica_epoch <= replica.freed_closed_epoch) {
        EXPECT_TRUE(loaded.certificate.closed) << "segment " << id.value << " was closed and freed, and is open again";
        ++freed_found;
      } else if (!loaded.certificate.closed && replica.claimed && replica.claimed->isNewerThan(loaded.certificate)) {
        EXPECT_TRUE(world_.store->mayBeShort(loaded.certificate)) << "segment " << id.value << " is short";
        ++short_replicas;
      }
    }
    for (const auto& [id, replica] : replicas_) {
      if (!replica.answered) continue;
      const StoreWorld::Loaded loaded = world_.load(kMaster, id);
      ASSERT_EQ(loaded.status, Status::Ok) << "segment " << id.value;
      EXPECT_FALSE(replica.answered->isNewerThan(loaded.certificate))
          << "segment " << id.value << ": promised epoch " << replica.answered->replica_epoch << " length "
          << replica.answered->length_bytes << ", found epoch " << loaded.certificate.replica_epoch << " length "
          << loaded.certificate.length_bytes;
      ++(replica.flushed ? flushed_checks : answered_checks);
    }
  }

  StoreWorld world_;
  runtime::Random random_;
  std::map<SegmentId, Replica> replicas_;
  std::map<SegmentId, uint64_t> replica_generation_;
};

TEST(PowerLoss, WhatWasAnsweredIsThereAfterwards) {
  uint64_t power_losses = 0;
  uint64_t flushed_checks = 0;
  uint64_t answered_checks = 0;
  uint64_t short_replicas = 0;
  uint64_t freed_found = 0;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    History history(seed);
    for (int life = 0; life < 5; ++life) {
      history.life();
      if (testing::Test::HasFailure()) return;
    }
    power_losses += history.power_losses;
    flushed_checks += history.flushed_checks;
    answered_checks += history.answered_checks;
    short_replicas += history.short_replicas;
    freed_found += history.freed_found;
  }
  EXPECT_GT(power_losses, 1'000u);
  EXPECT_GT(flushed_checks, 3'000u);
  EXPECT_GT(answered_checks, 300u);
  EXPECT_GT(short_replicas, 300u);
  EXPECT_GT(freed_found, 20u);
}

TEST(PowerLoss, WhatWasAnsweredIsThereAlsoWhereWritesWaitForTheDisk) {
  uint64_t power_losses = 0;
  uint64_t flushed_checks = 0;
  uint64_t waited = 0;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    History history(seed, WriteThread::Disk);
    for (int life = 0; life < 5; ++life) {
      history.life();
      if (testing::Test::HasFailure()) return;
    }
    power_losses += history.power_losses;
    flushed_checks += history.flushed_checks;
    waited += history.waited;
  }
  EXPECT_GT(power_losses, 1'000u);
  EXPECT_GT(flushed_checks, 300u);
  EXPECT_GT(waited, 20'000u);
}

TEST(PowerLoss, WhatWasAnsweredIsThereAlsoWhereWritesFailLate) {
  uint64_t refused = 0;
  uint64_t flushed_checks = 0;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    History history(seed, WriteThread::Disk, 30);
    for (int life = 0; life < 5; ++life) {
      history.life();
      if (testing::Test::HasFailure()) return;
    }
    refused += history.refused;
    flushed_checks += history.flushed_checks;
  }
  EXPECT_GT(refused, 500u);
  EXPECT_GT(flushed_checks, 200u);
}

}  // namespace
}  // namespace ramcore::backup
