#include "tools/support/cluster_session.h"

#include <algorithm>
#include <thread>

#include "transport/shm/shm_transport.h"
#include "transport/tcp/tcp_transport.h"

namespace ramcore::tools {
namespace {
constexpr auto kWait = rpc::SpinGauge::Wait::Answers;
constexpr int64_t kSleepNsMax = 50 * runtime::kNanosPerMilli;
// The sleeper's deadlines are kept to a millisecond, late: nearer ones are waited for by polling.
constexpr int64_t kSleepLateNs = 2 * runtime::kNanosPerMilli;
constexpr int64_t kCloseNs = runtime::kNanosPerSecond;
constexpr uint32_t kRoundsBetweenTends = 1024;
// Yielding costs 0.3 us, for which an answer that comes meanwhile waits.
constexpr uint32_t kIdleRoundsPerYield = 16;

std::vector<rpc::PeerAddress> addressesOf(const std::vector<transport::Locator>& coordinators) {
  // Locators of one coordinator: the best one that works is used.
  return {rpc::PeerAddress{.id = 0, .locators = coordinators}};
}
}  // namespace

ClusterSession::ClusterSession(const ClusterAccess& access, const ToolThread& thread)
    : thread_(thread), own_loop_({this}, thread, false) {
  identity_.role = access.role;
  identity_.cluster_name = access.cluster_name;
  identity_.secret = access.secret;
  if (access.use_shm) {
    transports_.push_back(std::make_unique<transport::shm::ShmTransport>(
        transport::shm::ShmOptions{},
        transport::shm::ShmContext{
            .clock = thread.clock, .entropy = thread.entropy, .trace = thread.trace, .sleeper = &thread.sleeper}));
  }
  if (access.use_tcp) {
    transports_.push_back(std::make_unique<transport::tcp::TcpTransport>(
        transport::tcp::TcpOptions{},
        transport::tcp::TcpContext{
            .clock = thread.clock, .entropy = thread.entropy, .trace = thread.trace, .sleeper = thread.sleeper}));
  }
  dispatch_ = std::make_unique<rpc::Dispatch>(thread.clock, thread.trace, thread.sleeper, rpc::DispatchOptions{});
  for (const auto& transport : transports_) {
    endpoints_.push_back(transport->makeEndpoint(identity_));
    dispatch_->addEndpoint(*endpoints_.back());
  }
  caller_ = std::make_unique<rpc::Caller>(*dispatch_);
  client_ = std::make_unique<client::ClusterClient>(*caller_, thread.entropy, addressesOf(access.coordinators),
                                                    client::ClusterClientOptions{.retry = {}, .renew_by_timer = false});
}

ClusterSession::~ClusterSession() {
  client_.reset();
  caller_.reset();
  dispatch_.reset();
}

void ClusterSession::advance() { own_loop_.advance(); }

void ClusterSession::close() {
  await(client_->close(nowNs() + kCloseNs));
  client_->stop();
  caller_->shutDown();
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
