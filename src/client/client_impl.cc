#include "client/client_impl.h"

#include "base/check.h"
#include "runtime/real/process_limits.h"
#include "runtime/real/secret_file.h"
#include "runtime/real/system_clock.h"
#include "runtime/real/thread_executor.h"
#include "transport/session/cluster_name.h"

namespace ramcore {

using client::ClusterClient;

/// The thread that polls when the program asked for one.
struct Client::Impl::Background : runtime::Job {
  Background(client::Driver& owner, runtime::Clock& clock)
      : Job([](Job& job) { static_cast<Background&>(job).driver.driveUntilStopped(); }),
        driver(owner),
        thread(clock, "ramcore-client") {
    thread.post(*this);
  }
  ~Background() {
    driver.stop();
    thread.stop();
  }
  client::Driver& driver;
  runtime::ThreadExecutor thread;
};

namespace {

/// Says why the transport of a locator is missing, at the end of a message; empty if there is nothing to say.
std::string missingFor(std::string_view scheme, const transport::TransportSet& transports) {
  if (scheme == "verbs" && !transports.whyNoVerbs().empty()) return "; verbs is not used: " + transports.whyNoVerbs();
  if (scheme == "verbs") return ", and no RDMA device that is active (ibv_devinfo tells)";
  if (scheme == "dpdk") return ", and no port of DPDK (name one with --dpdk-port, or in ClientOptions::dpdk)";
  return "";
}

Outcome<std::vector<rpc::PeerAddress>> parseCoordinators(const std::vector<std::string>& texts,
                                                         const transport::TransportSet& transports) {
  std::vector<rpc::PeerAddress> addresses;
  for (const std::string& text : texts) {
    auto locator = transport::Locator::parse(text);
    if (!locator) return locator.error();
    if (transports.endpointFor(*locator) == nullptr) {
      return Failure{Status::BadConfig, "this program has no transport for " + text + "; it has " +
                                            transports.schemes() + missingFor(locator->scheme, transports)};
    }
    addresses.push_back(rpc::coordinatorAt({std::move(locator).value()}));
  }
  if (addresses.empty()) {
    return Failure{Status::BadConfig, "no coordinator is named; give its locator, for example tcp://127.0.0.1:7700"};
  }
  return addresses;
}

std::string join(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

Failure connectFailure(Status status, const client::CoordinatorStub& coordinator, const ClientOptions& options) {
  const std::string where = join(options.coordinators);
  switch (status) {
    case Status::Refused:
      return {status, coordinator.whyNoAnswer()};
    case Status::StateBehind:
      return {status, "the coordinator at " + where +
                          " has an older copy of the cluster's state, and serves nobody; its log says what it misses"};
    case Status::Unreachable:
    case Status::DeadlineExceeded:
      return {coordinator.isReached() ? Status::DeadlineExceeded : Status::Unreachable, coordinator.whyNoAnswer()};
    default:
      return {status, "the coordinator at " + where + " answers " + std::string(name(status)) + "; its log says more"};
  }
}

// Failure: BadConfig.
Outcome<transport::TransportChoices> choicesOf(const ClientOptions& options) {
  transport::TransportChoices choices;
  if (!options.rdma_device.empty()) {
    auto device = transport::VerbsDeviceChoice::parse(options.rdma_device);
    if (!device) return device.error();
    choices.verbs_device = std::move(device).value();
    choices.verbs = transport::TransportChoices::Wanted::Yes;
  }
  if (options.rdma_service_level > 15) {
    return Failure{Status::BadConfig,
                   "service levels of RDMA are 0 to 15, not " + std::to_string(options.rdma_service_level)};
  }
  choices.rdma_class = {.traffic_class = options.rdma_traffic_class, .service_level = options.rdma_service_level};
  choices.dpdk = {.ports = options.dpdk.ports,
                  .address = options.dpdk.address,
                  .mtu = options.dpdk.mtu,
                  .memory_mb = options.dpdk.memory_mb,
                  .huge_pages = options.dpdk.huge_pages,
                  .arguments = options.dpdk.arguments,
                  .seal = options.dpdk.seal,
                  .faults = options.dpdk.faults};
  return choices;
}

}  // namespace

Outcome<std::unique_ptr<Client::Impl>> Client::Impl::open(const ClientOptions& options) {
  std::unique_ptr<Impl> impl(new Impl());
  TraceLevel level = TraceLevel::Off;
  if (!parseTraceLevel(options.log_level, level)) {
    return Failure{Status::BadConfig,
                   "log level '" + options.log_level + "' is none; use debug, info, warning, error or off"};
  }
  // The program decides the level of the process's trace, unless it asked for lines here.
  Trace& trace = level == TraceLevel::Off ? silentTrace() : stderrTrace("ramcore");
  if (level != TraceLevel::Off) trace.setLevel(level);

  const auto named = transport::checkClusterName(options.cluster_name);
  if (!named) return named.error();
  impl->identity_.role = options.administrator ? transport::Role::Admin : transport::Role::Client;
  impl->identity_.cluster_name = options.cluster_name;
  auto secret = runtime::readSecretFile(options.secret_file);
  if (!secret) return secret.error();
  impl->identity_.secret = std::move(secret).value();
  impl->default_timeout_ns_ = std::max<int64_t>(0, options.default_timeout.count());
  impl->clock_ = std::make_unique<runtime::SystemClock>();
  impl->entropy_ = std::make_unique<runtime::SystemEntropy>();
  const auto choices = choicesOf(options);
  if (!choices) return choices.error();
  auto transports = transport::TransportSet::open(
      *choices, {.clock = *impl->clock_, .entropy = *impl->entropy_, .trace = trace}, impl->identity_);
  if (!transports) return transports.error();
  impl->transports_ = std::move(transports).value();
  auto coordinators = parseCoordinators(options.coordinators, *impl->transports_);
  if (!coordinators) return coordinators.error();
  impl->dispatch_ =
      std::make_unique<rpc::Dispatch>(*impl->clock_, trace, impl->transports_->sleeper(), rpc::DispatchOptions{});
  for (transport::Endpoint* endpoint : impl->transports_->endpoints()) impl->dispatch_->addEndpoint(*endpoint);
  impl->caller_ = std::make_unique<rpc::Caller>(*impl->dispatch_);
  impl->caller_->learnClusterFor(impl->identity_);
  client::ClusterClientOptions cluster_options;
  cluster_options.renew_by_timer = false;
  impl->cluster_ = std::make_unique<ClusterClient>(*impl->caller_, *impl->entropy_, std::move(coordinators).value(),
                                                   cluster_options);
  impl->driver_ = std::make_unique<client::Driver>(*impl->dispatch_, impl->transports_->sleeper(), *impl->cluster_,
                                                   std::max<int64_t>(0, options.spin_time.count()));
  impl->async_ = std::make_unique<client::AsyncCalls>(*impl->driver_, *impl->cluster_, *impl->clock_, impl->fork_mark_);
  const Status status = impl->connect(options.connect_timeout.count());
  if (status != Status::Ok) return connectFailure(status, impl->cluster_->coordinator(), options);
  if (options.background_thread) {
    auto background = runtime::makeThreaded<Background>(*impl->driver_, *impl->clock_);
    if (!background) return std::move(background).error();
    impl->background_ = std::move(background).value();
  }
  return impl;
}

Status Client::Impl::connect(int64_t timeout_ns) {
  return runTask(std::chrono::nanoseconds(timeout_ns),
                 [](ClusterClient& cluster, int64_t deadline_ns) { return cluster.coordinator().ping(deadline_ns); });
}

void Client::Impl::end(std::unique_ptr<Impl> impl) {
  if (impl == nullptr || !impl->isForked()) return;
  // Closing a session, waking a thread or taking a socket out of an epoll set would do it to the other process. The
  // memory stays reachable from here, so that no leak is reported.
  static constinit std::atomic<Impl*> left{nullptr};
  Impl* const one = impl.release();
  one->next_left_ = left.exchange(one);
}

Client::Impl::~Impl() {
  background_.reset();
  if (cluster_ == nullptr || async_ == nullptr) return;
  // Masters can forget this client's results sooner; if no coordinator answers, the lease runs out.
  constexpr auto kGoodbye = std::chrono::milliseconds(200);
  if (cluster_->lease().client()) {
    runTask(kGoodbye, [](ClusterClient& cluster, int64_t deadline_ns) { return cluster.close(deadline_ns); });
  }
  cluster_->stop();
  caller_->shutDown();
  // Calls of futures that were dropped have to end as well, although their outcome is not seen.
  while (!cluster_->isIdle() || async_->runningCount() != 0) dispatch_->step();
}

}  // namespace ramcore
