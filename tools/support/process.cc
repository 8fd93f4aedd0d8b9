#include "tools/support/process.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <ios>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "log/format/segment_format.h"
#include "runtime/real/process_limits.h"
#include "runtime/real/secret_file.h"
#include "tools/support/advertise.h"
#include "tools/support/command_line.h"
#include "tools/support/dpdk_flags.h"
#include "tools/support/listening.h"
#include "tools/support/rdma_flags.h"
#include "tools/support/standard_output.h"
#include "transport/registry/advertising.h"
#include "transport/session/cluster_name.h"
#include "wire/handshake_messages.h"

namespace ramcore::tools {
namespace {

// Descriptors that a process needs beside sessions (storage, metrics, sets of descriptors, sessions to other servers),
// and the fewest sessions with which it starts.
constexpr uint64_t kOwnFiles = 32;
constexpr uint64_t kSessionsLeast = 16;
constexpr int64_t kStopNsMax = 5 * runtime::kNanosPerSecond;
constexpr int64_t kStopUnaskedNsMax = 300 * runtime::kNanosPerSecond;

// Ends the wait for signals when the stop did not come from a signal. Signals that other processes send then are left
// to the next thread that waits for signals.
constexpr int kEndOfRun = SIGUSR2;

// The signals that run() waits for. By default the last two would end the process without a message, and supervisors
// take an end by SIGHUP for one that was wanted.
sigset_t handledSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGUSR2}) sigaddset(&set, number);
  return set;
}

void blockSignals() {
  const sigset_t set = handledSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

rpc::DispatchOptions dispatchOptions(const ProcessSettings& settings) {
  rpc::DispatchOptions options;
  options.hand_off = settings.hand_off == "inline"    ? rpc::HandOff::Inline
                     : settings.hand_off == "handoff" ? rpc::HandOff::Workers
                                                      : rpc::HandOff::Auto;
  options.poll_always = settings.poll == "always";
  options.spin_ns_max = settings.spin_us * runtime::kNanosPerMicro;
  return options;
}

// Failure: BadConfig: the file cannot be read, or is not a file of thresholds.
Outcome<transport::GatherCalibration> readGatherFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  // Reads one byte more than a file may have, so that a longer file is noticed.
  std::string text(transport::GatherCalibration::kTextBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad() || (file.fail() && !file.eof())) {
    return Failure{Status::BadConfig, "cannot read --gather-file '" + path + "': " + std::strerror(errno) +
                                          "; make one with rcnic calibrate --out, or leave the flag out"};
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return transport::GatherCalibration::parse(text, path);
}

// What to listen at, and which transports that takes. Failure: BadConfig.
Outcome<transport::TransportChoices> choose(const ProcessSettings& settings,
                                            std::vector<transport::ListenWish>& listen) {
  transport::TransportChoices choices;
  choices.dpdk = settings.dpdk;
  choices.borrowed_ns_max = settings.pin_deadline_ms * runtime::kNanosPerMilli;
  using Wanted = transport::TransportChoices::Wanted;
  for (const std::string& text : settings.listen) {
    auto wish = transport::ListenWish::parse(text);
    if (!wish) return std::move(wish).error();
    if (wish->locator.scheme == "verbs") {
      auto device = transport::VerbsDeviceChoice::of(wish->locator);
      if (!device) return std::move(device).error();
      choices.verbs_device = std::move(device).value();
      choices.verbs = Wanted::Yes;
    }
    if (wish->is_all && choices.verbs_device.host.empty()) choices.verbs_device.host = wish->locator.host;
    // "Every address" is the address of no device.
    if (transport::isEveryAddress(wish->locator)) choices.verbs_device.host.clear();
    listen.push_back(std::move(wish).value());
  }
  if (!settings.gather_file.empty()) {
    auto gather = readGatherFile(settings.gather_file);
    if (!gather.ok()) return std::move(gather).error();
    choices.gather = std::move(gather).value();
  }
  choices.rdma_class = settings.rdma_class;
  if (settings.rdma_device.empty()) return choices;
  auto device = transport::VerbsDeviceChoice::parse(settings.rdma_device);
  if (!device) return std::move(device).error();
  device->host = choices.verbs_device.host;
  choices.verbs_device = std::move(device).value();
  choices.verbs = Wanted::Yes;
  return choices;
}

// What a process says of itself, and how it runs.
void addRunFlags(Command& command, ProcessSettings& settings) {
  command.addOption("--log-level", settings.log_level, "Lines on stderr from this level on")
      .environment("RAMCORE_LOG_LEVEL")
      .oneOf({"debug", "info", "warning", "error", "off"});
  command.addOption("--ready-file", settings.ready_file, "File to write the locators to once the process serves")
      .environment("RAMCORE_READY_FILE");
  command.addOption("--metrics", settings.metrics, "host:port to serve metrics at, as Prometheus text over HTTP")
      .environment("RAMCORE_METRICS");
  command
      .addOption("--dispatch", settings.hand_off,
                 "Where short requests run: auto, inline (on the dispatch thread), handoff (on workers)")
      .environment("RAMCORE_DISPATCH")
      .oneOf({"auto", "inline", "handoff"});
  command.addOption("--poll", settings.poll, "adaptive: sleep when idle; always: keep a core busy for lowest latency")
      .environment("RAMCORE_POLL")
      .oneOf({"adaptive", "always"});
  command.addOption("--spin-us", settings.spin_us, "Longest spin in microseconds before an idle dispatch thread sleeps")
      .environment("RAMCORE_SPIN_US")
      .inRange(0, 100000);
  command.addOption("--workers", settings.workers, "Threads for long requests and background work")
      .environment("RAMCORE_WORKERS")
      .inRange(1, 32);
  command
      .addOption("--sessions-max", settings.sessions_max,
                 "Sessions that each transport of this process takes, an eighth of them kept from clients. Further "
                 "connections are refused. Fewer sessions where the hard limit of open files (ulimit -Hn) is less, and "
                 "over dpdk 57344 at most")
      .environment("RAMCORE_SESSIONS_MAX")
      .inRange(16, 1'000'000);
}

}  // namespace

void addProcessFlags(Command& command, ProcessSettings& settings) {
  command.showDefaults();
  command
      .addOption(
          "--listen", settings.listen,
          "Locator to accept sessions at: tcp://host:port or verbs://host:port (port 0: any free one), shm:///path, "
          "dpdk://any@number, or all://host:port for tcp there and every other transport that this process has; "
          "repeatable, and [LOCATOR,LOCATOR] in the environment")
      .environment("RAMCORE_LISTEN");
  command
      .addOption("--advertise", settings.advertise,
                 "Locator by which others reach this process, tcp://host:port or verbs://host:port, told to "
                 "coordinator, servers and clients in place of where it listens over that transport; host: a name or "
                 "an address, port 0: the port at which this process listens; repeatable, or LOCATOR,LOCATOR")
      .splitAt(',')
      .showDefault("")
      .environment("RAMCORE_ADVERTISE");
  command
      .addOption("--rdma-device", settings.rdma_device,
                 "RDMA device to use, NAME, NAME:PORT or NAME:PORT:GID; without it the one with the address of a verbs "
                 "locator, or the first active one, if there is any")
      .ofAdapters()
      .environment("RAMCORE_RDMA_DEVICE");
  addRdmaClassFlags(command, settings.rdma_class);
  addDpdkFlags(command, settings.dpdk);
  command
      .addOption("--gather-file", settings.gather_file,
                 "File that 'rcnic calibrate' has written: from which size on values are sent from where they are in "
                 "memory, and not copied, for each transport and device; without it safe thresholds for all")
      .environment("RAMCORE_GATHER_FILE");
  command.addOption("--cluster", settings.cluster, "Name of the cluster; both ends of a session must have the same")
      .environment("RAMCORE_CLUSTER");
  command
      .addOption("--secret-file", settings.secret_file,
                 "File with the cluster's secret; without it this process talks to its own machine only")
      .environment("RAMCORE_SECRET_FILE");
  addRunFlags(command, settings);
  command.addConfigFile("TOML file with the same names as the flags (without dashes in front)");
  command.setVersion(std::string("ramcore ") + RAMCORE_VERSION + " (wire format " +
                     std::to_string(wire::kProtocolVersion) + ", segment format " +
                     std::to_string(log::kSegmentFormat) + ")");
}

namespace {

// True if the whole `text` is a number that a T can hold.
template <typename T>
bool isNumber(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::function<std::string(const std::string&)> wholeNumber() {
  return [](const std::string& text) {
    return isNumber<uint64_t>(text) ? "" : "'" + text + "' is no number from 0 to 18446744073709551615";
  };
}

std::function<std::string(const std::string&)> signedNumber() {
  return [](const std::string& text) {
    return isNumber<int64_t>(text) ? ""
                                   : "'" + text + "' is no number from -9223372036854775808 to 9223372036854775807";
  };
}

bool parseFlags(CommandLine& line, int argc, char** argv, int& exit_code) {
  runtime::ignoreFileSizeSignal();
  runtime::raiseDescriptorLimit();
  const std::optional<ParseEnd> end = line.parse(argc, argv);
  if (!end) return true;
  if (end->is_mistake) {
    std::fprintf(stderr, "%s: %s; see --help\n", line.program().c_str(), end->text.c_str());
    exit_code = kExitUsage;
  } else {
    // Through stdio, like all other output.
    std::fwrite(end->text.data(), 1, end->text.size(), stdout);
    exit_code = kExitOk;
  }
  return false;
}

int fail(const std::string& program, const Failure& failure) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), failure.message.c_str());
  return failure.status == Status::BadConfig ? kExitUsage : kExitFailed;
}

// Lists the requests that this process is working on, for a person who wants to know why something takes so long.
struct Process::ListJob : runtime::Job {
  explicit ListJob(Process& owner)
      : Job([](runtime::Job& job) { static_cast<ListJob&>(job).list(); }), process(owner) {}
  void list() {
    posted.store(false);
    const std::vector<rpc::RequestInService> requests = process.dispatch_->requestsInService();
    process.trace_.warning(std::to_string(requests.size()) + " requests in service");
    for (const rpc::RequestInService& request : requests) {
      process.trace_.warning("in service for " + std::to_string(request.age_ns / runtime::kNanosPerMicro) + " us: " +
                             std::string(wire::name(request.opcode)) + " of peer " + std::to_string(request.peer_id));
    }
  }
  Process& process;
  std::atomic<bool> posted{false};
};

// Runs on the dispatch thread after a signal, then again and again until the role has stopped.
struct Process::StopJob : runtime::Job, runtime::Timer {
  explicit StopJob(Process& owner)
      : Job([](runtime::Job& job) { static_cast<StopJob&>(job).begin(); }),
        Timer([](runtime::Timer& timer) { static_cast<StopJob&>(timer).look(); }),
        process(owner) {}
  void begin() {
    if (begun) return;
    begun = true;
    // If no signal has asked for the end, a disk that is slow to flush the replicas of other servers gets more time.
    limit_ns = process.was_signalled_.load() ? kStopNsMax : kStopUnaskedNsMax;
    give_up_ns = process.clock_.nowNs() + limit_ns;
    process.dispatch_->refuseRequests();
    on_stop();
    look();
  }
  void look() {
    const int64_t now_ns = process.clock_.nowNs();
    if (limit_ns > kStopNsMax && process.was_signalled_.load()) {
      // A signal has asked for the end meanwhile: from now on the shorter time counts.
      limit_ns = kStopNsMax;
      give_up_ns = std::min(give_up_ns, now_ns + kStopNsMax);
    }
    const bool gives_up = now_ns >= give_up_ns;
    if (!shut_down && (stopped() || gives_up)) {
      shut_down = true;
      process.caller_->shutDown();  // handlers that wait for others answer now
    }
    // Handlers on workers answer through this thread, so the end has to wait for the last of them.
    has_ended = shut_down && stopped() && !process.dispatch_->hasRequests();
    if (has_ended || gives_up) {
      process.dispatch_->stop();
      return;
    }
    process.dispatch_->arm(*this, now_ns + runtime::kNanosPerMilli);
  }
  Process& process;
  std::function<void()> on_stop;
  std::function<bool()> stopped;
  std::atomic<bool> posted{false};
  bool begun = false;
  bool shut_down = false;
  bool has_ended = false;
  int64_t limit_ns = 0;
  int64_t give_up_ns = 0;
};

Process::Process(const ProcessSettings& settings, const std::string& program)
    : settings_(settings), program_(program), trace_(stderrTrace(program)) {}

Process::~Process() = default;

Outcome<std::unique_ptr<Process>> Process::open(const ProcessSettings& settings, const std::string& program,
                                                transport::Role role,
                                                const std::function<runtime::ExecutorHooks()>& hooks) {
  blockSignals();
  auto process = std::unique_ptr<Process>(new Process(settings, program));
  TraceLevel level = TraceLevel::Info;
  parseTraceLevel(settings.log_level, level);
  process->trace_.setLevel(level);
  const auto named = transport::checkClusterName(settings.cluster);
  if (!named.ok()) return named.error();
  auto secret = runtime::readSecretFile(settings.secret_file);
  if (!secret.ok()) return std::move(secret).error();
  process->identity_ = {.role = role, .id = 0, .cluster_name = settings.cluster, .secret = std::move(secret).value()};

  // Tried now: a supervisor would wait for ever for a file that cannot be written.
  if (!settings.ready_file.empty()) {
    const auto writable = process->writeReadyFile("");
    if (!writable.ok()) return writable.error();
  }

  const auto wanted = transport::parseAdvertised(settings.advertise);
  if (!wanted.ok()) return wanted.error();
  std::vector<transport::ListenWish> listen;
  auto choices = choose(settings, listen);
  if (!choices.ok()) return choices.error();
  auto sessions_max = process->limitSessions();
  if (!sessions_max.ok()) return std::move(sessions_max).error();
  choices->sessions_max = *sessions_max;
  auto network = transport::TransportSet::open(
      *choices, {.clock = process->clock_, .entropy = process->entropy_, .trace = process->trace_}, process->identity_);
  if (!network.ok()) return std::move(network).error();
  process->network_ = std::move(network).value();
  auto bound =
      listenAt(*process->network_, listen, !process->identity_.secret.empty(), process->entropy_, process->trace_);
  if (!bound.ok()) return std::move(bound).error();
  auto advertised = whatToAdvertise(*bound, *wanted, settings.coordinators, process->trace_);
  if (!advertised.ok()) return std::move(advertised).error();
  for (const transport::Locator& locator : *advertised) process->locators_.push_back(locator.toString());
  process->identity_.advertised = std::move(advertised).value();

  process->dispatch_ = std::make_unique<rpc::Dispatch>(process->clock_, process->trace_, process->network_->sleeper(),
                                                       dispatchOptions(settings));
  if (hooks) process->dispatch_->setHooks(hooks());
  for (transport::Endpoint* endpoint : process->network_->endpoints()) process->dispatch_->addEndpoint(*endpoint);
  for (uint32_t i = 0; i < settings.workers; ++i) {
    auto worker = runtime::makeThreaded<runtime::ThreadExecutor>(process->clock_, "worker" + std::to_string(i),
                                                                 hooks ? hooks() : runtime::ExecutorHooks{});
    if (!worker.ok()) return std::move(worker).error();
    process->workers_.push_back(std::move(worker).value());
  }
  process->dispatch_->setWorkers(process->workers());
  process->caller_ = std::make_unique<rpc::Caller>(*process->dispatch_);
  process->stop_job_ = std::make_unique<StopJob>(*process);
  process->list_job_ = std::make_unique<ListJob>(*process);
  return process;
}

// Sessions that find no descriptor are refused less orderly than those beyond a limit, so the limit is set below the
// number of descriptors.
Outcome<uint32_t> Process::limitSessions() {
  const uint64_t files = runtime::raiseDescriptorLimit();
  if (files < kOwnFiles + kSessionsLeast) {
    return Failure{Status::BadConfig, "this process may open " + std::to_string(files) + " files; it needs " +
                                          std::to_string(kOwnFiles + kSessionsLeast) +
                                          " at least: raise the hard limit (ulimit -Hn, LimitNOFILE= of the unit)"};
  }
  if (files - kOwnFiles >= settings_.sessions_max) return settings_.sessions_max;
  const auto fewer = static_cast<uint32_t>(files - kOwnFiles);
  trace_.warning("this process takes " + std::to_string(fewer) + " sessions, not --sessions-max " +
                 std::to_string(settings_.sessions_max) + ": it may open no more than " + std::to_string(files) +
                 " files; raise the hard limit (ulimit -Hn, LimitNOFILE= of the unit)");
  return fewer;
}

std::vector<runtime::Executor*> Process::workers() const {
  std::vector<runtime::Executor*> workers;
  for (const auto& worker : workers_) workers.push_back(worker.get());
  return workers;
}

Outcome<bool> Process::writeReadyFile(const std::string& content) const {
  // A process that waits for the file must never see half of it.
  const std::string partial = settings_.ready_file + ".partial";
  std::ofstream file(partial);
  file << content;
  file.close();
  if (file &&
      (content.empty() ? unlink(partial.c_str()) : std::rename(partial.c_str(), settings_.ready_file.c_str())) == 0)
    return true;
  return Failure{Status::IoError, "cannot write the ready file '" + settings_.ready_file +
                                      "': " + std::strerror(errno) +
                                      "; with --ready-file, name a file in a directory that can be written"};
}

void Process::ready() {
  std::string line;
  for (const std::string& locator : locators_) line += (line.empty() ? "" : " ") + locator;
  std::printf("ready %s\n", line.c_str());
  std::fflush(stdout);
  if (isOutputLost()) trace_.warning("the line 'ready ...' is lost: standard output cannot be written");
  if (settings_.ready_file.empty()) return;
  const auto written = writeReadyFile(line + "\n");
  if (!written.ok()) trace_.error(written.error().message);
}

void Process::requestStop() {
  if (!stop_job_->posted.exchange(true)) dispatch_->post(*stop_job_, runtime::Priority::Membership);
}

void Process::awaitSignals() {
  const sigset_t set = handledSignals();
  int number = 0;
  while (sigwait(&set, &number) == 0 && number != SIGTERM && number != SIGINT) {
    if (number == kEndOfRun && run_ended_.load()) return;
    if (number != SIGUSR1) {
      trace_.warning(std::string(number == SIGHUP ? "SIGHUP" : "SIGUSR2") +
                     " is ignored: flags, configuration and secret are read at the start; restart this process after "
                     "a change");
    } else if (!list_job_->posted.exchange(true)) {
      dispatch_->post(*list_job_, runtime::Priority::Membership);
    }
  }
  was_signalled_.store(true);
  requestStop();
}

void Process::run(const std::function<void()>& on_stop, const std::function<bool()>& stopped) {
  stop_job_->on_stop = on_stop;
  stop_job_->stopped = stopped;
  auto signals = runtime::makeThreaded<std::thread>([this] { awaitSignals(); });
  if (!signals.ok()) {
    // Nothing was served yet.
    fail(program_, signals.error());
    std::_Exit(kExitFailed);
  }
  dispatch_->run();
  run_ended_.store(true);
  pthread_kill((*signals)->native_handle(), kEndOfRun);
  (*signals)->join();
  for (auto& worker : workers_) worker->stop();
  if (!settings_.ready_file.empty()) unlink(settings_.ready_file.c_str());
  if (!stop_job_->has_ended) {
    // Something still waits for a disk or a peer. Destroying what it uses would be worse than ending the process
    // without waiting for it.
    trace_.error("stopping took longer than " + std::to_string(stop_job_->limit_ns / runtime::kNanosPerSecond) +
                 " s; ending without it");
    std::_Exit(1);
  }
  trace_.info("stopped");
}

}  // namespace ramcore::tools
