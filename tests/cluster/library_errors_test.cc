// What the library answers to mistakes: a status that a program can act on, and where there is a message, one line with
// the cause. One row of a table is one test; the tests of a suite share a coordinator and a server of their own
// processes.
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
#include <ostream>
#include <string>
#include <vector>

#include "cluster/daemon.h"
#include "ramcore/client.h"

namespace ramcore {
namespace {

constexpr const char* kCluster = "library-errors";

/// The cluster of a suite.
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
    arguments.insert(arguments.end(),
                     {"--coordinator", locator(), "--memory", "64MiB", "--replicas", "0", "--storage-bytes", "0"});
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
  static void write(const std::string& name, const std::string& content) {
    std::ofstream(path(name)) << content;
    // Secrets are among them.
    std::filesystem::permissions(path(name), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }

  static ClientOptions right() {
    ClientOptions options;
    options.coordinators = {locator()};
    options.cluster_name = kCluster;
    options.secret_file = path("secret");
    options.connect_timeout = std::chrono::seconds(10);
    return options;
  }
};

/// The row's name is the test's.
template <typename Row>
std::string rowName(const ::testing::TestParamInfo<Row>& info) {
  return info.param.name;
}

struct ConnectMistake {
  const char* name;
  void (*change)(ClientOptions&, const std::string& folder);
  Status status;
  const char* cause;
};
void PrintTo(const ConnectMistake& row, std::ostream* out) { *out << row.name; }

class LibraryErrorsOfConnecting : public LibraryErrors, public ::testing::WithParamInterface<ConnectMistake> {};

TEST_P(LibraryErrorsOfConnecting, SayStatusAndCauseInOneLine) {
  ClientOptions options = right();
  GetParam().change(options, folder());
  const auto client = Client::connect(options);
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(name(client.error().status), name(GetParam().status));
  EXPECT_NE(client.error().message.find(GetParam().cause), std::string::npos) << client.error().message;
  EXPECT_EQ(std::count(client.error().message.begin(), client.error().message.end(), '\n'), 0);
}

const ConnectMistake kConnectMistakes[] = {
    {"NobodyListens",
     [](ClientOptions& options, const std::string&) {
       options.coordinators = {"tcp://127.0.0.1:9"};
       options.connect_timeout = std::chrono::milliseconds(500);
     },
     Status::Unreachable, "tcp://127.0.0.1:9"},
    {"AnotherCluster", [](ClientOptions& options, const std::string&) { options.cluster_name = "another"; },
     Status::Refused, "cluster of another name"},
    // No name has a label of more than 63 bytes: no name service is asked.
    {"UnknownHost",
     [](ClientOptions& options, const std::string&) {
       options.coordinators = {"tcp://" + std::string(64, 'x') + ".test:1"};
     },
     Status::Unreachable, "is unknown"},
    {"NameTooLong", [](ClientOptions& options, const std::string&) { options.cluster_name = std::string(129, 'c'); },
     Status::BadConfig, "129 bytes"},
    {"NoName", [](ClientOptions& options, const std::string&) { options.cluster_name = ""; }, Status::BadConfig,
     "0 bytes"},
    {"WrongSecret", [](ClientOptions& options, const std::string& folder) { options.secret_file = folder + "/wrong"; },
     Status::Refused, "refuses this client"},
    {"NoSecret", [](ClientOptions& options, const std::string&) { options.secret_file = ""; }, Status::Refused,
     "secret"},
    {"ShortSecret", [](ClientOptions& options, const std::string& folder) { options.secret_file = folder + "/short"; },
     Status::BadConfig, "9 bytes"},
    {"SecretMissing",
     [](ClientOptions& options, const std::string& folder) { options.secret_file = folder + "/missing"; },
     Status::IoError, "missing"},
    {"BadLocator", [](ClientOptions& options, const std::string&) { options.coordinators = {"nonsense"}; },
     Status::BadConfig, "nonsense"},
    {"NoLocator", [](ClientOptions& options, const std::string&) { options.coordinators.clear(); }, Status::BadConfig,
     "coordinator"},
    {"LogLevel", [](ClientOptions& options, const std::string&) { options.log_level = "loud"; }, Status::BadConfig,
     "loud"},
};
INSTANTIATE_TEST_SUITE_P(Mistakes, LibraryErrorsOfConnecting, ::testing::ValuesIn(kConnectMistakes),
                         rowName<ConnectMistake>);

struct CallMistake {
  const char* name;
  Status (*call)(Client& client, Table present);
  Status status;
};
void PrintTo(const CallMistake& row, std::ostream* out) { *out << row.name; }

/// With a client and a table `present`, which holds "text" under "text".
class LibraryErrorsOfCalls : public LibraryErrors, public ::testing::WithParamInterface<CallMistake> {
 protected:
  static void SetUpTestSuite() {
    LibraryErrors::SetUpTestSuite();
    if (HasFatalFailure()) return;
    auto connected = Client::connect(right());
    ASSERT_TRUE(connected.ok()) << connected.error().message;
    client().emplace(std::move(*connected));
    const auto made = client()->createTable("present");
    ASSERT_TRUE(made.ok()) << ramcore::name(made.error());
    present() = *made;
    ASSERT_EQ(client()->write(present(), "text", "text").status, Status::Ok);
  }
  static void TearDownTestSuite() {
    client().reset();
    LibraryErrors::TearDownTestSuite();
  }
  static std::optional<Client>& client() {
    static std::optional<Client> value;
    return value;
  }
  static Table& present() {
    static Table value;
    return value;
  }
};

TEST_P(LibraryErrorsOfCalls, HaveTheStatusOfTheMistake) {
  ASSERT_TRUE(client().has_value());
  EXPECT_EQ(name(GetParam().call(*client(), present())), name(GetParam().status));
  EXPECT_EQ(name(client()->write(present(), "right", "v").status), "Ok") << "the client is of no use afterwards";
}

std::string longKey() { return std::string(kKeyBytesLimit + 1, 'k'); }
std::string longValue() { return std::string(kValueBytesLimit + 1, 'v'); }
constexpr Table kNeverGiven{123'456};

const CallMistake kCallMistakes[] = {
    {"OpenOfAbsentTable", [](Client& c, Table) { return c.openTable("absent").status(); }, Status::NoSuchTable},
    {"DropOfAbsentTable", [](Client& c, Table) { return c.dropTable("absent"); }, Status::NoSuchTable},
    {"CreateOfPresentTable", [](Client& c, Table) { return c.createTable("present").status(); }, Status::TableExists},
    {"CreateWithoutName", [](Client& c, Table) { return c.createTable("").status(); }, Status::BadRequest},
    {"CreateWithTooManyTablets", [](Client& c, Table) { return c.createTable("many", 1'000'000).status(); },
     Status::BadRequest},
    {"ReadOfTableNeverGiven", [](Client& c, Table) { return c.read(kNeverGiven, "k").status(); }, Status::NoSuchTable},
    {"WriteToTableNeverGiven", [](Client& c, Table) { return c.write(kNeverGiven, "k", "v").status; },
     Status::NoSuchTable},
    {"ReadOfAbsentKey", [](Client& c, Table t) { return c.read(t, "absent").status(); }, Status::NotFound},
    {"WriteWithEmptyKey", [](Client& c, Table t) { return c.write(t, "", "v").status; }, Status::BadRequest},
    {"ReadWithEmptyKey", [](Client& c, Table t) { return c.read(t, "").status(); }, Status::BadRequest},
    {"WriteWithKeyTooLong", [](Client& c, Table t) { return c.write(t, longKey(), "v").status; }, Status::TooLarge},
    {"WriteWithValueTooLong", [](Client& c, Table t) { return c.write(t, "k", longValue()).status; }, Status::TooLarge},
    {"IncrementOfText", [](Client& c, Table t) { return c.increment(t, "text", 1).status; }, Status::TypeMismatch},
};
INSTANTIATE_TEST_SUITE_P(Mistakes, LibraryErrorsOfCalls, ::testing::ValuesIn(kCallMistakes), rowName<CallMistake>);

}  // namespace
}  // namespace ramcore
