// The two ends of a memif in two processes: the server is this program once more, and dies as processes do, without
// taking its leave.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <list>
#include <thread>

#include "dpdk/memif_world.h"
#include "runtime/clock.h"

namespace ramcore::transport::contract {
namespace {

constexpr int64_t kSecond = runtime::kNanosPerSecond;
constexpr const char* kFolder = "RAMCORE_MEMIF_FOLDER";
constexpr const char* kSecret = "RAMCORE_MEMIF_SECRET";
constexpr const char* kId = "RAMCORE_MEMIF_ID";
constexpr const char* kEchoes = "RAMCORE_MEMIF_ECHOES";
constexpr const char* kHesitates = "RAMCORE_MEMIF_HESITATES";
constexpr int kLateMemif = 2;  // that of a server that hesitates

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ramcore-memif-XXXXXX").string();
    RC_CHECK(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct ServerSettings {
  uint64_t id = 7;
  std::string secret = {};
  bool echoes = true;      ///< otherwise it answers nothing
  bool hesitates = false;  ///< listens for a while before it has the memif that the client wants
};

/// A server at the listening end, until it is killed.
class ServerProcess {
 public:
  ServerProcess(const Folder& folder, const ServerSettings& settings) {
    // DPDK does not survive a fork.
    const std::vector<std::string> arguments = {"contract_dpdk_test", "--gtest_also_run_disabled_tests",
                                                "--gtest_filter=DpdkServerProcess.DISABLED_Serves"};
    std::vector<std::string> settings_of_child = {
        std::string(kFolder) + "=" + folder.path().string(), std::string(kSecret) + "=" + settings.secret,
        std::string(kId) + "=" + std::to_string(settings.id), std::string(kEchoes) + (settings.echoes ? "=1" : "=0"),
        std::string(kHesitates) + (settings.hesitates ? "=1" : "=0")};
    std::vector<char*> argument_pointers;
    for (const std::string& argument : arguments) argument_pointers.push_back(const_cast<char*>(argument.c_str()));
    argument_pointers.push_back(nullptr);
    std::vector<char*> environment;
    for (std::string& setting : settings_of_child) environment.push_back(setting.data());
    for (char** inherited = environ; *inherited != nullptr; ++inherited) environment.push_back(*inherited);
    environment.push_back(nullptr);
    const int error =
        ::posix_spawn(&child_, "/proc/self/exe", nullptr, nullptr, argument_pointers.data(), environment.data());
    EXPECT_EQ(error, 0);
  }
  ~ServerProcess() { kill(); }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = 0;
  }

 private:
  pid_t child_ = 0;
};

// Not a test: the code that the server process of the other tests runs.
TEST(DpdkServerProcess, DISABLED_Serves) {
  const char* const folder = std::getenv(kFolder);
  if (folder == nullptr) GTEST_SKIP() << "this is for the tests beside it";
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const bool hesitates = *std::getenv(kHesitates) == '1';
  std::unique_ptr<World> earlier_world;
  std::unique_ptr<Process> earlier;
  if (hesitates) {
    earlier_world = makeMemifEnd(folder, true, kLateMemif - 1);
    earlier = std::make_unique<Process>(*earlier_world, Role::Server, 0, "");
    // A while is what this is about: the client asks meanwhile, and nothing of that can be seen from here.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  const std::unique_ptr<World> world = makeMemifEnd(folder, true, hesitates ? kLateMemif : 0);
  Process server(*world, Role::Server, std::strtoull(std::getenv(kId), nullptr, 10), std::getenv(kSecret));
  if (*std::getenv(kEchoes) == '1') server.echoRequests();
  ASSERT_TRUE(server.endpoint().listen(world->placeToListen(*server.node, 0)).ok());
  for (;;) {
    server.step();
    std::this_thread::yield();
  }
}

class DpdkProcesses : public ::testing::Test {
 protected:
  void startClient(const std::string& secret = "", int memif_id = 0) {
    world = makeMemifEnd(folder.path(), false, memif_id);
    client = std::make_unique<Process>(*world, Role::Client, 0, secret);
  }
  SessionId connect(uint64_t expected_id) {
    // The address of whichever server opens the other end of the memif: it may just be starting.
    const Locator place = Locator::parse("dpdk://02:00:00:00:00:01@1").value();
    return client->endpoint().connect(place, expected_id, world->nowNs() + 20 * kSecond);
  }
  bool until(const std::function<bool()>& condition) { return stepUntil(*world, {client.get()}, condition); }
  void exchange(SessionId session, uint32_t bytes) {
    TestCall call;
    TxMessage request = makeMessage(client->endpoint(), owner, bytes, 3);
    ASSERT_EQ(client->endpoint().call(session, request, {}, call), Status::Ok);
    ASSERT_TRUE(until([&] { return call.completions == 1; })) << bytes;
    EXPECT_EQ(call.status, Status::Ok);
    EXPECT_TRUE(hasPattern(call.response, bytes, 3)) << bytes;
  }

  Folder folder;
  CountingOwner owner;
  std::unique_ptr<World> world;
  std::unique_ptr<Process> client;
};

TEST_F(DpdkProcesses, ThePeersDeathLosesTheSessionAndASecondOneWorks) {
  auto server = std::make_unique<ServerProcess>(folder, ServerSettings{.echoes = false});
  startClient();
  const SessionId first = connect(7);
  ASSERT_TRUE(until([&] { return client->sink.opened.size() == 1; }));
  std::list<TestCall> calls(3);
  for (TestCall& call : calls) {
    TxMessage request = makeMessage(client->endpoint(), owner, 5000, 3);
    ASSERT_EQ(client->endpoint().call(first, request, {}, call), Status::Ok);
  }
  const int64_t begin_ns = world->nowNs();
  ASSERT_TRUE(until([&] { return world->nowNs() - begin_ns > kSecond / 10; }));
  EXPECT_TRUE(client->sink.lost.empty());
  server->kill();
  ASSERT_TRUE(until([&] { return !client->sink.lost.empty(); }));
  EXPECT_EQ(client->sink.lost[0], std::pair(first, Status::SessionLost));
  for (const TestCall& call : calls) {
    EXPECT_EQ(call.completions, 1);
    EXPECT_EQ(call.status, Status::SessionLost);
  }

  // The new server finds the socket that the killed one has left.
  server = std::make_unique<ServerProcess>(folder, ServerSettings{.id = 8});
  const SessionId second = connect(8);
  EXPECT_NE(second, first);
  ASSERT_TRUE(until([&] { return client->sink.opened.size() == 2; }));
  exchange(second, 1000);
  exchange(second, 300'000);
  client->die();
}

TEST_F(DpdkProcesses, WhoeverComesBeforeItsMemifIsThereIsLetInLater) {
  startClient("", kLateMemif);
  const SessionId session = connect(7);
  const ServerProcess server(folder, {.hesitates = true});
  const int64_t begin_ns = world->nowNs();
  ASSERT_TRUE(until([&] { return !client->sink.opened.empty() || !client->sink.lost.empty(); }));
  ASSERT_EQ(client->sink.opened.size(), 1u);
  // It was told to go away, and looked again when a greeting could not take that long any more.
  EXPECT_GT(world->nowNs() - begin_ns, 4 * kSecond);
  EXPECT_LT(world->nowNs() - begin_ns, 12 * kSecond);
  exchange(session, 1000);
  client->die();
}

TEST_F(DpdkProcesses, AnotherSecretIsRefusedAndTheRightOneIsLetIn) {
  for (const auto& [of_server, of_client] : {std::pair("one", "two"), std::pair("one", ""), std::pair("", "two")}) {
    const ServerProcess server(folder, {.secret = of_server});
    startClient(of_client);
    const SessionId attempt = connect(0);
    ASSERT_TRUE(until([&] { return !client->sink.lost.empty(); }));
    EXPECT_EQ(client->sink.lost[0], std::pair(attempt, Status::Refused)) << of_server << " and " << of_client;
    EXPECT_TRUE(client->sink.opened.empty());
    client->die();
  }
  const ServerProcess server(folder, {.secret = "one"});
  startClient("one");
  const SessionId session = connect(7);
  ASSERT_TRUE(until([&] { return client->sink.opened.size() == 1; }));
  exchange(session, 1000);
  client->die();
}

}  // namespace
}  // namespace ramcore::transport::contract
