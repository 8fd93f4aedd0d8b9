// What the library answers to mistakes: a status that a program can act on, and where there is a message, one line with
// cause and remedy. Against a coordinator and a server of their own processes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "ramcore/client.h"

namespace ramcore {
namespace {

constexpr const char* kCluster = "library-errors";

/// A process of the cluster; ends with this object.
class Daemon {
 public:
  Daemon(const std::string& program, std::vector<std::string> arguments) {
    std::string path = std::string(RAMCORE_BIN_DIR) + "/" + program;
    arguments.insert(arguments.begin(), path);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execv(path.c_str(), argv.data());
      _exit(127);
    }
    close(ends[1]);
    output_ = ends[0];
  }
  ~Daemon() {
    if (pid_ > 0) {
      kill(pid_, SIGTERM);
      waitpid(pid_, nullptr, 0);
    }
    if (output_ >= 0) close(output_);
  }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  /// The first locator of its line "ready LOCATOR...", or "" if it ends or takes too long instead.
  std::string waitReady() const {
    constexpr int kReadyMsMax = 60'000;
    std::string line;
    char c = 0;
    pollfd waited{.fd = output_, .events = POLLIN, .revents = 0};
    while (poll(&waited, 1, kReadyMsMax) == 1 && read(output_, &c, 1) == 1 && c != '\n') line += c;
    const std::string ready = "ready ";
    return line.starts_with(ready) ? line.substr(ready.size(), line.find(' ', ready.size()) - ready.size()) : "";
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

class LibraryErrors : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string pattern = std::filesystem::temp_directory_path() / "ramcore-library-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder() = pattern;
    write("secret", "the right secret of this cluster\n");
    write("wrong", "some other secret altogether\n");
    write("short", "too short\n");
    const std::vector<std::string> common = {"--cluster",    kCluster,   "--secret-file",
                                             path("secret"), "--listen", "tcp://127.0.0.1:0",
                                             "--log-level",  "error"};
    std::vector<std::string> arguments = common;
    arguments.insert(arguments.end(), {"--storage", path("storage")});
    coordinator().emplace("ramcore-coordinator", arguments);
    locator() = coordinator()->waitReady();
    ASSERT_NE(locator(), "");
    arguments = common;
    arguments.insert(arguments.end(), {"--coordinator", locator(), "--memory", "64MiB"});
    server().emplace("ramcore-server", arguments);
    ASSERT_NE(server()->waitReady(), "");
  }
  static void TearDownTestSuite() {
    server().reset();
    coordinator().reset();
    std::filesystem::remove_all(folder());
  }

  static std::string& folder() {
    static std::string value;
    return value;
  }
  static std::string& locator() {
    static std::string value;
    return value;
  }
  static std::optional<Daemon>& coordinator() {
    static std::optional<Daemon> value;
    return value;
  }
  static std::optional<Daemon>& server() {
    static std::optional<Daemon> value;
    return value;
  }
  static std::string path(const std::string& name) { return folder() + "/" + name; }
  static void write(const std::string& name, const std::string& content) { std::ofstream(path(name)) << content; }

  static ClientOptions right() {
    ClientOptions options;
    options.coordinators = {locator()};
    options.cluster_name = kCluster;
    options.secret_file = path("secret");
    options.connect_timeout = std::chrono::seconds(10);
    return options;
  }
};

TEST_F(LibraryErrors, OfConnecting) {
  struct Row {
    const char* what;
    void (*change)(ClientOptions&);
    Status status;
    const char* cause;
  };
  const Row rows[] = {
      {"nobody listens",
       [](ClientOptions& options) {
         options.coordinators = {"tcp://127.0.0.1:9"};
         options.connect_timeout = std::chrono::milliseconds(500);
       },
       Status::Unreachable, "tcp://127.0.0.1:9"},
      {"another cluster", [](ClientOptions& options) { options.cluster_name = "another"; }, Status::Refused,
       "cluster name"},
      {"name too long", [](ClientOptions& options) { options.cluster_name = std::string(129, 'c'); }, Status::BadConfig,
       "129 bytes"},
      {"no name", [](ClientOptions& options) { options.cluster_name = ""; }, Status::BadConfig, "0 bytes"},
      {"wrong secret", [](ClientOptions& options) { options.secret_file = path("wrong"); }, Status::Refused,
       "refuses this client"},
      {"no secret", [](ClientOptions& options) { options.secret_file = ""; }, Status::Refused, "secret"},
      {"short secret", [](ClientOptions& options) { options.secret_file = path("short"); }, Status::BadConfig,
       "9 bytes"},
      {"secret missing", [](ClientOptions& options) { options.secret_file = path("missing"); }, Status::IoError,
       "missing"},
      {"bad locator", [](ClientOptions& options) { options.coordinators = {"nonsense"}; }, Status::BadConfig,
       "nonsense"},
      {"no locator", [](ClientOptions& options) { options.coordinators.clear(); }, Status::BadConfig, "coordinator"},
      {"log level", [](ClientOptions& options) { options.log_level = "loud"; }, Status::BadConfig, "loud"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    ClientOptions options = right();
    row.change(options);
    const auto client = Client::connect(options);
    ASSERT_FALSE(client.ok());
    EXPECT_EQ(name(client.error().status), name(row.status));
    EXPECT_NE(client.error().message.find(row.cause), std::string::npos) << client.error().message;
    EXPECT_EQ(std::count(client.error().message.begin(), client.error().message.end(), '\n'), 0);
  }
}

TEST_F(LibraryErrors, OfCalls) {
  auto client = Client::connect(right());
  ASSERT_TRUE(client.ok()) << client.error().message;
  const auto table = client->createTable("present");
  ASSERT_TRUE(table.ok()) << name(table.error());
  const std::string long_key(kKeyBytesLimit + 1, 'k');
  const std::string long_value(kValueBytesLimit + 1, 'v');
  struct Row {
    const char* what;
    Status found;
    Status wanted;
  };
  const Row rows[] = {
      {"open a table that does not exist", client->openTable("absent").status(), Status::NoSuchTable},
      {"drop a table that does not exist", client->dropTable("absent"), Status::NoSuchTable},
      {"create a table that exists", client->createTable("present").status(), Status::TableExists},
      {"create a table without a name", client->createTable("").status(), Status::BadRequest},
      {"create too many tablets", client->createTable("many", 1'000'000).status(), Status::BadRequest},
      {"read of a table id that was never given", client->read(Table{123'456}, "k").status(), Status::NoSuchTable},
      {"write to a table id that was never given", client->write(Table{123'456}, "k", "v").status, Status::NoSuchTable},
      {"read of what is not there", client->read(*table, "absent").status(), Status::NotFound},
      {"write with an empty key", client->write(*table, "", "v").status, Status::BadRequest},
      {"read with an empty key", client->read(*table, "").status(), Status::BadRequest},
      {"write with a key too long", client->write(*table, long_key, "v").status, Status::TooLarge},
      {"write with a value too long", client->write(*table, "k", long_value).status, Status::TooLarge},
  };
  for (const Row& row : rows) EXPECT_EQ(name(row.found), name(row.wanted)) << row.what;
  EXPECT_EQ(name(client->write(*table, "k", "v").status), "Ok");
  EXPECT_EQ(name(client->increment(*table, "k", 1).status), "TypeMismatch");
}

}  // namespace
}  // namespace ramcore
