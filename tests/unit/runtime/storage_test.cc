#include "runtime/storage.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/real/file_storage.h"
#include "runtime/sim/sim_node.h"
#include "runtime/sim/sim_storage.h"

namespace ramcore::runtime {
namespace {

constexpr uint64_t kStorageEventsMax = 100'000;

struct WaitedFlush : Flush {
  explicit WaitedFlush(Executor& executor)
      : Flush([](Job& job) { static_cast<WaitedFlush&>(job).is_done = true; }, executor, Priority::Client) {}
  bool is_done = false;
};

/// A machine with one directory, which processes open one after the other.
class Machine {
 public:
  virtual ~Machine() = default;
  virtual Outcome<std::unique_ptr<Storage>> open() = 0;
  virtual Executor& executor() = 0;
  virtual void waitFor(const WaitedFlush& flush) = 0;
  /// The next flush fails.
  virtual void failNextFlush() = 0;

  Status flush(StorageFile& file) {
    WaitedFlush flush(executor());
    file.flush(flush);
    waitFor(flush);
    EXPECT_TRUE(flush.is_done);
    return flush.status;
  }
};

/// Runs posted jobs on the test's thread.
class PumpedExecutor final : public Executor {
 public:
  void post(Job& job, Priority) override { inbox_.push(job); }
  bool isCurrent() const override { return true; }
  void arm(Timer&, int64_t) override { ADD_FAILURE() << "no timers here"; }
  Clock& clock() override { return clock_; }
  uint64_t sleeps() const override { return 0; }
  void pump() {
    JobList jobs;
    inbox_.takeAll(jobs);
    while (Job* job = jobs.pop()) job->run(*job);
  }

 private:
  JobInbox inbox_;
  ManualClock clock_;
};

std::atomic<int> g_syncs_to_fail{0};
std::atomic<int> g_syncs{0};

int countedSync(int descriptor) {
  g_syncs.fetch_add(1);
  if (g_syncs_to_fail.load() == 0) return ::fdatasync(descriptor);
  g_syncs_to_fail.fetch_sub(1);
  errno = EIO;
  return -1;
}

class RealMachine final : public Machine {
 public:
  RealMachine() {
    std::string pattern = (std::filesystem::temp_directory_path() / "storage_test.XXXXXX").string();
    directory = ::mkdtemp(pattern.data());
    g_syncs_to_fail = 0;
    g_syncs = 0;
  }
  ~RealMachine() override { std::filesystem::remove_all(directory); }
  Outcome<std::unique_ptr<Storage>> open() override {
    auto storage = FileStorage::open(directory, silentTrace(), &countedSync);
    if (!storage) return storage.error();
    return std::unique_ptr<Storage>(std::move(storage).value());
  }
  Executor& executor() override { return executor_; }
  void waitFor(const WaitedFlush& flush) override {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!flush.is_done && std::chrono::steady_clock::now() < give_up) {
      executor_.pump();
      std::this_thread::yield();
    }
  }
  void failNextFlush() override { g_syncs_to_fail = 1; }

  std::string directory;

 private:
  PumpedExecutor executor_;
};

class SimMachine final : public Machine {
 public:
  explicit SimMachine(uint64_t seed = 1)
      : scheduler(seed),
        log(scheduler),
        node(scheduler, log, "node", {}),
        disk(scheduler, "disk", {.capacity_bytes = 1 << 24}),
        executor_(node.makeExecutor("main")) {}
  Outcome<std::unique_ptr<Storage>> open() override { return disk.open(); }
  Executor& executor() override { return executor_; }
  void waitFor(const WaitedFlush& flush) override {
    scheduler.runUntil([&] { return flush.is_done; }, kStorageEventsMax);
  }
  void failNextFlush() override { disk.failFlushes(1); }

  SimScheduler scheduler;
  SimTraceLog log;
  SimNode node;
  SimDisk disk;

 private:
  SimExecutor& executor_;
};

class StorageContract : public testing::TestWithParam<const char*> {
 protected:
  StorageContract() {
    if (std::string(GetParam()) == "Real") {
      machine_ = std::make_unique<RealMachine>();
    } else {
      machine_ = std::make_unique<SimMachine>();
    }
  }
  std::unique_ptr<Storage> open() {
    auto storage = machine_->open();
    EXPECT_TRUE(storage.ok());
    return std::move(storage).value();
  }
  static std::unique_ptr<StorageFile> made(Outcome<std::unique_ptr<StorageFile>> file) {
    EXPECT_TRUE(file.ok());
    return std::move(file).value();
  }
  static std::string textAt(StorageFile& file, uint64_t offset_bytes, size_t bytes) {
    std::string text(bytes, '?');
    EXPECT_EQ(file.read(offset_bytes, std::as_writable_bytes(std::span(text))), Status::Ok);
    return text;
  }

  std::unique_ptr<Machine> machine_;
};
INSTANTIATE_TEST_SUITE_P(Storages, StorageContract, testing::Values("Real", "Simulated"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(StorageContract, NewFileHasItsSizeAndIsZero) {
  auto storage = open();
  auto file = made(storage->create("frame-1", 10'000));
  EXPECT_EQ(file->bytes(), 10'000u);
  EXPECT_EQ(textAt(*file, 0, 10'000), std::string(10'000, '\0'));
}

TEST_P(StorageContract, GatheredPiecesAreReadBackAlsoByTheNextProcess) {
  {
    auto storage = open();
    auto file = made(storage->create("frame", 100'000));
    std::vector<std::string> texts;
    std::vector<ByteSpan> pieces;
    std::string whole;
    for (int i = 0; i < 200; ++i) texts.push_back(std::string(i % 7 * 10, static_cast<char>('a' + i % 26)));
    for (const std::string& text : texts) {
      pieces.push_back(asBytes(text));
      whole += text;
    }
    ASSERT_EQ(file->write(500, pieces), Status::Ok);
    EXPECT_EQ(textAt(*file, 500, whole.size()), whole);
    ASSERT_EQ(file->write(99'997, asBytes("end")), Status::Ok);
  }
  auto storage = open();
  auto file = made(storage->open("frame"));
  EXPECT_EQ(file->bytes(), 100'000u);
  EXPECT_EQ(textAt(*file, 99'997, 3), "end");
  EXPECT_EQ(textAt(*file, 500, 10), "bbbbbbbbbb");
}

TEST_P(StorageContract, NothingReachesBeyondTheEnd) {
  auto storage = open();
  auto file = made(storage->create("frame", 100));
  std::byte out[10];
  EXPECT_EQ(file->write(91, asBytes("1234567890")), Status::BadRequest);
  EXPECT_EQ(file->write(UINT64_MAX, asBytes("1")), Status::BadRequest);
  EXPECT_EQ(file->read(91, out), Status::BadRequest);
  EXPECT_EQ(file->read(UINT64_MAX - 2, out), Status::BadRequest);
  EXPECT_EQ(file->write(90, asBytes("1234567890")), Status::Ok);
  EXPECT_EQ(textAt(*file, 90, 10), "1234567890");
}

TEST_P(StorageContract, WhatIsForgottenIsReadFromTheDisk) {
  auto storage = open();
  auto file = made(storage->create("frame", 100'000));
  const std::string text(50'000, 'x');
  ASSERT_EQ(file->write(10'000, asBytes(text)), Status::Ok);
  file->forgetCached(0, 100'000);
  EXPECT_EQ(textAt(*file, 10'000, text.size()), text) << "what is not flushed is kept";
  ASSERT_EQ(machine_->flush(*file), Status::Ok);
  file->forgetCached(0, 100'000);
  EXPECT_EQ(textAt(*file, 10'000, text.size()), text);
  file->forgetCached(99'999, 2);
  file->forgetCached(UINT64_MAX, UINT64_MAX);
  EXPECT_EQ(textAt(*file, 10'000, text.size()), text);
}

TEST_P(StorageContract, NamesAreListedSortedAndRemoved) {
  auto storage = open();
  for (const char* name : {"b", "c", "a"}) made(storage->create(name, 10));
  EXPECT_EQ(storage->list().value(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(storage->remove("b"), Status::Ok);
  EXPECT_EQ(storage->remove("b"), Status::NotFound);
  EXPECT_EQ(storage->open("b").status(), Status::NotFound);
  EXPECT_EQ(storage->create("a", 10).status(), Status::InUse);
  EXPECT_EQ(storage->list().value(), (std::vector<std::string>{"a", "c"}));
}

TEST_P(StorageContract, BadNamesAreRefused) {
  auto storage = open();
  for (const char* name : {"", "..", "a/b", "/etc/passwd", "A", "a.new"}) {
    EXPECT_EQ(storage->create(name, 10).status(), Status::BadConfig) << name;
    EXPECT_EQ(storage->open(name).status(), Status::BadConfig) << name;
    EXPECT_EQ(storage->remove(name), Status::BadConfig) << name;
  }
  EXPECT_TRUE(storage->list().value().empty());
}

TEST_P(StorageContract, OneProcessAtATime) {
  auto storage = open();
  const auto second = machine_->open();
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status(), Status::InUse);
  EXPECT_NE(second.error().message.find("stop that first"), std::string::npos);
  storage.reset();
  EXPECT_TRUE(machine_->open().ok());
}

TEST_P(StorageContract, FlushesThatComeTogetherAllEnd) {
  auto storage = open();
  auto one = made(storage->create("one", 4096));
  auto two = made(storage->create("two", 4096));
  ASSERT_EQ(one->write(0, asBytes("x")), Status::Ok);
  std::vector<std::unique_ptr<WaitedFlush>> flushes;
  for (int i = 0; i < 50; ++i) {
    flushes.push_back(std::make_unique<WaitedFlush>(machine_->executor()));
    (i % 2 == 0 ? one : two)->flush(*flushes.back());
  }
  for (const auto& flush : flushes) {
    machine_->waitFor(*flush);
    ASSERT_TRUE(flush->is_done);
    EXPECT_EQ(flush->status, Status::Ok);
  }
}

TEST_P(StorageContract, FailedFlushCondemnsTheFileForEver) {
  auto storage = open();
  auto file = made(storage->create("frame", 4096));
  auto other = made(storage->create("other", 4096));
  ASSERT_EQ(file->write(0, asBytes("text")), Status::Ok);
  machine_->failNextFlush();
  EXPECT_EQ(machine_->flush(*file), Status::IoError);
  EXPECT_TRUE(file->isCondemned());
  EXPECT_EQ(machine_->flush(*file), Status::IoError);
  EXPECT_EQ(file->write(0, asBytes("more")), Status::IoError);
  EXPECT_EQ(textAt(*file, 0, 4), "text");
  EXPECT_FALSE(other->isCondemned());
  EXPECT_EQ(machine_->flush(*other), Status::Ok);
}

TEST_P(StorageContract, SpaceIsTakenWhenAFileIsMade) {
  auto storage = open();
  const auto capacity = storage->capacity();
  ASSERT_TRUE(capacity.ok());
  EXPECT_LE(capacity->free_bytes, capacity->total_bytes);
  const auto file = storage->create("large", 1ULL << 60);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status(), Status::NoSpace);
  EXPECT_TRUE(storage->list().value().empty());
}

// ---- What only one implementation can show

TEST(FileStorage, UnfinishedFilesGoAndForeignOnesStay) {
  RealMachine machine;
  {
    std::ofstream(machine.directory + "/half.new") << "x";
  }
  {
    std::ofstream(machine.directory + "/README.txt") << "x";
  }
  const auto storage = machine.open();
  ASSERT_TRUE(storage.ok());
  EXPECT_FALSE(std::filesystem::exists(machine.directory + "/half.new"));
  EXPECT_TRUE(std::filesystem::exists(machine.directory + "/README.txt"));
}

TEST(FileStorage, MissingDirectoryIsNamed) {
  const auto storage = FileStorage::open("/nowhere/at/all", silentTrace());
  ASSERT_FALSE(storage.ok());
  EXPECT_EQ(storage.status(), Status::NotFound);
  EXPECT_NE(storage.error().message.find("/nowhere/at/all"), std::string::npos);
}

TEST(FileStorage, CondemnedFileIsNotFlushedAgain) {
  RealMachine machine;
  const auto storage = std::move(machine.open()).value();
  const auto file = std::move(storage->create("frame", 4096)).value();
  machine.failNextFlush();
  EXPECT_EQ(machine.flush(*file), Status::IoError);
  const int syncs = g_syncs.load();
  EXPECT_EQ(machine.flush(*file), Status::IoError);
  EXPECT_EQ(g_syncs.load(), syncs);
}

struct Crash : testing::Test {
  static constexpr uint64_t kFileBytes = 64 * 1024;
  explicit Crash(uint64_t seed = 1) : machine(seed) {
    storage = std::move(machine.open()).value();
    file = std::move(storage->create("frame", kFileBytes)).value();
  }
  ~Crash() override { reset(); }
  void reset() {
    file.reset();
    storage.reset();
  }
  void fill(char with) {
    const std::string text(kFileBytes, with);
    EXPECT_EQ(file->write(0, asBytes(text)), Status::Ok);
  }
  void reopen() {
    reset();
    storage = std::move(machine.open()).value();
    file = std::move(storage->open("frame")).value();
  }
  std::string text() {
    std::string bytes(kFileBytes, '?');
    EXPECT_EQ(file->read(0, std::as_writable_bytes(std::span(bytes))), Status::Ok);
    return bytes;
  }
  SimMachine machine;
  std::unique_ptr<Storage> storage;
  std::unique_ptr<StorageFile> file;
};
using SimDiskCrash = Crash;

TEST_F(SimDiskCrash, DeathOfAProcessKeepsWhatWasWritten) {
  fill('a');
  machine.disk.killProcess();
  EXPECT_EQ(file->write(0, asBytes("x")), Status::IoError);
  EXPECT_EQ(storage->list().status(), Status::IoError);
  reopen();
  EXPECT_EQ(text(), std::string(kFileBytes, 'a'));
}

TEST_F(SimDiskCrash, PowerLossKeepsWhatWasFlushedAndSomeOfTheRest) {
  fill('a');
  ASSERT_EQ(machine.flush(*file), Status::Ok);
  fill('b');
  machine.disk.losePower();
  reopen();
  const std::string bytes = text();
  const auto old_bytes = std::count(bytes.begin(), bytes.end(), 'a');
  const auto new_bytes = std::count(bytes.begin(), bytes.end(), 'b');
  EXPECT_EQ(old_bytes + new_bytes, static_cast<std::ptrdiff_t>(kFileBytes));
  EXPECT_GT(old_bytes, 0);
  EXPECT_GT(new_bytes, 0);
  EXPECT_GT(machine.disk.counts().torn_sectors, 0u);
  EXPECT_GT(machine.disk.counts().lost_sectors, 0u);
}

TEST_F(SimDiskCrash, FlushInProgressEndsWithAnError) {
  fill('a');
  WaitedFlush flush(machine.executor());
  file->flush(flush);
  machine.disk.losePower();
  machine.waitFor(flush);
  EXPECT_EQ(flush.status, Status::IoError);
}

// Code that relies on a flush for what was written while that was under way has to fail on the simulated disk.
TEST_F(SimDiskCrash, AFlushCoversNothingThatIsWrittenAfterItBegan) {
  for (const int flushes : {1, 2}) {
    fill('a');
    ASSERT_EQ(machine.flush(*file), Status::Ok);
    fill('b');
    machine.disk.setFlushTime(5'000'000, 5'000'000);
    WaitedFlush first(machine.executor());
    file->flush(first);
    fill('c');
    machine.disk.setFlushTime(1'000'000, 1'000'000);
    WaitedFlush second(machine.executor());  // begins later and ends earlier
    if (flushes == 2) file->flush(second);
    fill('d');
    machine.waitFor(first);
    ASSERT_EQ(first.status, Status::Ok);
    machine.disk.losePower();
    reopen();
    const std::string bytes = text();
    EXPECT_EQ(std::ranges::count(bytes, 'a'), 0);
    EXPECT_EQ(std::ranges::count(bytes, 'b') > 0, flushes == 1);
    EXPECT_EQ(std::ranges::count(bytes, 'c') > 0, flushes == 2);
    EXPECT_GT(std::ranges::count(bytes, 'd'), 0) << "some of what was not flushed is there all the same";
  }
}

TEST_F(SimDiskCrash, WhatAFailedFlushLeftOutNeverGetsToTheDisk) {
  fill('a');
  machine.disk.failFlushes(1);
  ASSERT_EQ(machine.flush(*file), Status::IoError);
  reopen();
  ASSERT_EQ(machine.flush(*file), Status::Ok);  // a second try reports Ok and does nothing
  machine.disk.losePower();
  reopen();
  EXPECT_EQ(text(), std::string(kFileBytes, '\0'));
}

TEST_F(SimDiskCrash, WhateverChangesBytesCountsAsTheirLastChange) {
  const auto changeOf = [&](uint64_t offset_bytes) { return machine.disk.lastChange("frame", offset_bytes, 4096); };
  constexpr uint64_t kElsewhere = 32 * 1024;
  EXPECT_EQ(changeOf(0), 0u);
  const std::string two_blocks(5000, 'a');
  ASSERT_EQ(file->write(0, asBytes(two_blocks)), Status::Ok);
  const uint64_t written = changeOf(0);
  EXPECT_GT(written, 0u);
  EXPECT_EQ(changeOf(4096), written);
  EXPECT_EQ(changeOf(kElsewhere), 0u);
  EXPECT_EQ(machine.disk.lastChange("frame", 0, kFileBytes), written);

  ASSERT_EQ(machine.flush(*file), Status::Ok);
  EXPECT_EQ(changeOf(0), written) << "readers see what they saw";
  machine.disk.losePower();
  EXPECT_EQ(changeOf(0), written) << "nothing was lost";
  machine.disk.flipBit("frame", 8 * 4100);
  EXPECT_EQ(changeOf(0), written);
  EXPECT_GT(changeOf(4096), written);

  reopen();
  ASSERT_EQ(file->write(kElsewhere, asBytes(two_blocks)), Status::Ok);
  machine.disk.failFlushes(1);
  ASSERT_EQ(machine.flush(*file), Status::IoError);
  const uint64_t before = changeOf(kElsewhere);
  machine.disk.losePower();
  EXPECT_GT(changeOf(kElsewhere), before) << "what the failed flush had dropped is gone";
  EXPECT_EQ(changeOf(0), written);
}

TEST_F(SimDiskCrash, LyingDiskLosesWhatItSaidWasSafe) {
  fill('a');
  machine.disk.setLying(true);
  ASSERT_EQ(machine.flush(*file), Status::Ok);
  machine.disk.losePower();
  reopen();
  EXPECT_NE(text(), std::string(kFileBytes, 'a'));
}

TEST_F(SimDiskCrash, SlowDiskTakesItsTime) {
  machine.disk.setFlushTime(kNanosPerSecond, 2 * kNanosPerSecond);
  fill('a');
  ASSERT_EQ(machine.flush(*file), Status::Ok);
  EXPECT_GE(machine.scheduler.nowNs(), kNanosPerSecond);
}

TEST_F(SimDiskCrash, FlippedBitsShowUp) {
  fill('a');
  ASSERT_EQ(machine.flush(*file), Status::Ok);
  machine.disk.flipBits(3);
  const std::string bytes = text();
  const auto changed = static_cast<std::ptrdiff_t>(kFileBytes) - std::count(bytes.begin(), bytes.end(), 'a');
  EXPECT_GE(changed, 1);
  EXPECT_LE(changed, 3);
  EXPECT_EQ(machine.disk.counts().flipped_bits, 3u);
}

TEST(FileStorage, ThePowerEpochIsThatOfTheRunningKernel) {
  RealMachine machine;
  const PowerEpoch first = machine.open().value()->powerEpoch();
  EXPECT_EQ(first != PowerEpoch(), std::filesystem::exists("/proc/sys/kernel/random/boot_id"));
  EXPECT_EQ(machine.open().value()->powerEpoch(), first);
}

TEST(SimDisk, ThePowerEpochChangesWithEachLossOfPower) {
  SimMachine machine(1);
  const auto now = [&] { return machine.open().value()->powerEpoch(); };
  const PowerEpoch first = now();
  EXPECT_NE(first, PowerEpoch());
  machine.disk.killProcess();
  EXPECT_EQ(now(), first);
  machine.disk.losePower();
  const PowerEpoch second = now();
  EXPECT_NE(second, PowerEpoch());
  EXPECT_NE(second, first);
  machine.disk.losePower();
  EXPECT_NE(now(), first);
  EXPECT_NE(now(), second);
  machine.disk.hidePowerEpoch();
  EXPECT_EQ(now(), PowerEpoch());
}

TEST(SimDisk, SameSeedSameDamage) {
  const auto damage = [](uint64_t seed) {
    SimMachine machine(seed);
    auto storage = std::move(machine.open()).value();
    auto file = std::move(storage->create("frame", 65'536)).value();
    const std::string text(65'536, 'x');
    EXPECT_EQ(file->write(0, asBytes(text)), Status::Ok);
    machine.disk.losePower();
    file.reset();
    storage = std::move(machine.open()).value();
    file = std::move(storage->open("frame")).value();
    std::string bytes(65'536, '?');
    EXPECT_EQ(file->read(0, std::as_writable_bytes(std::span(bytes))), Status::Ok);
    return bytes;
  };
  EXPECT_EQ(damage(5), damage(5));
  EXPECT_NE(damage(5), damage(6));
}

}  // namespace
}  // namespace ramcore::runtime
