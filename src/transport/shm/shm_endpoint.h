#pragma once

#include <optional>
#include <vector>

#include "transport/memory/tx_pool.h"
#include "transport/session/accept_pause.h"
#include "transport/session/client_share.h"
#include "transport/session/warnings.h"
#include "transport/shm/ring_scan.h"
#include "transport/shm/shm_transport.h"
#include "transport/shm/unix_socket.h"

namespace ramcore::transport::shm {

/// Sessions of one thread over shared memory. A round of poll() looks at rings only; the sockets (new connections,
/// handshakes, the death of peers) are looked at when a sleep ended because of them and otherwise rarely, because that
/// is a system call: see runDueTimeouts. Wake-up bytes have done what they are for when the thread runs; they are read
/// now and then, so that they do not fill the socket.
class ShmEndpoint final : public Endpoint, private RingHandler {
 public:
  ShmEndpoint(const ShmOptions& options, const ShmContext& context, const Identity& identity);
  ~ShmEndpoint() override;

  const Limits& limits() const override { return limits_; }
  Outcome<Locator> listen(const Locator& where) override;
  SessionId connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns) override;
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
  uint32_t sessionCount() const override { return open_count_; }
  uint64_t badSessionCount() const override { return bad_count_; }
  BorrowedCounts borrowedCounts() const override { return borrowed_counts_; }

  /// What the sleeper tells of a session's socket.
  void onReady(Session& session, uint32_t events);

 private:
  struct Listener final : ReadinessListener {
    explicit Listener(ShmEndpoint& owner) : endpoint(owner) {}
    void onReady(uint32_t) override;
    ShmEndpoint& endpoint;
    ListeningSocket socket;
    EpollSleeper::Key key = EpollSleeper::kNoKey;
    AcceptPause pause;
    bool is_ready = false;  // until accepting found nothing
  };
  struct Broken {
    SessionId session;
    std::string_view why;
  };

  // The life of a session.
  Session* find(SessionId id) const;
  Session* findOpen(SessionId id) const;
  Session& addSession(Descriptor socket);
  std::unique_ptr<Greeting> makeGreeting(HandshakeSide side, uint64_t expected_id, int64_t deadline_ns);
  void openSession(Session& session, MessageSink& sink);
  /// Completes the session's calls; the sink hears of it at the end of the next poll().
  void close(Session& session, Status reason);
  void closeMalformed(Session& session, std::string_view why);
  /// The same from where calls must not be completed: the session is lost in the next round.
  void closeMalformedLater(Session& session, std::string_view why) { broken_.push_back(Broken{session.id, why}); }
  void closeBroken();
  void reportClosed(MessageSink& sink);

  // Rings.
  uint32_t pollSession(Session& session, uint32_t message_max) override;
  void deliver(Session& session, const wire::FrameHeader& header, RxMessage message);
  void send(Session& session, const wire::FrameHeader& header, TxMessage message);
  void publish(Session& session);
  void pumpBlocked();
  void closeEnded(Session& session);
  uint64_t roomBytes(const Session& session) const;
  void noteReception(Session& session);

  // Sockets and deadlines (shm_endpoint_timeouts.cc).
  void closeSocket(Session& session);
  void callTimeouts();
  bool hasDeadlines() const {
    return greeting_count_ != 0 || !blocked_.empty() || !receiving_.empty() || listener_.pause.isOn();
  }
  void runDueTimeouts(MessageSink& sink);
  void runTimeouts(MessageSink& sink, int64_t now_ns);
  void acceptConnections(int64_t now_ns);
  void lookAtSocket(Session& session, MessageSink& sink);
  void refuseConnections(int64_t now_ns);
  void acceptConnection(Descriptor socket, int64_t now_ns);
  bool dropPending();
  void stepGreeting(Session& session, MessageSink& sink);
  void readSocket(Session& session);
  void checkDeadlines(int64_t now_ns);
  void checkReceiving(int64_t now_ns);
  void checkStall(Session& session, int64_t now_ns);
  void evictStalled(int64_t now_ns);
  int64_t nextDeadlineNs() const;

  ShmOptions options_;
  ShmContext context_;
  Limits limits_;
  const Identity& identity_;
  Warnings warnings_;
  std::optional<EpollSleeper> own_sleeper_;  // of a thread that never sleeps
  EpollSleeper& sleeper_;
  HomeThread home_;
  TxPool buffers_{home_};
  MessagePool messages_{home_};

  std::vector<std::unique_ptr<Session>> sessions_;  // by SessionId::index; nullptr = free
  std::vector<uint32_t> generations_;
  std::vector<uint32_t> free_indices_;
  uint32_t open_count_ = 0;
  uint32_t greeting_count_ = 0;
  ClientShare clients_;  // of the open ones
  uint64_t bad_count_ = 0;
  BorrowedCounts borrowed_counts_;

  RingScan rings_;
  std::vector<RxMessage> requests_;   // found in this round
  std::vector<SessionId> dirty_;      // to be published by flush()
  std::vector<SessionId> blocked_;    // with messages that wait for room
  std::vector<SessionId> receiving_;  // with the beginning of a message
  uint64_t queued_bytes_ = 0;         // of blocked_, as of the last look
  bool is_short_of_memory_ = false;   // somebody waits for it
  std::vector<Broken> broken_;        // to be lost in the next round
  std::vector<SessionId> told_;       // whose sockets have something to say
  std::vector<Session*> lost_;        // to be announced

  Listener listener_{*this};
  std::vector<Locator> locators_;
  Descriptor spare_;  // given up for a moment when no descriptor is left, so that a connection can be refused
  uint32_t rounds_to_timeouts_ = 1;
  int64_t last_timeouts_ns_ = 0;
  uint64_t looks_seen_ = 0;  // of the sleeper, by the last look at the timeouts
  bool had_messages_ = false;
  bool are_timeouts_due_ = false;  // the sleeper has told of something that cannot wait
  bool is_asleep_ = false;
};

}  // namespace ramcore::transport::shm
