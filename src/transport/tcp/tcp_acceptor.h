#pragma once

#include <memory>
#include <vector>

#include "transport/session/accept_pause.h"
#include "transport/tcp/listening_list.h"
#include "transport/tcp/tcp_greeter.h"
#include "transport/tcp/tcp_sessions.h"

namespace ramcore::transport::tcp {

/// Listens for one endpoint, and accepts connections. One thread.
class TcpAcceptor {
 public:
  /// All borrowed, but `listening` is shared with the endpoints of other threads.
  TcpAcceptor(const TcpOptions& options, const TcpContext& context, const Identity& identity,
              std::shared_ptr<ListeningList> listening, TcpSessions& sessions, TcpGreeter& greeter);
  TcpAcceptor(const TcpAcceptor&) = delete;
  TcpAcceptor& operator=(const TcpAcceptor&) = delete;
  ~TcpAcceptor();

  /// See Endpoint::listen.
  Outcome<Locator> listen(const Locator& where);
  /// Accepts the connections that the sleeper has told of.
  void acceptAll();
  /// Whether the sleeper has told of connections, which may have to wait for the end of a pause.
  bool isReady() const;
  /// Whether acceptAll() would accept now.
  bool isDue() const;
  int64_t nextNs() const;

 private:
  struct Listener final : ReadinessListener {
    void onReady(uint32_t) override { is_ready = true; }
    Descriptor socket;
    AcceptPause pause;
    EpollSleeper::Key key = EpollSleeper::kNoKey;
    Locator locator;
    bool is_ready = false;  // until accepting found nothing
  };

  void acceptAll(Listener& listener);
  void accept(StreamSocket socket, Tcp::endpoint from);
  void refuse(Listener& listener);

  const TcpOptions& options_;
  const TcpContext& context_;
  const Identity& identity_;
  const std::shared_ptr<ListeningList> listening_;
  TcpSessions& sessions_;
  TcpGreeter& greeter_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  Descriptor spare_;  // given up for a moment when no descriptor is left, so that a connection can be refused
};

}  // namespace ramcore::transport::tcp
