#include "transport/tcp/tcp_connector.h"

#include <algorithm>
#include <cerrno>

#include "transport/session/open_failure.h"
#include "transport/tcp/tcp_addresses.h"

namespace ramcore::transport::tcp {
namespace {

// While an attempt to connect gets no answer, another one begins beside it after this time. At most kAttemptsMax go on;
// then the oldest is given up for the next.
constexpr int64_t kAttemptAgainNs = 300 * runtime::kNanosPerMilli;
constexpr size_t kAttemptsMax = 8;

}  // namespace

SessionId TcpConnector::connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns) {
  const TcpSessions::Pointer session = sessions_.add(false);
  session->is_announced = true;
  session->expected_id = expected_id;
  session->deadline_ns = deadline_ns;
  session->peer.address = where.host + ":" + std::to_string(where.port);
  const Admission& admission = sessions_.admission();
  if (admission.isOverfull() && admission.acceptingCount() != 0) sessions_.dropAccepted();
  asio::ip::address address;
  if (admission.isOverfull()) {
    sessions_.failConnect(*session, std::string(kTooManySessions));
  } else if (where.scheme != "tcp") {
    sessions_.failConnect(*session, "'" + where.toString() + "' is no tcp locator");
  } else if (parseAddress(where.host, address)) {
    session->connecting.addresses.push_back(Tcp::endpoint(address, where.port));
    connectNext(session);
  } else {
    resolve(session, where);
  }
  return session->id;
}

void TcpConnector::resolve(const TcpSessions::Pointer& session, const Locator& where) {
  session->state = TcpSession::State::Resolving;
  session->connecting.resolver.emplace(io_);
  // While session->endpoint is set, this connector exists.
  const auto on_result = [this, session, &sleeper = context_.sleeper](const Error& error,
                                                                      const Tcp::resolver::results_type& results) {
    sleeper.operationEnds();
    if (session->endpoint == nullptr || session->state != TcpSession::State::Resolving) return;
    if (error) return failLookup(*session, error);
    session->connecting.addresses = inOrderOfTrial(results);
    connectNext(session);
  };
  // Asio looks names up in a thread of its own, and throws when the system gives it none.
  try {
    session->connecting.resolver->async_resolve(where.host, std::to_string(where.port), on_result);
    context_.sleeper.operationBegins();
  } catch (const boost::system::system_error& error) {
    sessions_.failConnect(*session, std::string("its name cannot be looked up: ") + error.what());
  }
}

void TcpConnector::failLookup(TcpSession& session, const Error& error) {
  const std::string_view address = session.peer.address;
  const std::string host(address.substr(0, address.rfind(':')));
  // An authoritative name server says that there is no such name; any other error means that none could be asked.
  const bool is_unknown = error == asio::error::host_not_found || error == asio::error::no_data;
  sessions_.failConnect(session, is_unknown ? unknownHostText(host) : lookupFailureText(host, error.message()),
                        is_unknown ? OpenFailure::Kind::UnknownName : OpenFailure::Kind::Unreachable);
}

void TcpConnector::connectNext(const TcpSessions::Pointer& session) {
  session->state = TcpSession::State::Connecting;
  if (session->connecting.addresses.empty()) return sessions_.failConnect(*session, "its name has no address");
  const Tcp::endpoint address = session->connecting.addresses.back();
  session->connecting.addresses.pop_back();
  // The peer's address is not asked of the connected socket, which has none any more if the peer has left already: a
  // process without a secret would take a server that is gone for one on another machine.
  // (Linux connects the unspecified address to this machine.)
  session->peer_is_local = address.address().is_loopback() || address.address().is_unspecified();
  session->connecting.address = address;
  session->connecting.attempts.clear();  // to another address
  attempt(session);
}

// The kernel repeats the first packet of a connection after 1 s, 2 s, 4 s, ... With more attempts beside the first one,
// it is found soon that a network is back.
void TcpConnector::attempt(const TcpSessions::Pointer& session) {
  session->connecting.attempt_again_ns = context_.clock.nowNs() + kAttemptAgainNs;
  const uint32_t number = ++session->connecting.attempts_begun;
  auto made = std::make_unique<TcpSession::Attempt>(io_, number);
  Descriptor descriptor = makeStreamSocket(session->connecting.address);
  const bool is_prepared = descriptor && prepareSocket(descriptor.get(), options_.kernel_send_bytes);
  std::string why = is_prepared ? "" : noSocketText(errno);
  if (is_prepared) {
    Error error;
    made->socket.assign(session->connecting.address.protocol(), descriptor.get(), error);
    if (error) why = notWatchedText(error.value());
  }
  if (!why.empty()) {
    if (session->connecting.attempts.empty()) sessions_.failConnect(*session, why);
    return;
  }
  static_cast<void>(descriptor.release());
  if (session->connecting.attempts.size() == kAttemptsMax)
    session->connecting.attempts.erase(session->connecting.attempts.begin());
  Tcp::socket& socket = session->connecting.attempts.emplace_back(std::move(made))->socket;
  context_.sleeper.operationBegins();
  socket.async_connect(session->connecting.address,
                       [this, session, number, &sleeper = context_.sleeper](const Error& result) {
                         sleeper.operationEnds();
                         // While session->endpoint is set, this connector exists.
                         if (session->endpoint != nullptr && session->state == TcpSession::State::Connecting) {
                           onAttempted(session, number, result);
                         }
                       });
}

void TcpConnector::onAttempted(const TcpSessions::Pointer& session, uint32_t number, const Error& result) {
  const auto at = std::find_if(session->connecting.attempts.begin(), session->connecting.attempts.end(),
                               [number](const auto& attempt) { return attempt->number == number; });
  if (at == session->connecting.attempts.end()) return;  // given up
  if (!result) return onConnected(*session, (*at)->socket);
  // The address has refused, or the kernel has given up: the other attempts would end in the same way.
  session->connecting.attempts.clear();
  if (!session->connecting.addresses.empty()) return connectNext(session);
  sessions_.failConnect(*session, connectFailureText(result.value()));
}

void TcpConnector::onConnected(TcpSession& session, Tcp::socket& socket) {
  Error ignored;
  const bool is_taken = sessions_.takeSocket(session, StreamSocket(socket.release(ignored)));
  session.connecting.attempts.clear();
  if (!is_taken) return sessions_.failConnect(session, std::string(kNotWatched));
  greeter_.start(session);
}

}  // namespace ramcore::transport::tcp
