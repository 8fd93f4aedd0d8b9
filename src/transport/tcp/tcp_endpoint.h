#pragma once

#include <memory>

#include "transport/memory/buffer_pool.h"
#include "transport/tcp/tcp_acceptor.h"
#include "transport/tcp/tcp_connector.h"
#include "transport/tcp/tcp_greeter.h"
#include "transport/tcp/tcp_reader.h"
#include "transport/tcp/tcp_sessions.h"
#include "transport/tcp/tcp_writer.h"

namespace ramcore::transport::tcp {

/// Sessions of one thread over TCP. While the thread spins, poll() reads straight from the sockets that were lately
/// active ("hot") and asks the sleeper about the others every few rounds. After a sleep it reads from those that the
/// sleeper told of, and from no others.
///
/// Events of the sleeper and handlers of Asio may come inside the sleep of the thread, where neither the sink nor a
/// call may be touched. So they only note what is to be done, and poll() does it.
///
/// This class puts the parts together, and decides in which round which of them runs.
class TcpEndpoint final : public Endpoint {
 public:
  /// `limits` is that of the transport. All but `listening` is borrowed.
  TcpEndpoint(const TcpOptions& options, const TcpContext& context, const Limits& limits, const Identity& identity,
              std::shared_ptr<ListeningList> listening);

  const Limits& limits() const override { return limits_; }
  Outcome<Locator> listen(const Locator& where) override { return acceptor_.listen(where); }
  SessionId connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns) override {
    return connector_.connect(where, expected_id, deadline_ns);
  }
  TxMessage allocate(uint32_t head_bytes) override { return TxMessage(buffers_.takeBuffer(head_bytes)); }
  Status call(SessionId session, TxMessage& request, const CallOptions& options, PendingCall& call) override;
  void abandon(SessionId session, PendingCall& call) override;
  void reply(const ReplyTo& to, TxMessage response) override;
  uint32_t poll(MessageSink& sink, uint32_t message_max) override;
  void flush() override { writer_.flush(); }
  bool prepareSleep() override;
  void awake() override;
  const Peer* peer(SessionId session) const override;
  bool hasVanished(SessionId session) const override;
  void close(SessionId session) override;
  uint32_t sessionCount() const override { return sessions_.admission().openCount(); }
  uint64_t badSessionCount() const override { return sessions_.badCount(); }
  BorrowedCounts borrowedCounts() const override { return writer_.borrowedCounts(); }

  /// Called with the events that the sleeper tells of a session's socket.
  void onReady(TcpSession& session, uint32_t events);

 private:
  void askSleeper();
  void evictStalled(int64_t now_ns);
  bool hasDeadlines() const { return sessions_.hasPending() || writer_.hasBlocked(); }
  bool hasTimeouts() const;
  bool hasWork() const;
  int64_t nextDeadlineNs() const;

  const TcpOptions options_;
  const TcpContext context_;
  const Limits limits_;
  SimpleBufferPool buffers_;
  TcpMemory memory_;
  SleeperRounds rounds_;
  HotSessions hot_;
  TcpSessions sessions_;
  TcpWriter writer_;
  TcpReader reader_;
  TcpGreeter greeter_;
  TcpAcceptor acceptor_;
  TcpConnector connector_;
};

}  // namespace ramcore::transport::tcp
