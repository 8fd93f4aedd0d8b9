#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/support/child.h"
#include "bench/support/workload.h"
#include "ramcore/client.h"

namespace ramcore::bench {

/// Where the executables are: RAMCORE_BIN_DIR, or bin/ beside this program.
inline std::string toolPath(const std::string& name) {
  const char* from_environment = std::getenv("RAMCORE_BIN_DIR");
  const std::filesystem::path folder = from_environment != nullptr
                                           ? std::filesystem::path(from_environment)
                                           : std::filesystem::read_symlink("/proc/self/exe").parent_path() / "bin";
  const std::filesystem::path path = folder / name;
  if (!std::filesystem::exists(path)) {
    die(path.string() + " is missing; build the target 'tools' or set RAMCORE_BIN_DIR");
  }
  return path.string();
}

/// A directory of this run, removed at its end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ramcore-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) die("no temporary directory");
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// A coordinator and one server, real processes on the server's core, reachable over one transport.
class BenchCluster {
 public:
  /// @param transport  "shm" or "tcp"
  BenchCluster(const std::string& transport, const std::string& memory, std::vector<std::string> server_flags = {})
      : coordinator_(Child::start({toolPath("ramcore-coordinator"), "--listen", "tcp://127.0.0.1:0", "--storage",
                                   folder_ / "coordinator", "--log-level", "warning"},
                                  folder_ / "coordinator.log")) {
    locator_ = firstLocator(coordinator_.readyLine());
    const std::string listen = transport == "shm" ? "shm://" + folder_ / "server" : "tcp://127.0.0.1:0";
    std::vector<std::string> arguments{toolPath("ramcore-server"),
                                       "--coordinator",
                                       locator_,
                                       "--listen",
                                       listen,
                                       "--memory",
                                       memory,
                                       "--replicas",
                                       "0",
                                       "--storage-bytes",
                                       "0",
                                       "--log-level",
                                       "error"};
    arguments.insert(arguments.end(), server_flags.begin(), server_flags.end());
    server_ = Child::start(arguments, folder_ / "server.log");
    server_locator_ = firstLocator(server_.readyLine());
    ClientOptions options;
    options.coordinators = {locator_};
    auto connected = Client::connect(options);
    if (!connected) die(connected.error().message);
    client_ = std::make_unique<Client>(std::move(connected).value());
    const auto table = client_->createTable("bench", 1);
    if (!table) die("the table was not created: " + std::string(name(table.error())));
    table_ = *table;
  }
  ~BenchCluster() { client_.reset(); }

  Client& client() { return *client_; }
  Table table() const { return table_; }
  const Child& server() const { return server_; }
  const std::string& serverLocator() const { return server_locator_; }
  const std::string& coordinatorLocator() const { return locator_; }

  void load(const Keys& keys) {
    constexpr uint64_t kBatch = 64;
    const std::string value(kValueBytes, 'v');
    std::vector<MutateItem> items;
    for (uint64_t first = 0; first < keys.count(); first += kBatch) {
      items.clear();
      for (uint64_t i = first; i < std::min(first + kBatch, keys.count()); ++i) {
        items.push_back({.table = table_, .key = keys.at(i), .value = value, .condition = {}});
      }
      if (client_->multiMutate(items) != 0) die("loading failed: " + std::string(name(items[0].status)));
    }
  }

 private:
  static std::string firstLocator(const std::string& ready) {
    const size_t begin = ready.find(' ');
    if (ready.rfind("ready ", 0) != 0) die("a process says '" + ready + "' instead of being ready");
    return ready.substr(begin + 1, ready.find(' ', begin + 1) - begin - 1);
  }

  ScratchFolder folder_;
  Child coordinator_;
  Child server_;
  std::string locator_;
  std::string server_locator_;
  std::unique_ptr<Client> client_;
  Table table_;
};

}  // namespace ramcore::bench
