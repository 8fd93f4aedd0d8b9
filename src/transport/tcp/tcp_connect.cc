#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "transport/session/open_failure.h"
#include "transport/session/pending_sessions.h"
#include "transport/tcp/tcp_endpoint.h"

namespace ramcore::transport::tcp {
namespace {

constexpr int kAcceptsPerRound = 32;
constexpr int kBacklog = 1024;
// Between two attempts to connect that go on beside each other.
constexpr int64_t kAttemptAgainNs = 300 * runtime::kNanosPerMilli;
constexpr size_t kAttemptsMax = 8;

// Names that need no look-up.
bool parseAddress(const std::string& host, asio::ip::address& address) {
  Error error;
  address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  return !error;
}

std::vector<Tcp::endpoint> inOrderOfTrial(const Tcp::resolver::results_type& results) {
  std::vector<Tcp::endpoint> addresses;
  for (const auto& result : results) addresses.push_back(result.endpoint());
  std::reverse(addresses.begin(), addresses.end());
  return addresses;
}

bool isNothingYet(const Error& error) {
  return error == asio::error::would_block || error == asio::error::try_again || error == asio::error::interrupted;
}

}  // namespace

// ---- listening

Outcome<std::vector<Tcp::endpoint>> TcpEndpoint::addressesOf(const Locator& where) {
  asio::ip::address address;
  if (parseAddress(where.host, address)) return std::vector<Tcp::endpoint>{Tcp::endpoint(address, where.port)};
  Error error;
  Tcp::resolver resolver(io_);
  const auto results = resolver.resolve(where.host, std::to_string(where.port), error);
  if (error || results.empty()) {
    return Failure{Status::BadConfig, "cannot listen at " + where.toString() + ": host '" + where.host +
                                          "' is unknown (" + error.message() + "); write an address of this machine"};
  }
  return inOrderOfTrial(results);
}

Outcome<Locator> TcpEndpoint::listen(const Locator& where) {
  const std::string text = where.toString();
  if (where.scheme != "tcp") return Failure{Status::BadConfig, "'" + text + "' is no tcp locator"};
  auto addresses = addressesOf(where);
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
  // However it was written: whoever advertises has to know.
  if (address.address().is_unspecified()) listener->locator.host = address.address().to_string();
  listener->locator.port = localAddress(listener->socket.get()).port();
  listening_->add(listener->locator);
  listeners_.push_back(std::move(listener));
  return listeners_.back()->locator;
}

void TcpEndpoint::acceptAll(Listener& listener) {
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
        return refuseConnections(listener);
    }
  }
}

void TcpEndpoint::refuseConnections(Listener& listener) {
  Tcp::endpoint from;
  listener.is_ready = refuseWaiting(
      spare_, [&](Descriptor& socket) { return acceptFrom(listener.socket.get(), socket, from); },
      [&] { warnings_.warn("refusing the connection from " + textOf(from) + ": " + std::string(kNoDescriptor)); });
  if (listener.is_ready) listener.pause.begin(context_.clock.nowNs());
}

void TcpEndpoint::accept(StreamSocket socket, Tcp::endpoint from) {
  // Who comes over IPv4 to a socket of both.
  if (from.address().is_v6() && from.address().to_v6().is_v4_mapped()) {
    from.address(asio::ip::make_address_v4(asio::ip::v4_mapped, from.address().to_v6()));
  }
  if (!prepareSocket(socket.fd(), options_.kernel_send_bytes)) return;
  if (session_count_ >= options_.sessions_max || accepting_count_ >= options_.handshakes_max) {
    if (accepting_count_ == 0) {
      warnings_.warn("refusing a connection from " + textOf(from) + ": " + std::string(kTooManySessions));
      return sayBusy(socket.fd());
    }
    dropPending();
  }
  const SessionPointer session = addSession();
  ++accepting_count_;
  session->is_accepted = true;
  session->peer_is_local = from.address().is_loopback();
  session->peer.address = textOf(from);
  session->deadline_ns = context_.clock.nowNs() + options_.handshake_timeout_ns;
  if (!takeSocket(*session, std::move(socket))) return close(*session, Status::SessionLost);
  startGreeting(*session);
}

// From here on it is in the sleeper's own set, and in no reactor of Asio.
bool TcpEndpoint::takeSocket(TcpSession& session, StreamSocket socket) {
  session.socket = std::move(socket);
  session.key = context_.sleeper.listen(session.socket.fd(), kReadEvents, session);
  return session.key != EpollSleeper::kNoKey;
}

void TcpEndpoint::closeSocket(TcpSession& session) {
  context_.sleeper.unlisten(std::exchange(session.key, EpollSleeper::kNoKey));
  session.socket.close();
  session.attempts.clear();
}

// Makes room for another one, or for a connect of our own: to refuse it would let whoever opens connections and leaves
// them shut out everybody.
void TcpEndpoint::dropPending() {
  std::vector<PendingSession> pending;
  std::vector<TcpSession*> sessions;
  for (const SessionId id : young_) {
    TcpSession* session = find(id);
    if (session == nullptr || session->state != TcpSession::State::Greeting || !session->is_accepted) continue;
    const std::string_view address = session->peer.address;
    pending.push_back({.source = std::string(address.substr(0, address.rfind(':'))),
                       .deadline_ns = session->deadline_ns,
                       .is_silent = !session->has_received});
    sessions.push_back(session);
  }
  TcpSession& leaving = *sessions[chooseWhoLeaves(pending)];
  warnings_.warn("dropping the connection from " + leaving.peer.address +
                 ": there are too many that have not said who they are");
  sayBusy(leaving.socket.fd());
  close(leaving, Status::SessionLost);
}

// ---- connecting

SessionId TcpEndpoint::connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns) {
  const SessionPointer session = addSession();
  session->is_announced = true;
  session->expected_id = expected_id;
  session->deadline_ns = deadline_ns;
  session->peer.address = where.host + ":" + std::to_string(where.port);
  asio::ip::address address;
  if (session_count_ > options_.sessions_max && accepting_count_ != 0) dropPending();
  if (session_count_ > options_.sessions_max) {
    failConnect(*session, std::string(kTooManySessions));
  } else if (where.scheme != "tcp") {
    failConnect(*session, "'" + where.toString() + "' is no tcp locator");
  } else if (parseAddress(where.host, address)) {
    session->addresses.push_back(Tcp::endpoint(address, where.port));
    connectNext(session);
  } else {
    resolve(session, where);
  }
  return session->id;
}

void TcpEndpoint::resolve(const SessionPointer& session, const Locator& where) {
  session->state = TcpSession::State::Resolving;
  session->resolver.emplace(io_);
  const auto on_result = [session, &sleeper = context_.sleeper](const Error& error,
                                                                const Tcp::resolver::results_type& results) {
    sleeper.operationEnds();
    if (session->endpoint == nullptr || session->state != TcpSession::State::Resolving) return;
    if (error) return session->endpoint->failLookup(*session, error);
    session->addresses = inOrderOfTrial(results);
    session->endpoint->connectNext(session);
  };
  // Asio looks names up in a thread of its own, and throws when the system gives it none.
  try {
    session->resolver->async_resolve(where.host, std::to_string(where.port), on_result);
    context_.sleeper.operationBegins();
  } catch (const boost::system::system_error& error) {
    failConnect(*session, std::string("its name cannot be looked up: ") + error.what());
  }
}

void TcpEndpoint::connectNext(const SessionPointer& session) {
  session->state = TcpSession::State::Connecting;
  if (session->addresses.empty()) return failConnect(*session, "its name has no address");
  const Tcp::endpoint address = session->addresses.back();
  session->addresses.pop_back();
  // Not asked of the socket once it is connected: it knows no peer any more when that has left already, and a process
  // without a secret would take a server that is gone for one on another machine.
  // (Linux takes the unspecified one to this machine.)
  session->peer_is_local = address.address().is_loopback() || address.address().is_unspecified();
  session->connecting_to = address;
  session->attempts.clear();  // at another address
  attempt(session);
}

// The kernel repeats what begins a connection after 1 s, 2 s, 4 s, ...: with more attempts beside the first one, a
// network that is back is found soon.
void TcpEndpoint::attempt(const SessionPointer& session) {
  session->attempt_again_ns = context_.clock.nowNs() + kAttemptAgainNs;
  const uint32_t number = ++session->attempts_begun;
  auto made = std::make_unique<TcpSession::Attempt>(io_, number);
  Descriptor descriptor = makeStreamSocket(session->connecting_to);
  const bool is_prepared = descriptor && prepareSocket(descriptor.get(), options_.kernel_send_bytes);
  std::string why = is_prepared ? "" : noSocketText(errno);
  if (is_prepared) {
    Error error;
    made->socket.assign(session->connecting_to.protocol(), descriptor.get(), error);
    if (error) why = notWatchedText(error.value());
  }
  if (!why.empty()) {
    if (session->attempts.empty()) failConnect(*session, why);
    return;
  }
  static_cast<void>(descriptor.release());
  if (session->attempts.size() == kAttemptsMax) session->attempts.erase(session->attempts.begin());
  Tcp::socket& socket = session->attempts.emplace_back(std::move(made))->socket;
  context_.sleeper.operationBegins();
  socket.async_connect(session->connecting_to, [session, number, &sleeper = context_.sleeper](const Error& result) {
    sleeper.operationEnds();
    TcpEndpoint* endpoint = session->endpoint;
    if (endpoint != nullptr && session->state == TcpSession::State::Connecting) {
      endpoint->onAttempted(session, number, result);
    }
  });
}

void TcpEndpoint::onAttempted(const SessionPointer& session, uint32_t number, const Error& result) {
  const auto at = std::find_if(session->attempts.begin(), session->attempts.end(),
                               [number](const auto& attempt) { return attempt->number == number; });
  if (at == session->attempts.end()) return;  // given up
  if (!result) return onConnected(*session, (*at)->socket);
  // Somebody said so, or the kernel has lost its patience: the other attempts would hear the same.
  session->attempts.clear();
  if (!session->addresses.empty()) return connectNext(session);
  failConnect(*session, connectFailureText(result.value()));
}

void TcpEndpoint::onConnected(TcpSession& session, Tcp::socket& socket) {
  Error ignored;
  const bool is_taken = takeSocket(session, StreamSocket(socket.release(ignored)));
  session.attempts.clear();
  if (!is_taken) return failConnect(session, std::string(kNotWatched));
  startGreeting(session);
}

// At the level of debug: whoever retries decides what a person has to know.
void TcpEndpoint::failConnect(TcpSession& session, const std::string& why, OpenFailure::Kind kind) {
  context_.trace.debug("tcp: cannot reach " + session.peer.address + ": " + why);
  session.open_failure = {.kind = kind, .text = why};
  close(session, Status::Unreachable);
}

void TcpEndpoint::failLookup(TcpSession& session, const Error& error) {
  const std::string_view address = session.peer.address;
  const std::string host(address.substr(0, address.rfind(':')));
  // Who has to know says that there is no such name; or nobody who knows could be asked.
  const bool is_unknown = error == asio::error::host_not_found || error == asio::error::no_data;
  failConnect(session, is_unknown ? unknownHostText(host) : lookupFailureText(host, error.message()),
              is_unknown ? OpenFailure::Kind::UnknownName : OpenFailure::Kind::Unreachable);
}

// ---- greeting

void TcpEndpoint::startGreeting(TcpSession& session) {
  HandshakeOptions options;
  options.side = session.is_accepted ? HandshakeSide::Acceptor : HandshakeSide::Initiator;
  options.identity = identity_;
  options.expected_id = session.expected_id;
  options.slot_count = options_.slots_per_session;
  options.peer_is_local = session.peer_is_local;
  if (session.is_accepted) {
    options.locators = listening_->get();
    options.has_room_for_client = [this] { return clients_.hasRoom(); };
  }
  session.handshake.emplace(std::move(options), context_.entropy);
  session.state = TcpSession::State::Greeting;
  makeHot(session);
}

void TcpEndpoint::stepGreeting(TcpSession& session, MessageSink& sink) {
  Handshake& handshake = *session.handshake;
  for (;;) {
    while (!handshake.toSend().empty()) {
      Error error;
      const size_t bytes = session.socket.writeSome(handshake.toSend(), error);
      if (isNothingYet(error)) return armWrite(session);
      if (error) break;  // reading tells why
      handshake.sent(bytes);
    }
    if (handshake.state() == Handshake::State::Done) return openSession(session, sink);
    if (handshake.state() == Handshake::State::Failed) return closeGreeting(session);
    if (!readGreeting(session)) return;
  }
}

// True if bytes came.
bool TcpEndpoint::readGreeting(TcpSession& session) {
  Handshake& handshake = *session.handshake;
  std::array<std::byte, 512> bytes;
  const size_t wanted = std::min<size_t>(handshake.wantedBytes(), bytes.size());
  Error error;
  const size_t count = session.socket.readSome(std::span(bytes).first(wanted), error);
  if (isNothingYet(error)) {
    session.is_drained = error != asio::error::interrupted;
    session.misses += miss_weight_;
    return false;
  }
  if (!error) {
    session.has_received = true;
    handshake.receive(ByteSpan(bytes).first(count));
    return true;
  }
  if (!session.is_accepted) {
    failConnect(session, std::string(kLeftInHandshake));
  } else if (session.has_received) {
    closeMalformed(session, "it left in the middle of its handshake");
  } else {
    close(session, Status::SessionLost);
  }
  return false;
}

void TcpEndpoint::openSession(TcpSession& session, MessageSink& sink) {
  std::string address = std::move(session.peer.address);
  session.peer = session.handshake->peer();
  session.peer.address = std::move(address);
  session.peer.transport = limits_.name;
  session.channel.emplace(blocks_, shared_block_, session.handshake->slotCount());
  session.handshake.reset();
  session.state = TcpSession::State::Open;
  session.is_announced = true;
  session.is_bounded = session.is_accepted && ClientShare::isOf(session.peer.role);
  if (session.is_accepted) --accepting_count_;
  ++open_count_;
  if (session.is_bounded) clients_.add();
  sink.onSessionOpen(session.id);
}

void TcpEndpoint::closeGreeting(TcpSession& session) {
  const Handshake& handshake = *session.handshake;
  if (handshake.isBad()) ++bad_count_;
  warnings_.warn("no session with " + session.peer.address + ": " + handshake.failureText());
  session.open_failure = openFailureOf(handshake.status(), handshake.failureText());
  session.socket.shutDownSend();
  close(session, handshake.status());
}

void TcpEndpoint::checkDeadlines(int64_t now_ns) {
  size_t kept = 0;
  // Losing a session that is not open calls nobody, so the list does not change on the way.
  for (const SessionId id : young_) {
    TcpSession* session = find(id);
    if (session == nullptr || session->state == TcpSession::State::Open || session->state == TcpSession::State::Lost) {
      continue;
    }
    if (now_ns < session->deadline_ns) {
      young_[kept++] = id;
      const bool is_connecting = session->state == TcpSession::State::Connecting;
      if (is_connecting && now_ns >= session->attempt_again_ns) attempt(sessions_[id.index]);
    } else if (session->is_accepted) {
      closeMalformed(*session, "it did not finish its handshake in time");
    } else {
      failConnect(*session, std::string(kNoAnswerInTime));
    }
  }
  young_.resize(kept);
}

}  // namespace ramcore::transport::tcp
