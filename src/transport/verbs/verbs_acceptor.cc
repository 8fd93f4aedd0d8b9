#include "transport/verbs/verbs_acceptor.h"

#include <sys/epoll.h>

#include <utility>

#include "transport/session/accepting.h"
#include "transport/session/open_failure.h"

namespace ramcore::transport::verbs {
namespace {

constexpr int kAcceptsPerLook = 16;

}  // namespace

Outcome<Locator> VerbsAcceptor::listen(const Locator& where) {
  const std::string text = where.toString();
  if (where.scheme != "verbs") return Failure{Status::BadConfig, "'" + text + "' is no verbs locator"};
  if (!queues_.ready().ok()) return queues_.ready().error();
  if (socket_) return Failure{Status::BadConfig, "an endpoint listens at one verbs locator only"};
  if (identity_.secret.empty() && !isLocalOnly(where)) {
    return Failure{Status::BadConfig, "cannot listen at " + text +
                                          " without a cluster secret: other machines reach it; give a secret file, or "
                                          "listen at 127.0.0.1"};
  }
  SocketAddress bound;
  auto socket = listenAt(where, bound);
  if (!socket.ok()) return std::move(socket).error();
  if (!ready_.listenTo(socket->get())) {
    return Failure{Status::IoError, "cannot listen at " + text +
                                        ": the system lets this user watch no more descriptors; raise "
                                        "/proc/sys/fs/epoll/max_user_watches"};
  }
  socket_ = std::move(socket).value();
  spare_ = openSpare();
  Locator locator = where;
  locator.port = bound.port();
  locators_ = {locator};
  return locator;
}

void VerbsAcceptor::acceptReady(VerbsGreeter& greeter, int64_t now_ns) {
  if (!ready_.isReady() || pause_.lasts(now_ns)) return;
  for (int i = 0; i < kAcceptsPerLook; ++i) {
    Descriptor socket;
    SocketAddress from;
    const Accepted accepted = acceptFrom(socket_.get(), socket, from);
    if (accepted == Accepted::Exhausted) return refuse(now_ns);
    pause_.forget();
    if (accepted == Accepted::Gone) continue;
    if (accepted == Accepted::Nobody) {
      ready_.clear();
      return;
    }
    accept(greeter, std::move(socket), from, now_ns);
  }
  rounds_.call();  // more connections may wait
}

void VerbsAcceptor::refuse(int64_t now_ns) {
  SocketAddress from;
  const bool are_more = refuseWaiting(
      spare_, [&](Descriptor& socket) { return acceptFrom(socket_.get(), socket, from); },
      [&] {
        sessions_.warnings().warn("refusing the connection from " + from.toString() + ": " +
                                  std::string(kNoDescriptor));
      });
  if (are_more) {
    pause_.begin(now_ns);
  } else {
    ready_.clear();
  }
}

void VerbsAcceptor::accept(VerbsGreeter& greeter, Descriptor socket, const SocketAddress& from, int64_t now_ns) {
  if (!sessions_.admission().hasRoomToAccept() && !sessions_.dropAccepted()) {
    sessions_.warnings().warn("refusing a connection from " + from.toString() + ": " + std::string(kTooManySessions));
    return sayBusy(socket.get());
  }
  Session& session = sessions_.add(true);
  session.peer.address = from.toString();
  session.deadline_ns = now_ns + options_.greeting_timeout_ns;
  session.socket = std::move(socket);
  session.key = sleeper_.listen(session.socket.get(), EPOLLIN | EPOLLRDHUP, session);
  if (session.key == EpollSleeper::kNoKey) return sessions_.close(session, Status::SessionLost);
  greeter.start(session, from.isLoopback());
}

}  // namespace ramcore::transport::verbs
