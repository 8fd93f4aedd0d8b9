#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/trace.h"
#include "rpc/caller.h"
#include "rpc/dispatch.h"
#include "runtime/random.h"
#include "runtime/real/system_clock.h"
#include "runtime/real/thread_executor.h"
#include "transport/registry/registry.h"

namespace ramcore::tools {

class Command;
class CommandLine;

/// What the programs end with.
enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,   ///< it was tried and did not work; stderr has one line why
  kExitUsage = 2,    ///< flags, environment or configuration file make no sense; stderr has one line why
  kExitPartial = 3,  ///< it ran, and some of its operations failed; the output says which
};

/// What coordinator and server have in common on their command lines.
struct ProcessSettings {
  std::vector<std::string> listen;
  std::vector<std::string> advertise;
  /// Where the coordinator of a server is, already parsed. Empty: this process is the coordinator.
  std::vector<transport::Locator> coordinators;
  std::string rdma_device;
  transport::RdmaClass rdma_class;
  transport::DpdkChoice dpdk;
  std::string gather_file;
  std::string cluster = "ramcore";
  std::string secret_file;
  std::string log_level = "info";
  std::string ready_file;
  std::string metrics;
  std::string hand_off = "auto";
  std::string poll = "adaptive";
  uint32_t spin_us = 50;
  uint32_t pin_deadline_ms = 100;
  uint32_t workers = 1;
  uint32_t sessions_max = 16384;
};

/// Adds the common flags, with environment variables RAMCORE_..., `--config FILE` (TOML; flags take precedence over the
/// environment, and the environment over the file; unknown keys are errors) and `--version`. Borrows `settings`.
void addProcessFlags(Command& command, ProcessSettings& settings);
/// Parses the command line. Returns false when the process is to end with `exit_code` (help, version, or a mistake that
/// was printed in one line). From then on a write to a file that may not grow fails with an error and causes no signal,
/// and as many files may be open as the system allows.
bool parseFlags(CommandLine& line, int argc, char** argv, int& exit_code);
/// One line on stderr, "program: cause; remedy", and the exit code for it: kExitUsage for BadConfig, else kExitFailed.
int fail(const std::string& program, const Failure& failure);
/// For Option::check(): a whole number of 64 bits without or with a sign. Without this check the nearest number is
/// taken in place of a number that is out of range.
std::function<std::string(const std::string&)> wholeNumber();
std::function<std::string(const std::string&)> signedNumber();

/// What a daemon runs on: clock, transports, dispatch thread (the calling one), workers, signals.
///
/// Order of calls: open(), then the role is built on dispatch() and caller(), ready(), run().
class Process {
 public:
  /// Opens transports and listens. Must be called before any other thread exists: it blocks the signals that run()
  /// handles.
  /// @param hooks  called once for the dispatch thread and then once for each worker.
  static Outcome<std::unique_ptr<Process>> open(const ProcessSettings& settings, const std::string& program,
                                                transport::Role role,
                                                const std::function<runtime::ExecutorHooks()>& hooks);
  ~Process();

  runtime::Clock& clock() { return clock_; }
  runtime::Entropy& entropy() { return entropy_; }
  Trace& trace() { return trace_; }
  rpc::Dispatch& dispatch() { return *dispatch_; }
  rpc::Caller& caller() { return *caller_; }
  transport::Identity& identity() { return identity_; }
  transport::TransportSet& transports() { return *network_; }
  /// Where others reach this process.
  const std::vector<std::string>& locators() const { return locators_; }
  std::vector<runtime::Executor*> workers() const;
  /// Tells supervisors and scripts that the process serves: one line "ready LOCATOR..." on stdout, and the ready file.
  void ready();

  /// Dispatches until SIGTERM or SIGINT (or requestStop()); then refuses requests, calls `on_stop` and goes on until
  /// `stopped()` and the last request in service is answered. Workers have ended when it returns. If that takes longer
  /// than some seconds, the process ends with exit code 1.
  void run(const std::function<void()>& on_stop, const std::function<bool()>& stopped);
  /// Ends run() like a SIGTERM. Any thread.
  void requestStop();
  /// Whether a signal has asked this process to end.
  bool wasSignalled() const { return was_signalled_.load(); }

 private:
  struct StopJob;
  struct ListJob;
  void awaitSignals();
  /// How many sessions a transport may have. Failure: BadConfig: there are too few descriptors.
  Outcome<uint32_t> limitSessions();
  /// With an empty content it only finds out whether the file could be written. Failure: IoError.
  Outcome<bool> writeReadyFile(const std::string& content) const;
  Process(const ProcessSettings& settings, const std::string& program);

  const ProcessSettings settings_;
  const std::string program_;
  Trace& trace_;
  runtime::SystemClock clock_;
  runtime::SystemEntropy entropy_;
  transport::Identity identity_;
  std::unique_ptr<transport::TransportSet> network_;
  std::unique_ptr<rpc::Dispatch> dispatch_;
  std::vector<std::unique_ptr<runtime::ThreadExecutor>> workers_;
  std::unique_ptr<rpc::Caller> caller_;
  std::vector<std::string> locators_;
  std::atomic<bool> was_signalled_{false};
  std::atomic<bool> run_ended_{false};
  std::unique_ptr<StopJob> stop_job_;
  std::unique_ptr<ListJob> list_job_;
};

}  // namespace ramcore::tools
