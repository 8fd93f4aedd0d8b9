#pragma once

#include "transport/tcp/tcp_greeter.h"
#include "transport/tcp/tcp_sessions.h"

namespace ramcore::transport::tcp {

/// Gets from an address to a connected socket: looks names up, tries one address after the other, and makes more
/// attempts beside one that gets no answer. Handlers of Asio may come inside the sleep of the thread. One thread.
class TcpConnector {
 public:
  /// All borrowed.
  TcpConnector(const TcpOptions& options, const TcpContext& context, TcpSessions& sessions, TcpGreeter& greeter)
      : options_(options),
        context_(context),
        io_(context.sleeper.ioContext()),
        sessions_(sessions),
        greeter_(greeter) {}

  /// See Endpoint::connect.
  SessionId connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns);
  /// Makes one more attempt for a session in state Connecting.
  void attempt(const TcpSessions::Pointer& session);

 private:
  void resolve(const TcpSessions::Pointer& session, const Locator& where);
  void connectNext(const TcpSessions::Pointer& session);
  void onAttempted(const TcpSessions::Pointer& session, uint32_t number, const Error& result);
  void onConnected(TcpSession& session, Tcp::socket& socket);
  void failLookup(TcpSession& session, const Error& error);

  const TcpOptions& options_;
  const TcpContext& context_;
  asio::io_context& io_;
  TcpSessions& sessions_;
  TcpGreeter& greeter_;
};

}  // namespace ramcore::transport::tcp
