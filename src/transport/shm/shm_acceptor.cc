#include "transport/shm/shm_acceptor.h"

#include <sys/epoll.h>

#include "transport/session/accepting.h"
#include "transport/session/open_failure.h"

namespace ramcore::transport::shm {
namespace {

constexpr int kAcceptsPerLook = 16;

}  // namespace

Outcome<Locator> ShmAcceptor::listen(const Locator& where) {
  if (socket_.fd() >= 0) return Failure{Status::BadConfig, "an endpoint listens at one shm path only"};
  auto listening = ListeningSocket::open(where.path);
  if (!listening.ok()) return listening.error();
  const EpollSleeper::Key key = sleeper_.listen(listening->fd(), EPOLLIN, *this);
  if (key == EpollSleeper::kNoKey) {
    return Failure{Status::IoError, "cannot listen at " + where.toString() + ": " + std::string(kNotWatched)};
  }
  socket_ = std::move(listening).value();
  key_ = key;
  spare_ = openSpare();
  locators_ = {where};
  return where;
}

void ShmAcceptor::onReady(uint32_t) {
  is_ready_ = true;
  rounds_.call();
}

void ShmAcceptor::acceptReady(ShmGreeter& greeter, int64_t now_ns) {
  if (!is_ready_ || pause_.lasts(now_ns)) return;
  for (int i = 0; i < kAcceptsPerLook; ++i) {
    Descriptor socket;
    const Accepted accepted = socket_.accept(socket);
    if (accepted == Accepted::Exhausted) return refuse(now_ns);
    pause_.forget();
    if (accepted == Accepted::Gone) continue;
    if (accepted == Accepted::Nobody) {
      is_ready_ = false;
      return;
    }
    accept(greeter, std::move(socket), now_ns);
  }
  rounds_.call();  // more connections may wait
}

void ShmAcceptor::refuse(int64_t now_ns) {
  is_ready_ = refuseWaiting(
      spare_, [this](Descriptor& socket) { return socket_.accept(socket); },
      [this] { sessions_.warnings().warn("refusing a connection: " + std::string(kNoDescriptor)); });
  if (is_ready_) pause_.begin(now_ns);
}

void ShmAcceptor::accept(ShmGreeter& greeter, Descriptor socket, int64_t now_ns) {
  std::string who;
  if (!peerIsSameUser(socket.get(), who)) {
    sessions_.noteBad();
    sessions_.warnings().warn("refused " + who + ": only the server's own user may connect");
    return;
  }
  if (!sessions_.admission().hasRoomToAccept() && !sessions_.dropAccepted()) {
    sessions_.warnings().warn("refusing " + who + ": " + std::string(kTooManySessions));
    sayBusy(socket.get());
    return;
  }
  greeter.startAccepted(std::move(socket), who, now_ns + options_.greeting_timeout_ns);
}

}  // namespace ramcore::transport::shm
