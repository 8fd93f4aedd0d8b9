#include "coordinator/state/state_store.h"

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>

#include <gtest/gtest.h>
#include <stdlib.h>

#include "coordinator/state/memory_state_store.h"
#include "coordinator/state/sqlite_state_store.h"
#include "runtime/real/system_clock.h"
#include "runtime/real/thread_executor.h"
#include "runtime/sim/sim_node.h"

namespace ramcore::coordinator {
namespace {

// What the contract needs of an engine: the executor to call it on, and a way to reopen it.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual runtime::Executor& executor() = 0;
  /// Opens the store again, while the one before may still be open.
  virtual std::unique_ptr<StateStore> open() = 0;
  /// Runs `body` on the executor and until its task is done.
  virtual void run(const std::function<runtime::Task<void>()>& body) = 0;
};

class MemoryEngine final : public Engine {
 public:
  runtime::Executor& executor() override { return executor_; }
  std::unique_ptr<StateStore> open() override {
    return std::make_unique<MemoryStateStore>(disk_, executor_, runtime::Random(++opened_),
                                              MemoryStateStore::Options{});
  }
  void run(const std::function<runtime::Task<void>()>& body) override {
    bool done = false;
    scheduler_.call(scheduler_.nowNs(), [&] { start(*this, body, done).detach(); });
    ASSERT_EQ(scheduler_.runUntil([&] { return done; }, 100'000), runtime::SimScheduler::Stop::Done);
  }
  MemoryDisk& disk() { return disk_; }

 private:
  static runtime::Task<void> start(MemoryEngine& self, const std::function<runtime::Task<void>()>& body, bool& done) {
    co_await runtime::resumeOn(self.executor_);
    co_await body();
    done = true;
  }
  runtime::SimScheduler scheduler_{1};
  runtime::SimTraceLog log_{scheduler_};
  runtime::SimNode node_{scheduler_, log_, "coordinator", {}};
  runtime::SimExecutor& executor_ = node_.makeExecutor("dispatch");
  MemoryDisk disk_{ClusterId(7), "ramcore"};
  uint64_t opened_ = 0;
};

std::string makeDirectory() {
  std::string path = testing::TempDir() + "/state_store_XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return {};
  return path;
}

class SqliteEngine final : public Engine {
 public:
  ~SqliteEngine() override { std::filesystem::remove_all(directory_); }
  runtime::Executor& executor() override { return executor_; }
  std::unique_ptr<StateStore> open() override {
    auto opened =
        SqliteStateStore::open({.path = directory_, .cluster_name = "ramcore"}, entropy_, worker_, silentTrace());
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return opened.ok() ? std::move(opened).value() : nullptr;
  }
  void run(const std::function<runtime::Task<void>()>& body) override {
    Waiter waiter;
    start(*this, body, waiter);
    std::unique_lock lock(waiter.mutex);
    ASSERT_TRUE(waiter.changed.wait_for(lock, std::chrono::seconds(60), [&] { return waiter.done; }));
  }

 private:
  struct Waiter {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
  };
  static runtime::Detached start(SqliteEngine& self, const std::function<runtime::Task<void>()>& body, Waiter& waiter) {
    co_await runtime::resumeOn(self.executor_);
    co_await body();
    std::lock_guard lock(waiter.mutex);
    waiter.done = true;
    waiter.changed.notify_all();
  }
  const std::string directory_ = makeDirectory();
  runtime::SystemClock clock_;
  runtime::SeededEntropy entropy_{5};
  runtime::ThreadExecutor executor_{clock_, "test"};
  runtime::ThreadExecutor worker_{clock_, "store"};
};

class StateStoreContract : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string_view(GetParam()) == "memory") {
      engine_ = std::make_unique<MemoryEngine>();
    } else {
      engine_ = std::make_unique<SqliteEngine>();
    }
    store_ = engine_->open();
    ASSERT_NE(store_, nullptr);
  }
  void TearDown() override { store_.reset(); }

  Status commit(Batch batch) { return commitTo(*store_, std::move(batch)); }
  Status commitTo(StateStore& store, Batch batch) {
    Status status = Status::Internal;
    engine_->run([&] { return commitOn(store, engine_->executor(), batch, status); });
    return status;
  }
  std::vector<std::string> read(const std::string& prefix) {
    std::vector<std::string> lines;
    engine_->run([&] { return readOn(*store_, engine_->executor(), prefix, lines); });
    return lines;
  }
  void reopen() {
    store_.reset();
    store_ = engine_->open();
  }

  static runtime::Task<void> stopOn(StateStore& store) {
    store.stop();
    co_return;
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<StateStore> store_;

 private:
  static runtime::Task<void> commitOn(StateStore& store, runtime::Executor& executor, Batch batch, Status& status) {
    status = co_await store.commit(executor, std::move(batch));
    EXPECT_TRUE(executor.isCurrent());
  }
  static runtime::Task<void> readOn(StateStore& store, runtime::Executor& executor, std::string prefix,
                                    std::vector<std::string>& lines) {
    Result<std::vector<KeyValue>> found = co_await store.readPrefix(executor, std::move(prefix));
    EXPECT_TRUE(executor.isCurrent());
    EXPECT_TRUE(found.ok());
    if (!found.ok()) co_return;
    for (const KeyValue& entry : *found) lines.push_back(entry.key + "=" + entry.value);
  }
};

using testing::ElementsAre;
using testing::IsEmpty;

TEST_P(StateStoreContract, KeepsWhatWasCommitted) {
  Batch batch;
  batch.put("a/2", "two");
  batch.put("a/1", "one");
  batch.put("b/1", std::string("\0\xff\n", 3));
  batch.put("a0", "behind the prefix");
  batch.put("a/3", "");
  EXPECT_EQ(commit(std::move(batch)), Status::Ok);
  const ClusterId cluster = store_->cluster();
  reopen();
  EXPECT_EQ(store_->cluster(), cluster);
  EXPECT_EQ(store_->clusterName(), "ramcore");
  EXPECT_THAT(read("a/"), ElementsAre("a/1=one", "a/2=two", "a/3="));
  EXPECT_THAT(read("b/"), ElementsAre(std::string("b/1=\0\xff\n", 7)));
  EXPECT_THAT(read("c/"), IsEmpty());
  EXPECT_EQ(read("").size(), 5u);
}

TEST_P(StateStoreContract, ReplacesAndDeletes) {
  Batch first;
  first.put("k", "old");
  first.put("gone", "x");
  EXPECT_EQ(commit(std::move(first)), Status::Ok);
  Batch second;
  second.put("k", "new");
  second.remove("gone");
  second.remove("never there");
  EXPECT_EQ(commit(std::move(second)), Status::Ok);
  EXPECT_THAT(read(""), ElementsAre("k=new"));
}

TEST_P(StateStoreContract, TakesTheLargestBatch) {
  Batch batch;
  for (size_t i = 0; i < Batch::kChangesMax; ++i) {
    batch.put("key/" + std::to_string(1000 + i), std::string(2'000, static_cast<char>(i)));
  }
  EXPECT_EQ(commit(std::move(batch)), Status::Ok);
  reopen();
  EXPECT_EQ(read("key/").size(), Batch::kChangesMax);
}

TEST_P(StateStoreContract, RefusesAfterStop) {
  Batch batch;
  batch.put("k", "v");
  engine_->run([&] { return stopOn(*store_); });
  EXPECT_EQ(commit(std::move(batch)), Status::Shutdown);
  reopen();
  EXPECT_THAT(read(""), IsEmpty());
}

// For engines that two processes may have open; SQLite's lock admits one.
class StateStoreOfTwo : public StateStoreContract {};

TEST_P(StateStoreOfTwo, FormerLeaderWritesNothing) {
  std::unique_ptr<StateStore> leader = engine_->open();
  Batch late;
  late.put("k", "of the former leader");
  EXPECT_EQ(commit(std::move(late)), Status::NotLeader);
  Batch batch;
  batch.put("k", "of the leader");
  EXPECT_EQ(commitTo(*leader, std::move(batch)), Status::Ok);
  EXPECT_THAT(read(""), ElementsAre("k=of the leader"));
}

INSTANTIATE_TEST_SUITE_P(Engines, StateStoreOfTwo, testing::Values("memory"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Engines, StateStoreContract, testing::Values("memory", "sqlite"),
                         [](const auto& info) { return std::string(info.param); });

// A commit that is in progress when the process ends is there or not, whole.
TEST(MemoryStateStore, CrashKeepsACommitInProgressOrNot) {
  int kept = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    runtime::SimScheduler scheduler(seed);
    runtime::SimTraceLog log(scheduler);
    runtime::SimNode node(scheduler, log, "coordinator", {});
    runtime::SimExecutor& executor = node.makeExecutor("dispatch");
    MemoryDisk disk(ClusterId(1), "ramcore");
    MemoryStateStore store(disk, executor, node.stream("store"), {});
    Status outcome = Status::Ok;
    struct Run {
      static runtime::Task<void> commit(MemoryStateStore& store, runtime::Executor& executor, Status& outcome) {
        co_await runtime::resumeOn(executor);
        Batch batch;
        batch.put("a", "1");
        batch.put("b", "2");
        outcome = co_await store.commit(executor, std::move(batch));
      }
      static runtime::Task<void> stop(MemoryStateStore& store, runtime::Executor& executor) {
        co_await runtime::resumeOn(executor);
        store.stop();
      }
    };
    Run::commit(store, executor, outcome).detach();
    Run::stop(store, executor).detach();
    scheduler.runUntilIdle(10'000);
    EXPECT_EQ(outcome, Status::Shutdown);
    EXPECT_TRUE(disk.contents().empty() || disk.contents().size() == 2);
    kept += disk.contents().empty() ? 0 : 1;
  }
  EXPECT_GT(kept, 5);
  EXPECT_LT(kept, 35);
}

class SqliteStore : public testing::Test {
 protected:
  ~SqliteStore() override { std::filesystem::remove_all(directory_); }
  Outcome<std::unique_ptr<SqliteStateStore>> open(const std::string& cluster = "ramcore") {
    return SqliteStateStore::open({.path = directory_, .cluster_name = cluster}, entropy_, worker_, silentTrace());
  }
  /// Rows of the store itself are ordinary ones: a store of our own changes one.
  void writeRow(std::string key, std::string value) {
    auto opened = open();
    ASSERT_TRUE(opened.ok());
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    struct Run {
      static runtime::Detached write(StateStore& store, runtime::Executor& executor, std::mutex& mutex,
                                     std::condition_variable& changed, bool& done, std::string key, std::string value) {
        // Tasks belong to one executor: what commit() resumes may not meet this thread.
        co_await runtime::resumeOn(executor);
        Batch batch;
        batch.put(std::move(key), std::move(value));
        batch.is_unnumbered = true;
        const Status status = co_await store.commit(executor, std::move(batch));
        EXPECT_EQ(status, Status::Ok);
        std::lock_guard lock(mutex);
        done = true;
        changed.notify_all();
      }
    };
    runtime::ThreadExecutor executor(clock_, "test");
    Run::write(**opened, executor, mutex, changed, done, std::move(key), std::move(value));
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return done; }));
  }

  std::string directory_ = makeDirectory();
  runtime::SystemClock clock_;
  runtime::SeededEntropy entropy_{3};
  runtime::ThreadExecutor worker_{clock_, "store"};
};

TEST_F(SqliteStore, AnotherClusterIsRefused) {
  ASSERT_TRUE(open().ok());
  const auto other = open("other");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.status(), Status::WrongCluster);
  EXPECT_NE(other.error().message.find("'ramcore'"), std::string::npos);
  EXPECT_NE(other.error().message.find("--cluster"), std::string::npos);
}

TEST_F(SqliteStore, SecondProcessIsRefused) {
  const auto first = open();
  ASSERT_TRUE(first.ok());
  const auto second = open();
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status(), Status::InUse);
}

TEST_F(SqliteStore, AnotherFileIsRefused) {
  std::ofstream(directory_ + "/coordinator.sqlite")
      << "this is no database, but long enough to look like one: " << std::string(4'096, 'x');
  const auto opened = open();
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status(), Status::Corrupt);
}

TEST_F(SqliteStore, FileInPlaceOfDirectoryIsRefused) {
  const std::string file = directory_ + "/file";
  std::ofstream(file) << "x";
  const auto opened =
      SqliteStateStore::open({.path = file, .cluster_name = "ramcore"}, entropy_, worker_, silentTrace());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status(), Status::BadConfig);
}

TEST_F(SqliteStore, MakesItsDirectory) {
  const auto opened = SqliteStateStore::open({.path = directory_ + "/a/b", .cluster_name = "ramcore"}, entropy_,
                                             worker_, silentTrace());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_NE((*opened)->cluster(), ClusterId());
}

TEST_F(SqliteStore, NewerFormatIsRefused) {
  writeRow("!format", "2");
  const auto opened = open();
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status(), Status::WrongFormat);
}

// If the number were taken for 0, servers would take the coordinator's changes for old ones, and it would take theirs
// for those of a newer state.
TEST_F(SqliteStore, ANumberOfChangesThatIsNoneIsDamage) {
  writeRow("!changes", "many");
  const auto opened = open();
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status(), Status::Corrupt);
  EXPECT_NE(opened.error().message.find("how many changes"), std::string::npos) << opened.error().message;
}

}  // namespace
}  // namespace ramcore::coordinator
