// A process that has a client forks. The child must not touch what it got of the client: the parent's calls would be
// taken for duplicates of the child's, bytes of both would meet in one connection. Processes, over tcp and over shm,
// with and without a thread of the library.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "cluster/daemon.h"
#include "ramcore/client.h"

namespace ramcore {
namespace {

constexpr int kWrites = 300;

struct Way {
  const char* name;
  const char* scheme;
  bool background_thread;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class ForkedClient : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "ramcore-fork-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    const std::string scheme = GetParam().scheme;
    const auto listen = [&](const std::string& name) {
      return scheme == "shm" ? "shm://" + folder_ + "/" + name : std::string("tcp://127.0.0.1:0");
    };
    coordinator_.emplace("ramcore-coordinator", std::vector<std::string>{"--listen", listen("coordinator"), "--storage",
                                                                         folder_ + "/state", "--log-level", "error"});
    const std::string coordinator = coordinator_->waitReady(scheme);
    ASSERT_NE(coordinator, "");
    server_.emplace("ramcore-server", std::vector<std::string>{"--listen", listen("server"), "--coordinator",
                                                               coordinator, "--memory", "64MiB", "--replicas", "0",
                                                               "--storage-bytes", "0", "--log-level", "error"});
    ASSERT_NE(server_->waitReady(scheme), "");
    options_.coordinators = {coordinator};
    options_.background_thread = GetParam().background_thread;
    auto connected = Client::connect(options_);
    ASSERT_TRUE(connected.ok()) << connected.error().message;
    client_ = std::make_unique<Client>(std::move(connected).value());
    const auto table = client_->createTable("t");
    ASSERT_TRUE(table.ok());
    table_ = *table;
  }
  void TearDown() override {
    client_.reset();
    server_.reset();
    coordinator_.reset();
    std::filesystem::remove_all(folder_);
  }

  /// Uses the copy of the parent's client in the child.
  /// @return the number of the call that did not end with Forked; 0: all did
  int useCopy(Scan& begun, Future<MutateResult>& pending) {
    Client& client = *client_;
    const auto forked = [](Status status) { return status == Status::Forked; };
    if (!forked(client.write(table_, "k", "child").status)) return 1;
    if (!forked(client.remove(table_, "k").status)) return 2;
    if (!forked(client.increment(table_, "count", 1).status)) return 3;
    if (!forked(client.read(table_, "k").status())) return 4;
    std::string value;
    if (!forked(client.read(table_, "k", value).status())) return 5;
    std::array<std::byte, 8> buffer{};
    if (!forked(client.read(table_, "k", buffer).status())) return 6;
    if (!forked(client.createTable("child's").status()) || !forked(client.dropTable("t")) ||
        !forked(client.openTable("t").status()) || !forked(client.listTables().status())) {
      return 7;
    }
    std::array<ReadItem, 2> reads{{{.table = table_, .key = "k"}, {.table = table_, .key = "l"}}};
    if (client.multiRead(reads) != 2 || !forked(reads[0].status) || !forked(reads[1].status)) return 8;
    std::array<MutateItem, 2> changes{{{.table = table_, .key = "k", .value = "child", .condition = {}},
                                       {.table = table_, .key = "l", .value = "child", .condition = {}}}};
    if (client.multiMutate(changes) != 2 || !forked(changes[0].status) || !forked(changes[1].status)) return 9;
    if (begun.next() != nullptr || !forked(begun.status())) return 10;
    Scan scan = client.scan(table_);
    if (scan.next() != nullptr || !forked(scan.status())) return 11;
    if (client.poll()) return 12;
    // The parent carries that one, so here it is over; with a thread of the library it may have been before.
    if (!pending.ready()) return 13;
    const Status ended = pending.get().status;
    if (!forked(ended) && ended != Status::Ok) return 14;
    Future<MutateResult> write = client.writeAsync(table_, "k", "child");
    if (!write.ready() || !forked(write.get().status)) return 15;
    Future<Result<ReadResult>> read = client.readAsync(table_, "k");
    if (!read.ready() || !forked(read.get().status())) return 16;
    Future<size_t> multi = client.multiMutateAsync(changes);
    if (!multi.ready() || multi.get() != 2 || !forked(changes[1].status)) return 17;
    Future<MutateResult> dropped = client.removeAsync(table_, "k");
    return 0;
  }

  /// A client that is made in the child works. 0, or what does not.
  int useOwn() {
    auto connected = Client::connect(options_);
    if (!connected) return 20;
    for (int i = 0; i < kWrites; ++i) {
      if (!connected->write(table_, "child " + std::to_string(i), "child").ok()) return 21;
      if (!connected->increment(table_, "both", 1).ok()) return 22;
    }
    return 0;
  }

  std::string folder_;
  std::optional<Daemon> coordinator_;
  std::optional<Daemon> server_;
  ClientOptions options_;
  std::unique_ptr<Client> client_;
  Table table_;
};

TEST_P(ForkedClient, EndsItsCallsInTheChildAndHarmsNobody) {
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(client_->write(table_, "before " + std::to_string(i), "parent").ok());
  ASSERT_TRUE(client_->write(table_, "k", "parent").ok());
  Scan begun = client_->scan(table_);
  ASSERT_NE(begun.next(), nullptr);
  Future<MutateResult> pending = client_->writeAsync(table_, "pending", "parent");

  std::fflush(nullptr);
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    alarm(60);  // a child that hangs ends by a signal
    int code = useCopy(begun, pending);
    if (code == 0) code = useOwn();
    client_.reset();  // says nothing to anybody
    _exit(code);
  }
  // At the same time, so that a byte of the child's in the wrong place would meet one of these.
  for (int i = 0; i < kWrites; ++i) {
    ASSERT_EQ(name(client_->write(table_, "parent " + std::to_string(i), "parent").status), "Ok") << i;
    ASSERT_EQ(name(client_->increment(table_, "both", 1).status), "Ok") << i;
  }
  int status = -1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);

  // After the child has ended its copy, too.
  EXPECT_EQ(name(pending.get().status), "Ok");
  for (int i = 0; i < kWrites; ++i) {
    ASSERT_EQ(name(client_->write(table_, "late " + std::to_string(i), "parent").status), "Ok") << i;
  }
  uint64_t objects = 0;
  for (const Object& object : client_->scan(table_)) {
    ++objects;
    if (object.key == "both") continue;
    EXPECT_EQ(object.value, object.key.starts_with("child ") ? "child" : "parent") << object.key;
  }
  EXPECT_EQ(objects, 100u + 3 * kWrites + 3);
  const MutateResult both = client_->increment(table_, "both", 0);
  EXPECT_EQ(both.value, 2 * kWrites);
}

// The parent ends before its child, as in a program that becomes a daemon, or in a pool of workers.
TEST_P(ForkedClient, OfAParentThatIsGoneDoesNotKeepTheChildFromEnding) {
  ASSERT_TRUE(client_->write(table_, "k", "parent").ok());
  std::fflush(nullptr);
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    alarm(60);
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      int code = client_->write(table_, "k", "grandchild").status == Status::Forked ? 0 : 1;
      client_.reset();
      if (code == 0) code = useOwn();
      _exit(code);
    }
    auto own = Client::connect(options_);
    const bool is_written = own.ok() && own->write(table_, "k", "child").ok();
    int status = -1;
    waitpid(grandchild, &status, 0);
    _exit(is_written && WIFEXITED(status) ? WEXITSTATUS(status) : 30);
  }
  client_.reset();
  int status = -1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, ForkedClient,
                         ::testing::Values(Way{"Tcp", "tcp", false}, Way{"TcpWithThread", "tcp", true},
                                           Way{"Shm", "shm", false}, Way{"ShmWithThread", "shm", true}),
                         [](const ::testing::TestParamInfo<Way>& info) { return info.param.name; });

}  // namespace
}  // namespace ramcore
