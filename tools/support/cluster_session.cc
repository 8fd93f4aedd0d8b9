#include "tools/support/cluster_session.h"

#include <algorithm>
#include <thread>

namespace ramcore::tools {
namespace {
constexpr auto kWait = rpc::SpinGauge::Wait::Answers;
constexpr int64_t kSleepNsMax = 50 * runtime::kNanosPerMilli;
// The sleeper keeps deadlines to a millisecond, on the late side: nearer deadlines are waited for by polling.
constexpr int64_t kSleepLateNs = 2 * runtime::kNanosPerMilli;
constexpr int64_t kCloseNs = runtime::kNanosPerSecond;
constexpr uint32_t kRoundsBetweenTends = 1024;
// Yielding costs 0.3 us, and an answer that comes meanwhile waits for that time.
constexpr uint32_t kIdleRoundsPerYield = 16;

// The coordinators for which this program has a transport.
std::vector<rpc::PeerAddress> addressesOf(const std::vector<transport::Locator>& coordinators,
                                          const transport::TransportSet& transports) {
  std::vector<rpc::PeerAddress> addresses;
  for (const transport::Locator& locator : coordinators) {
    if (transports.endpointFor(locator) != nullptr) addresses.push_back(rpc::coordinatorAt({locator}));
  }
  return addresses;
}
}  // namespace

Outcome<std::unique_ptr<ClusterSession>> ClusterSession::open(const ClusterAccess& access, const ToolThread& thread) {
  std::unique_ptr<ClusterSession> session(new ClusterSession(thread));
  session->identity_.role = access.role;
  session->identity_.cluster_name = access.cluster_name;
  session->identity_.secret = access.secret;
  auto transports = transport::TransportSet::open(
      access.transports,
      {.clock = thread.clock, .entropy = thread.entropy, .trace = thread.trace, .sleeper = &thread.sleeper},
      session->identity_);
  if (!transports) return std::move(transports).error();
  session->transports_ = std::move(transports).value();
  std::vector<rpc::PeerAddress> coordinators = addressesOf(access.coordinators, *session->transports_);
  if (coordinators.empty()) {
    return Failure{Status::BadConfig, "no transport for " + access.coordinators.front().toString() +
                                          "; this program has " + session->transports_->schemes()};
  }
  session->dispatch_ =
      std::make_unique<rpc::Dispatch>(thread.clock, thread.trace, thread.sleeper, rpc::DispatchOptions{});
  for (transport::Endpoint* endpoint : session->transports_->endpoints()) session->dispatch_->addEndpoint(*endpoint);
  session->caller_ = std::make_unique<rpc::Caller>(*session->dispatch_);
  session->client_ =
      std::make_unique<client::ClusterClient>(*session->caller_, thread.entropy, std::move(coordinators),
                                              client::ClusterClientOptions{.retry = {}, .renew_by_timer = false});
  return session;
}

ClusterSession::~ClusterSession() {
  client_.reset();
  caller_.reset();
  dispatch_.reset();
}

void ClusterSession::advance() { own_loop_.advance(); }

void ClusterSession::giveUp() {
  is_given_up_ = true;
  client_->stop();
  caller_->shutDown();
}

void ClusterSession::close() {
  if (!is_given_up_) {
    await(client_->close(nowNs() + kCloseNs));
    giveUp();
  }
  while (!client_->isIdle()) advance();
  dispatch_->finished();
}

void SessionLoop::advance() {
  bool found = false;
  for (ClusterSession* session : sessions_) found |= session->dispatch().step();
  worked_ |= found;
  if (found && ++rounds_ % kRoundsBetweenTends != 0) return;
  const int64_t now_ns = thread_.clock.nowNs();
  for (ClusterSession* session : sessions_) session->client().tend(now_ns);
  if (worked_) gauge_.found();
  worked_ = false;
  if (never_sleep_ || found) return;
  if (!gauge_.expectsSoon(kWait) || !gauge_.goesOn(kWait, now_ns)) {
    gauge_.sleeps(kWait);
    return sleep(now_ns);
  }
  if (gauge_.isCrowded() || ++idle_rounds_ % kIdleRoundsPerYield == 0) gauge_.offerCore(now_ns);
}

void SessionLoop::sleep(int64_t now_ns) {
  int64_t until_ns = now_ns + kSleepNsMax;
  for (ClusterSession* session : sessions_) {
    until_ns = std::min({until_ns, session->dispatch().earliestNs(), session->client().dueNs()});
  }
  if (until_ns - now_ns < kSleepLateNs) {
    std::this_thread::yield();
    return;
  }
  size_t prepared = 0;
  while (prepared < sessions_.size() && sessions_[prepared]->dispatch().prepareSleep()) ++prepared;
  if (prepared == sessions_.size()) thread_.sleeper.sleep(until_ns - runtime::kNanosPerMilli);
  for (size_t i = 0; i < prepared; ++i) sessions_[i]->dispatch().awake();
}

}  // namespace ramcore::tools
