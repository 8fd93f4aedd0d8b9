#pragma once

#include <vector>

#include "transport/memory/buffer_pool.h"
#include "transport/session/accept_pause.h"
#include "transport/session/client_share.h"
#include "transport/session/warnings.h"
#include "transport/tcp/tcp_session.h"
#include "transport/tcp/tcp_transport.h"

namespace ramcore::transport::tcp {

/// Sessions of one thread over TCP. While the thread spins, poll() reads straight from the sockets that were lately
/// active ("hot") and asks the sleeper about the others every few rounds. After a sleep it reads from those that the
/// sleeper told of, and from no others.
///
/// What the sleeper tells, and handlers of Asio, may come inside the sleep of the thread, where neither the sink nor a
/// call may be touched: it is only noted what is to be done, and poll() does it.
class TcpEndpoint final : public Endpoint {
 public:
  TcpEndpoint(const TcpOptions& options, const TcpContext& context, const Limits& limits, const Identity& identity,
              std::shared_ptr<ListeningList> listening);
  /// Calls in flight are not completed: close their sessions before.
  ~TcpEndpoint() override;

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
  bool hasVanished(SessionId session) const override;
  void close(SessionId session) override;
  uint32_t sessionCount() const override { return open_count_; }
  uint64_t badSessionCount() const override { return bad_count_; }
  BorrowedCounts borrowedCounts() const override { return borrowed_counts_; }

  /// What the sleeper tells of a session's socket.
  void onReady(TcpSession& session, uint32_t events);

 private:
  using SessionPointer = std::shared_ptr<TcpSession>;
  struct Listener final : ReadinessListener {
    void onReady(uint32_t) override { is_ready = true; }
    /// True if it is to be looked at now, not after a pause.
    bool isDue() const { return is_ready && !pause.isOn(); }
    Descriptor socket;
    AcceptPause pause;
    EpollSleeper::Key key = EpollSleeper::kNoKey;
    Locator locator;
    bool is_ready = false;  // until accepting found nothing
  };
  /// What is always told of a session's socket.
  static const uint32_t kReadEvents;
  struct Broken {
    SessionId session;
    std::string why;
    bool is_bad = false;  ///< the peer's bytes, not the network
  };

  // The life of a session (tcp_endpoint.cc).
  TcpSession* find(SessionId id) const;
  TcpSession* findOpen(SessionId id) const;
  SessionPointer addSession();
  void close(TcpSession& session, Status reason);
  void closeMalformed(TcpSession& session, std::string_view why);
  void closeLater(TcpSession& session, std::string why, bool is_bad);
  void closeBroken();
  void reportClosed(MessageSink& sink);
  void letGo(TcpSession& session);

  // Connecting and greeting (tcp_connect.cc).
  Outcome<std::vector<Tcp::endpoint>> addressesOf(const Locator& where);
  void resolve(const SessionPointer& session, const Locator& where);
  void connectNext(const SessionPointer& session);
  void attempt(const SessionPointer& session);
  void onAttempted(const SessionPointer& session, uint32_t number, const Error& result);
  void onConnected(TcpSession& session, Tcp::socket& socket);
  bool takeSocket(TcpSession& session, StreamSocket socket);
  void closeSocket(TcpSession& session);
  void failConnect(TcpSession& session, const std::string& why,
                   OpenFailure::Kind kind = OpenFailure::Kind::Unreachable);
  void failLookup(TcpSession& session, const Error& error);
  void acceptAll(Listener& listener);
  void accept(StreamSocket socket, Tcp::endpoint from);
  void refuseConnections(Listener& listener);
  void dropPending();
  void startGreeting(TcpSession& session);
  void stepGreeting(TcpSession& session, MessageSink& sink);
  bool readGreeting(TcpSession& session);
  void openSession(TcpSession& session, MessageSink& sink);
  void closeGreeting(TcpSession& session);

  // Reading (tcp_endpoint.cc).
  uint32_t readHot(MessageSink& sink, uint32_t message_max);
  uint32_t readSession(TcpSession& session, uint32_t message_max);
  bool readSocket(TcpSession& session);
  uint32_t deliver(TcpSession& session, uint32_t message_max);
  void deliverMessage(TcpSession& session);
  void settleHot();
  void makeHot(TcpSession& session);
  bool mustRead(const TcpSession& session) const;
  bool isReadPaused(const TcpSession& session) const;

  // Writing (tcp_write.cc).
  void send(TcpSession& session, const wire::FrameHeader& header, TxMessage message);
  void write(TcpSession& session);
  void armWrite(TcpSession& session);
  void unblock(TcpSession& session);
  void block(TcpSession& session);
  void checkBlocked(int64_t now_ns);
  /// False if the session needs no more watching.
  bool checkStall(TcpSession& session, int64_t now_ns);
  void dropUnread(TcpSession& session, uint64_t bytes);
  void sayClose(TcpSession& session);

  // Memory (tcp_memory.cc).
  uint64_t heldBytes() const;
  bool mustWaitForMemory(const TcpSession& session);
  void noteReception(TcpSession& session);
  void checkReceiving(int64_t now_ns);
  void evictStalled(int64_t now_ns);

  // Time and traces.
  void askSleeper();
  bool hasDeadlines() const { return !young_.empty() || !blocked_.empty(); }
  bool hasTimeouts() const;
  bool hasWork() const;
  void checkDeadlines(int64_t now_ns);
  int64_t nextDeadlineNs() const;

  const TcpOptions options_;
  const TcpContext context_;
  const Limits limits_;
  const Identity& identity_;
  const std::shared_ptr<ListeningList> listening_;
  asio::io_context& io_;
  SimpleBufferPool buffers_;
  RxBlockPool blocks_;
  SharedBlock shared_block_;

  std::vector<SessionPointer> sessions_;  // by SessionId::index; nullptr = free
  std::vector<uint32_t> generations_;
  std::vector<uint32_t> free_indices_;
  uint32_t session_count_ = 0;  // not lost
  uint32_t open_count_ = 0;
  ClientShare clients_;           // of the open ones
  uint32_t accepting_count_ = 0;  // accepted and not open
  uint64_t bad_count_ = 0;
  BorrowedCounts borrowed_counts_;

  std::vector<TcpSession*> hot_;
  std::vector<SessionId> young_;  // connecting or greeting: they have deadlines
  std::vector<SessionId> dirty_;  // to be written by flush()
  std::vector<SessionId> flushing_;
  std::vector<SessionId> blocked_;    // the kernel takes no more for now
  std::vector<SessionId> receiving_;  // with the beginning of a message
  uint64_t unsent_bytes_ = 0;         // of all sessions
  bool is_short_of_memory_ = false;   // somebody waits for it
  std::vector<Broken> broken_;        // to be lost in the next round
  std::vector<TcpSession*> lost_;     // to be announced
  std::vector<RxMessage> requests_;   // found in this round

  std::vector<std::unique_ptr<Listener>> listeners_;
  Descriptor spare_;  // given up for a moment when no descriptor is left, so that a connection can be refused
  uint32_t rounds_to_sleeper_ = 1;
  uint32_t cold_rounds_ = 1;  // between two questions to the sleeper while no session is hot
  uint64_t looks_seen_ = 0;   // of the sleeper, by awake()
  size_t first_hot_ = 0;
  uint32_t miss_weight_ = 1;
  Warnings warnings_;
};

}  // namespace ramcore::transport::tcp
