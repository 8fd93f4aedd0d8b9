#include "rpc/caller.h"

#include <algorithm>
#include <tuple>

namespace ramcore::rpc {

// ---- Caller

bool Caller::AddressLess::operator()(const PeerAddress& a, const PeerAddress& b) const {
  if (a.id != b.id) return a.id < b.id;
  if (a.is_coordinator != b.is_coordinator) return b.is_coordinator;
  return std::lexicographical_compare(a.locators.begin(), a.locators.end(), b.locators.begin(), b.locators.end(),
                                      [](const transport::Locator& x, const transport::Locator& y) {
                                        return std::tie(x.scheme, x.host, x.port, x.path) <
                                               std::tie(y.scheme, y.host, y.port, y.path);
                                      });
}

// The time is seed enough: few processes start in the same nanosecond of their clocks.
Caller::Caller(Dispatch& dispatch, int64_t connect_ns)
    : dispatch_(dispatch), connect_ns_(connect_ns), random_(static_cast<uint64_t>(dispatch.clock().nowNs())) {
  dispatch_.setObserver(this);
}

Caller::~Caller() {
  shutDown();
  dispatch_.setObserver(nullptr);
}

Connection& Caller::connection(const PeerAddress& address) {
  auto found = connections_.find(address);
  if (found == connections_.end()) {
    found = connections_.emplace(address, std::make_unique<Connection>(*this, address)).first;
  }
  return *found->second;
}

void Caller::shutDown() {
  shut_down_ = true;
  for (auto& [address, connection] : connections_) connection->shutDown(Status::Shutdown);
}

void Caller::watch(Connection& connection) {
  connection.is_watched_ = true;
  watched_.push_back(&connection);
  if (!look_timer_.isArmed()) dispatch_.arm(look_timer_, dispatch_.clock().nowNs() + kLookNs);
}

void Caller::lookSoon() { dispatch_.arm(look_timer_, dispatch_.clock().nowNs()); }

void Caller::look() {
  ++looks_;
  // By index, because the vector may grow meanwhile: a call that ends may begin others, perhaps on connections that
  // were not watched.
  for (size_t i = 0; i < watched_.size(); ++i) watched_[i]->look();
  std::erase_if(watched_, [](Connection* connection) {
    connection->is_watched_ = connection->isWaitedFor();
    return !connection->is_watched_;
  });
  // Counted from now, not from when this look was due: if this thread stood still, that time is not silence of a peer.
  if (!watched_.empty()) dispatch_.arm(look_timer_, dispatch_.clock().nowNs() + kLookNs);
}

std::vector<std::pair<uint64_t, std::string_view>> Caller::openConnections() const {
  std::vector<std::pair<uint64_t, std::string_view>> open;
  for (const auto& [address, connection] : connections_) {
    if (connection->isOpen()) open.emplace_back(address.id, connection->transportName());
  }
  return open;
}

transport::Endpoint* Caller::endpointFor(const transport::Locator& locator) const {
  for (transport::Endpoint* endpoint : dispatch_.endpoints()) {
    if (endpoint->limits().name == locator.scheme) return endpoint;
  }
  return nullptr;
}

void Caller::onSessionOpen(transport::Endpoint& endpoint, transport::SessionId session) {
  const auto found = by_session_.find({&endpoint, session.index, session.generation});
  if (found == by_session_.end()) return;
  found->second->onOpen();
}

void Caller::onSessionLost(transport::Endpoint& endpoint, transport::SessionId session, Status reason) {
  const auto found = by_session_.find({&endpoint, session.index, session.generation});
  if (found == by_session_.end()) return;
  Connection* connection = found->second;
  by_session_.erase(found);
  connection->onLost(reason);
}

Caller::Call Caller::call(runtime::Executor& executor, const PeerAddress& address, transport::TxMessage request,
                          const CallSettings& settings) {
  return Call(*this, executor, address, std::move(request), settings);
}

// ---- Caller::Call

Caller::Call::Call(Caller& caller, runtime::Executor& executor, const PeerAddress& address,
                   transport::TxMessage message, const CallSettings& call_settings)
    : OutgoingCall(&Call::finished),
      Job(&Call::startOnDispatch),
      caller_(caller),
      executor_(executor),
      address_(address) {
  request = std::move(message);
  settings = call_settings;
}

void Caller::Call::await_suspend(std::coroutine_handle<> handle) {
  handle_ = handle;
  if (caller_.dispatch_.isCurrent()) {
    startOnDispatch(*this);
  } else {
    caller_.dispatch_.post(*this, settings.priority);
  }
}

void Caller::Call::startOnDispatch(runtime::Job& job) {
  auto& self = static_cast<Call&>(job);
  if (self.caller_.shut_down_) {
    self.status = Status::Shutdown;
    finished(self);
    return;
  }
  self.caller_.connection(self.address_).start(self);
}

void Caller::Call::finished(OutgoingCall& call) {
  auto& self = static_cast<Call&>(call);
  self.run = &Call::resume;
  self.executor_.post(self, self.settings.priority);
}

void Caller::Call::resume(runtime::Job& job) { static_cast<Call&>(job).handle_.resume(); }

CallResult Caller::Call::await_resume() {
  CallResult result;
  result.status = outcome();
  result.may_have_happened = was_sent;
  result.response = std::move(response);
  return result;
}

}  // namespace ramcore::rpc
