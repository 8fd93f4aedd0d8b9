#pragma once

#include <optional>

#include "transport/memory/tx_pool.h"
#include "transport/shm/ring_scan.h"
#include "transport/shm/shm_acceptor.h"
#include "transport/shm/shm_greeter.h"
#include "transport/shm/shm_reader.h"
#include "transport/shm/shm_sessions.h"
#include "transport/shm/shm_sockets.h"
#include "transport/shm/shm_writer.h"

namespace ramcore::transport::shm {

/// Sessions of one thread over shared memory. A round of poll() looks at rings only; the sockets (new connections,
/// handshakes, the death of peers) are looked at when a sleep ended because of them and otherwise rarely, because that
/// is a system call. This class puts the parts together, and decides in which round which of them runs.
class ShmEndpoint final : public Endpoint {
 public:
  /// Limits of endpoints with these options.
  static Limits limitsOf(const ShmOptions& options);

  ShmEndpoint(const ShmOptions& options, const ShmContext& context, const Identity& identity);

  const Limits& limits() const override { return limits_; }
  Outcome<Locator> listen(const Locator& where) override { return acceptor_.listen(where); }
  SessionId connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns) override {
    return greeter_.connect(where, expected_id, deadline_ns);
  }
  TxMessage allocate(uint32_t head_bytes) override { return TxMessage(buffers_.takeBuffer(head_bytes)); }
  Status call(SessionId session, TxMessage& request, const CallOptions& options, PendingCall& call) override;
  void abandon(SessionId session, PendingCall& call) override;
  void reply(const ReplyTo& to, TxMessage response) override;
  uint32_t poll(MessageSink& sink, uint32_t message_max) override;
  void flush() override;
  bool prepareSleep() override;
  void awake() override;
  const Peer* peer(SessionId session) const override;
  void close(SessionId session) override;
  uint32_t sessionCount() const override { return sessions_.admission().openCount(); }
  uint64_t badSessionCount() const override { return sessions_.badCount(); }
  BorrowedCounts borrowedCounts() const override { return writer_.borrowedCounts(); }

  /// Called with the events that the sleeper tells of a session's socket.
  void onReady(Session& session, uint32_t events) { sockets_.onReady(session, events); }

 private:
  bool hasDeadlines() const {
    return sessions_.admission().pendingCount() != 0 || writer_.hasBlocked() || reader_.hasReceptions() ||
           acceptor_.isPaused();
  }
  void runDueTimeouts(MessageSink& sink);
  void evictStalled(int64_t now_ns);
  int64_t nextDeadlineNs() const;

  const ShmOptions options_;
  const ShmContext context_;
  const Limits limits_;
  std::optional<EpollSleeper> own_sleeper_;  // of a thread that never sleeps
  EpollSleeper& sleeper_;
  HomeThread home_;
  TxPool buffers_{home_};
  MessagePool messages_{home_};
  TimeoutRounds rounds_;
  RingScan rings_;
  ShmSessions sessions_;
  ShmWriter writer_;
  ShmReader reader_;
  ShmAcceptor acceptor_;
  ShmGreeter greeter_;
  ShmSockets sockets_;
  bool had_messages_ = false;  // since runDueTimeouts() last ran
  bool is_asleep_ = false;
};

}  // namespace ramcore::transport::shm
