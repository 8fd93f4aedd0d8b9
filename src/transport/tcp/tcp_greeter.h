#pragma once

#include <memory>

#include "transport/tcp/listening_list.h"
#include "transport/tcp/tcp_memory.h"
#include "transport/tcp/tcp_sessions.h"
#include "transport/tcp/tcp_writer.h"

namespace ramcore::transport::tcp {

/// Leads connections through the handshake to open sessions. One thread.
class TcpGreeter {
 public:
  /// What it works with. All borrowed.
  struct Parts {
    const TcpOptions& options;
    const TcpContext& context;
    const Limits& limits;
    const Identity& identity;
    const ListeningList& listening;
    TcpSessions& sessions;
    HotSessions& hot;
    TcpWriter& writer;
    TcpMemory& memory;
  };
  explicit TcpGreeter(const Parts& parts) : parts_(parts) {}

  /// Begins the handshake of a session that has a connected socket.
  void start(TcpSession& session);
  /// Goes on with a session in state Greeting, as far as the kernel takes and has bytes.
  void step(TcpSession& session, MessageSink& sink);

 private:
  bool read(TcpSession& session);
  void open(TcpSession& session, MessageSink& sink);
  void fail(TcpSession& session);

  const Parts parts_;
};

}  // namespace ramcore::transport::tcp
