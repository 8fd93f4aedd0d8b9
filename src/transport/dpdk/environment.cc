#include "transport/dpdk/environment.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>
#include <sstream>
#include <system_error>

#include "transport/dpdk/eal.h"

namespace ramcore::transport::dpdk {
namespace {

constexpr std::string_view kDriverFolders[] = {"/usr/lib/x86_64-linux-gnu/dpdk", "/usr/lib64/dpdk", "/usr/lib/dpdk",
                                               "/usr/local/lib/x86_64-linux-gnu/dpdk"};
constexpr size_t kPageBytes = 4096;

/// Passes DPDK's log on to ours, line by line, and keeps the last warning.
class LogStream {
 public:
  explicit LogStream(Trace& trace) : trace_(&trace) {}
  void open() {
    cookie_io_functions_t functions{};
    functions.write = [](void* cookie, const char* text, size_t bytes) {
      static_cast<LogStream*>(cookie)->take(std::string_view(text, bytes));
      return static_cast<ssize_t>(bytes);
    };
    FILE* const stream = ::fopencookie(this, "w", functions);
    if (stream == nullptr) return;
    ::setvbuf(stream, nullptr, _IOLBF, 0);
    rte_openlog_stream(stream);
  }
  std::string last() {
    const std::scoped_lock lock(mutex_);
    return last_;
  }

 private:
  void take(std::string_view text) {
    const std::scoped_lock lock(mutex_);
    while (!text.empty()) {
      const size_t end = text.find('\n');
      std::string line(text.substr(0, end));
      text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
      if (line.empty()) continue;
      trace_->debug("dpdk: " + line);
      last_ = std::move(line);
    }
  }

  std::mutex mutex_;  // DPDK has threads of its own
  Trace* trace_;
  std::string last_;
};

/// Restores the affinity of this thread at its end: DPDK binds the thread that starts it to one processor.
class KeptAffinity {
 public:
  KeptAffinity() { is_known_ = ::pthread_getaffinity_np(::pthread_self(), sizeof(set_), &set_) == 0; }
  ~KeptAffinity() {
    if (is_known_) static_cast<void>(::pthread_setaffinity_np(::pthread_self(), sizeof(set_), &set_));
  }
  KeptAffinity(const KeptAffinity&) = delete;
  KeptAffinity& operator=(const KeptAffinity&) = delete;
  /// A processor that the thread may run on.
  int first() const {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (is_known_ && CPU_ISSET(cpu, &set_)) return cpu;
    }
    return 0;
  }

 private:
  cpu_set_t set_{};
  bool is_known_ = false;
};

// Loading all drivers that are installed, some hundred, takes a quarter of a second: a process with virtual devices
// loads what it needs.
std::vector<std::string> driversFor(const std::vector<std::string>& ports) {
  std::set<std::string> names = {"mempool_ring", "bus_vdev"};
  for (const std::string& port : ports) {
    if (!Environment::isVirtual(port)) return {};  // all drivers: nobody says which one the device needs
    names.insert(DeviceName::split(port).driver());
  }
  for (const std::string_view folder : kDriverFolders) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      std::vector<std::string> found;
      for (const std::string& name : names) {
        const std::filesystem::path file = entry.path() / ("librte_" + name + ".so");
        if (std::filesystem::exists(file, error)) found.push_back(file.string());
      }
      if (found.size() == names.size()) return found;
    }
  }
  return {};
}

// DPDK lives as long as the process.
struct Started {
  std::mutex mutex;
  bool was_tried = false;
  Failure failure;
  Environment* environment = nullptr;
  LogStream* log = nullptr;
  std::vector<std::pair<std::byte*, size_t>> memory;
};
Started& started() {
  static auto* const one = new Started;
  return *one;
}

Outcome<bool> startOnce(const EnvironmentOptions& options, Trace& trace) {
  const KeptAffinity affinity;
  auto* const log = started().log = new LogStream(trace);
  log->open();
  std::vector<std::string> arguments = {"ramcore",
                                        "-l",
                                        std::to_string(affinity.first()),
                                        "-m",
                                        std::to_string(options.memory_mb),
                                        "--no-telemetry",
                                        "--no-shconf",
                                        "--file-prefix=ramcore",
                                        "--iova-mode=va",
                                        "--log-level=*:warning"};
  if (options.huge_pages) {
    arguments.emplace_back("--huge-unlink=always");
  } else {
    arguments.emplace_back("--no-huge");
  }
  if (std::ranges::all_of(options.ports, &Environment::isVirtual)) arguments.emplace_back("--no-pci");
  for (const std::string& driver : driversFor(options.ports)) {
    arguments.emplace_back("-d");
    arguments.push_back(driver);
  }
  std::istringstream more(options.arguments);
  for (std::string word; more >> word;) arguments.push_back(word);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  if (rte_eal_init(static_cast<int>(pointers.size()), pointers.data()) < 0) {
    const int error = rte_errno;
    return Failure{error == ENOMEM ? Status::NoSpace : Status::BadConfig,
                   std::string("DPDK does not start: ") + rte_strerror(error) + " (" + log->last() +
                       "); check --dpdk-eal, --dpdk-memory-mb and, with --dpdk-huge-pages, that pages are reserved"};
  }
  return true;
}

}  // namespace

DeviceName DeviceName::split(const std::string& device) {
  const size_t comma = device.find(',');
  if (comma == std::string::npos) return {device, ""};
  return {device.substr(0, comma), device.substr(comma + 1)};
}

std::string DeviceName::driver() const {
  if (!Environment::isVirtual(name)) return name;
  return name.substr(0, name.find_last_not_of("0123456789") + 1);
}

bool Environment::isVirtual(const std::string& device) { return device.starts_with("net_"); }

Outcome<Environment*> Environment::start(const EnvironmentOptions& options, Trace& trace) {
  Started& one = started();
  const std::scoped_lock lock(one.mutex);
  if (!one.was_tried) {
    one.was_tried = true;
    auto result = startOnce(options, trace);
    if (result.ok()) {
      one.environment = new Environment;
    } else {
      one.failure = std::move(result).error();
    }
  }
  if (one.environment == nullptr) return one.failure;
  return one.environment;
}

std::string Environment::lastWarning() { return started().log->last(); }

Outcome<bool> Environment::addMemory(std::byte* base, size_t bytes) {
  Started& one = started();
  const std::scoped_lock lock(one.mutex);
  if (std::ranges::find(one.memory, std::pair(base, bytes)) != one.memory.end()) return true;
  if (rte_extmem_register(base, bytes, nullptr, 0, kPageBytes) != 0) {
    const int error = rte_errno;
    return Failure{error == ENOMEM ? Status::NoSpace : Status::IoError,
                   "DPDK does not take " + std::to_string(bytes) + " bytes of memory: " + rte_strerror(error)};
  }
  one.memory.emplace_back(base, bytes);
  return true;
}

}  // namespace ramcore::transport::dpdk
