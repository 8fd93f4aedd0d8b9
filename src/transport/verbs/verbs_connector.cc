#include "transport/verbs/verbs_connector.h"

#include <sys/epoll.h>

#include <cerrno>
#include <utility>

#include "transport/session/open_failure.h"

namespace ramcore::transport::verbs {

SessionId VerbsConnector::connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns) {
  Session& session = sessions_.add(false);
  session.is_announced = true;
  session.expected_id = expected_id;
  session.deadline_ns = deadline_ns;
  session.peer.address = where.host + ":" + std::to_string(where.port);
  session.state = Session::State::Resolving;
  rounds_.call();
  if (!queues_.ready().ok()) {
    sessions_.warnings().warn(queues_.ready().error().message);
    sessions_.failConnect(session, "there are no queues");
  } else if (sessions_.admission().isOverfull() && !sessions_.dropAccepted()) {
    sessions_.failConnect(session, std::string(kTooManySessions));
  } else if (where.scheme != "verbs") {
    sessions_.failConnect(session, "'" + where.toString() + "' is no verbs locator");
  } else {
    session.lookup = std::make_unique<HostLookup>();
    session.lookup->start(where.host, where.port);
  }
  return session.id;
}

void VerbsConnector::lookForNames() {
  if (sessions_.admission().pendingCount() == 0) return;
  sessions_.table().forEach([this](Session& session) {
    if (session.state == Session::State::Resolving) look(session);
  });
}

void VerbsConnector::look(Session& session) {
  switch (session.lookup->look()) {
    case HostLookup::State::Running:
      return;
    case HostLookup::State::Failed:
      return failLookup(session);
    case HostLookup::State::Found:
      return connectNext(session);
  }
}

void VerbsConnector::connectNext(Session& session) {
  session.state = Session::State::Connecting;
  const std::vector<SocketAddress>& addresses = session.lookup->addresses();
  while (session.next_address < addresses.size()) {
    sessions_.closeSocket(session);
    session.socket = startConnecting(addresses[session.next_address++]);
    if (!session.socket) continue;
    session.key = sleeper_.listen(session.socket.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP, session);
    if (session.key != EpollSleeper::kNoKey) return;
  }
  sessions_.failConnect(session, session.socket ? std::string(kNotWatched) : connectFailureText(errno));
}

void VerbsConnector::step(Session& session) {
  const int error = connectError(session.socket.get());
  if (error == EINPROGRESS) return;
  const std::vector<SocketAddress>& addresses = session.lookup->addresses();
  if (error != 0) {
    if (session.next_address < addresses.size()) return connectNext(session);
    return sessions_.failConnect(session, connectFailureText(error));
  }
  sleeper_.listenTo(session.key, EPOLLIN | EPOLLRDHUP);
  greeter_.start(session, addresses[session.next_address - 1].isLoopback());
}

void VerbsConnector::failLookup(Session& session) {
  const std::string_view address = session.peer.address;
  const std::string host(address.substr(0, address.rfind(':')));
  const bool is_unknown = session.lookup->isUnknown();
  sessions_.failConnect(session,
                        is_unknown ? unknownHostText(host) : lookupFailureText(host, session.lookup->failureText()),
                        is_unknown ? OpenFailure::Kind::UnknownName : OpenFailure::Kind::Unreachable);
}

}  // namespace ramcore::transport::verbs
