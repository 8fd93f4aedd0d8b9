#include "transport/tcp/tcp_acceptor.h"

#include <sys/epoll.h>

#include <algorithm>

#include "transport/session/accepting.h"
#include "transport/session/open_failure.h"
#include "transport/tcp/tcp_addresses.h"

namespace ramcore::transport::tcp {
namespace {

constexpr int kAcceptsPerRound = 32;
constexpr int kBacklog = 1024;

}  // namespace

TcpAcceptor::TcpAcceptor(const TcpOptions& options, const TcpContext& context, const Identity& identity,
                         std::shared_ptr<ListeningList> listening, TcpSessions& sessions, TcpGreeter& greeter)
    : options_(options),
      context_(context),
      identity_(identity),
      listening_(std::move(listening)),
      sessions_(sessions),
      greeter_(greeter),
      spare_(openSpare()) {}

TcpAcceptor::~TcpAcceptor() {
  for (const auto& listener : listeners_) {
    context_.sleeper.unlisten(listener->key);
    listening_->remove(listener->locator);
  }
}

Outcome<Locator> TcpAcceptor::listen(const Locator& where) {
  const std::string text = where.toString();
  if (where.scheme != "tcp") return Failure{Status::BadConfig, "'" + text + "' is no tcp locator"};
  auto addresses = addressesOf(where, context_.sleeper.ioContext());
  if (!addresses.ok()) return addresses.error();
  const Tcp::endpoint address = addresses->back();
  if (identity_.secret.empty() && !address.address().is_loopback()) {
    return Failure{Status::BadConfig, "cannot listen at " + text +
                                          " without a cluster secret: other machines reach it; give a secret file, or "
                                          "listen at 127.0.0.1"};
  }
  auto listener = std::make_unique<Listener>();
  Error error;
  listener->socket = listenAt(address, kBacklog, error);
  if (!error) {
    listener->key = context_.sleeper.listen(listener->socket.get(), EPOLLIN, *listener);
    if (listener->key == EpollSleeper::kNoKey) error = asio::error::no_descriptors;
  }
  if (error == asio::error::address_in_use) {
    return Failure{Status::InUse, "cannot listen at " + text +
                                      ": another process uses the port; stop it or choose another one (0 = any)"};
  }
  if (error) {
    return Failure{Status::IoError, "cannot listen at " + text + ": " + error.message() +
                                        "; choose an address of this machine and a port this user may take"};
  }
  listener->locator = where;
  // However it was written, an address that means all addresses becomes 0.0.0.0 or ::, so that isEveryAddress() sees
  // it.
  if (address.address().is_unspecified()) listener->locator.host = address.address().to_string();
  listener->locator.port = localAddress(listener->socket.get()).port();
  listening_->add(listener->locator);
  listeners_.push_back(std::move(listener));
  return listeners_.back()->locator;
}

bool TcpAcceptor::isReady() const {
  return std::any_of(listeners_.begin(), listeners_.end(), [](const auto& listener) { return listener->is_ready; });
}

bool TcpAcceptor::isDue() const {
  return std::any_of(listeners_.begin(), listeners_.end(),
                     [](const auto& listener) { return listener->is_ready && !listener->pause.isOn(); });
}

int64_t TcpAcceptor::nextNs() const {
  int64_t next_ns = runtime::kNever;
  for (const auto& listener : listeners_) next_ns = std::min(next_ns, listener->pause.untilNs());
  return next_ns;
}

void TcpAcceptor::acceptAll() {
  for (const auto& listener : listeners_) {
    if (listener->is_ready) acceptAll(*listener);
  }
}

void TcpAcceptor::acceptAll(Listener& listener) {
  if (listener.pause.isOn() && listener.pause.lasts(context_.clock.nowNs())) return;
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    Descriptor socket;
    Tcp::endpoint from;
    switch (acceptFrom(listener.socket.get(), socket, from)) {
      case Accepted::Yes:
        listener.pause.forget();
        accept(StreamSocket(socket.release()), from);
        break;
      case Accepted::Nobody:
        listener.is_ready = false;
        listener.pause.forget();
        return;
      case Accepted::Gone:
        break;
      case Accepted::Exhausted:
        return refuse(listener);
    }
  }
}

void TcpAcceptor::refuse(Listener& listener) {
  Tcp::endpoint from;
  listener.is_ready = refuseWaiting(
      spare_, [&](Descriptor& socket) { return acceptFrom(listener.socket.get(), socket, from); },
      [&] {
        sessions_.warnings().warn("refusing the connection from " + textOf(from) + ": " + std::string(kNoDescriptor));
      });
  if (listener.is_ready) listener.pause.begin(context_.clock.nowNs());
}

void TcpAcceptor::accept(StreamSocket socket, Tcp::endpoint from) {
  // A peer that comes over IPv4 to a socket for both has a mapped address.
  if (from.address().is_v6() && from.address().to_v6().is_v4_mapped()) {
    from.address(asio::ip::make_address_v4(asio::ip::v4_mapped, from.address().to_v6()));
  }
  if (!prepareSocket(socket.fd(), options_.kernel_send_bytes)) return;
  const Admission& admission = sessions_.admission();
  if (!admission.hasRoomToAccept()) {
    if (admission.acceptingCount() == 0) {
      sessions_.warnings().warn("refusing a connection from " + textOf(from) + ": " + std::string(kTooManySessions));
      return sayBusy(socket.fd());
    }
    sessions_.dropAccepted();
  }
  const TcpSessions::Pointer session = sessions_.add(true);
  session->peer_is_local = from.address().is_loopback();
  session->peer.address = textOf(from);
  session->deadline_ns = context_.clock.nowNs() + options_.handshake_timeout_ns;
  if (!sessions_.takeSocket(*session, std::move(socket))) return sessions_.close(*session, Status::SessionLost);
  greeter_.start(*session);
}

}  // namespace ramcore::transport::tcp
