#pragma once

#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "transport/session/accept_pause.h"
#include "transport/session/client_share.h"
#include "transport/session/session_table.h"
#include "transport/session/warnings.h"
#include "transport/verbs/decoding.h"
#include "transport/verbs/receive_buffers.h"
#include "transport/verbs/session.h"
#include "transport/verbs/verbs_transport.h"

namespace ramcore::transport::verbs {

/// Sessions of one thread over queue pairs, with one shared receive queue and one completion queue each for what
/// arrives and for what was sent. A round of poll() looks at the two and makes no system call of ours; the sockets
/// beside the queue pairs, by which sessions begin and end, are looked at when a sleep ended because of them and
/// otherwise rarely.
class VerbsEndpoint final : public Endpoint {
 public:
  VerbsEndpoint(const VerbsOptions& options, const VerbsContext& context, const Limits& limits, const Device& device,
                const Regions& regions, const Identity& identity);
  ~VerbsEndpoint() override;

  const Limits& limits() const override { return limits_; }
  Outcome<Locator> listen(const Locator& where) override;
  SessionId connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns) override;
  TxMessage allocate(uint32_t head_bytes) override { return TxMessage(heads_.takeBuffer(head_bytes)); }
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
  SendCounts sendCounts() const override { return send_counts_; }
  uint64_t registeredBytes() const override { return blocks_.registeredBytes() + receives_.registeredBytes(); }

  /// Whether what peers transfer is opened to one queue pair each.
  static bool usesWindows(const VerbsOptions& options, const Device& device);
  /// Or why there are no queues: then it listens nowhere, and connects to nobody.
  const Outcome<bool>& ready() const { return is_ready_; }
  /// Queue pairs that are there, those of lost sessions that are not drained yet included.
  size_t queuePairCount() const { return channels_.size(); }
  /// Of messages that are being read from where peers announced them, or were and are borrowed.
  uint64_t heldBytes() const { return read_messages_.held_bytes.load(std::memory_order_relaxed); }

  /// What the sleeper tells of a session's socket.
  void onReady(Session& session, uint32_t events);

 private:
  /// Something with a descriptor that the sleeper tells of.
  struct ReadyFlag final : ReadinessListener {
    explicit ReadyFlag(VerbsEndpoint& owner) : endpoint(owner) {}
    void onReady(uint32_t) override;
    VerbsEndpoint& endpoint;
    EpollSleeper::Key key = EpollSleeper::kNoKey;
    bool is_ready = false;  // until a look found nothing
  };
  struct Broken {
    SessionId session;
    std::string why;
    bool is_bad = false;  ///< the peer's bytes, not the network
  };
  struct ReadyRead {
    SessionId session;
    uint16_t slot;
  };
  /// An announced request for which there is no memory.
  struct WaitingRead {
    SessionId session;
    uint16_t slot;
    bool is_bounded;  ///< a client's
    /// No memory could be registered for it, since it is the first.
    std::optional<int64_t> refused_since_ns = std::nullopt;
  };
  enum class ReadStart : uint8_t {
    Begun,
    BeyondBound,
    NoMemory,  ///< that can be registered
  };
  /// Owns received messages that were read by a transfer.
  struct ReadMessages final : RxOwner {
    explicit ReadMessages(RegisteredPool& pool) : blocks(pool) {}
    void releaseMessage(uint64_t token) noexcept override {
      auto* const block = reinterpret_cast<Block*>(token);
      held_bytes.fetch_sub(block->capacity, std::memory_order_relaxed);
      blocks.drop(block);
    }
    RegisteredPool& blocks;
    std::atomic<uint64_t> held_bytes{0};  ///< of messages that are borrowed
  };
  /// A message that came before its session was open.
  struct EarlyMessage {
    SessionId session;
    std::vector<std::byte> bytes;
  };
  /// A queue pair whose session never began. It goes when nothing of it can arrive any more.
  struct DyingPair {
    std::unique_ptr<QueuePair> pair;
    uint64_t settled_at = 0;
  };

  // The life of a session (verbs_sessions.cc).
  Session* find(SessionId id) const { return sessions_.find(id); }
  Session* findOpen(SessionId id) const { return sessions_.findOpen(id); }
  Session& addSession();
  void openSession(Session& session, MessageSink& sink);
  void close(Session& session, Status reason);
  void closeMalformed(Session& session, std::string_view why);
  void closeLater(Session& session, std::string why, bool is_bad);
  void closeBroken();
  void closeEnded(bool nothing_arrived);
  void reportClosed(MessageSink& sink);
  void drain(std::unique_ptr<Channel> channel, Descriptor socket, bool in_order);
  void giveBack(Channel& channel);
  void endDrains(int64_t now_ns);
  void reapDrained(bool nothing_arrived);
  /// All that was there when the count of arrivals was `mark` has been taken.
  bool hasTakenAll(uint64_t mark) const { return arrival_count_ > mark + receives_.count(); }
  Outcome<bool> makeQueues();
  bool reserveCompletions(uint32_t more);
  std::unique_ptr<QueuePair> makePair(bool is_server, uint16_t slot_count, std::string& why);

  // Messages (verbs_endpoint.cc).
  uint32_t pollArrivals(uint32_t message_max, bool& is_empty);
  void pollDepartures();
  void onArrival(const ibv_wc& completion);
  void keepForLater(const ibv_wc& completion, const ReceiveBuffer& buffer);
  void takeEarly(const EarlyMessage& early);
  void onDeparture(const ibv_wc& completion);
  bool takeMessage(Session& session, const wire::VerbsHeader& header, RxMessage message);
  bool takeWord(Session& session, const VerbsMessage& word);
  bool takeRequest(Session& session, const wire::VerbsHeader& header, RxMessage message);
  void finishCall(Session& session, const wire::VerbsHeader& header, RxMessage message);
  void makeDirty(Session& session);
  void watch(Session& session);
  void beginCall(Channel& channel, wire::VerbsHeader& header, PendingCall& call, const CallOptions& options);
  void sendControlPacket(Session& session, wire::VerbsHeader header, wire::VerbsKind kind, ByteSpan body);

  // Transfers of large messages (verbs_transfers.cc).
  static wire::VerbsPiece openPlace(Session& session, const std::shared_ptr<Place>& place, uint32_t bytes);
  Status offerRequest(Session& session, TxMessage& request, wire::VerbsHeader header, PendingCall& call,
                      const CallOptions& options);
  void offerResponse(Session& session, const wire::VerbsHeader& header, TxMessage response);
  bool takeRequestOffer(Session& session, const VerbsMessage& offer);
  bool takeResponseOffer(Session& session, const wire::VerbsHeader& header);
  bool takeResponsePlace(Session& session, const VerbsMessage& word);
  bool takeResponseWritten(Session& session, const wire::VerbsHeader& header);
  void waitForMemory(const Session& session, uint16_t slot);
  void startReads();
  bool evictStalled();
  void giveUpFirstRead();
  ReadStart startRead(Session& session, uint16_t slot);
  bool deliverRead(const ReadyRead& ready);
  void checkBorrowed(int64_t now_ns);
  bool checkBorrowed(Session& session, int64_t now_ns);
  bool standsStill(Channel& channel, int64_t now_ns) const;
  static WaitingBytes waitingBytes(const Channel& channel, int64_t borrowed_by_ns);
  int64_t nextBorrowedNs() const;

  // Sockets and deadlines (verbs_timeouts.cc).
  void callTimeouts();
  bool hasDeadlines() const;
  void runDueTimeouts(MessageSink& sink);
  void runTimeouts(MessageSink& sink, int64_t now_ns);
  void acceptConnections(int64_t now_ns);
  void refuseConnections(int64_t now_ns);
  void acceptConnection(Descriptor socket, const SocketAddress& from, int64_t now_ns);
  bool dropPending();
  void startGreeting(Session& session, bool peer_is_local);
  void stepYoung(Session& session, MessageSink& sink);
  void stepResolving(Session& session);
  void connectNext(Session& session);
  void stepConnecting(Session& session);
  void stepGreeting(Session& session, MessageSink& sink);
  void readSocket(Session& session);
  void closeSocket(Session& session);
  void failConnect(Session& session, const std::string& why, OpenFailure::Kind kind = OpenFailure::Kind::Unreachable);
  void failLookup(Session& session);
  void checkDeadlines(int64_t now_ns);
  void takeCompletionEvents();
  void takeDeviceEvents();
  int64_t nextDeadlineNs() const;

  const VerbsOptions options_;
  const VerbsContext context_;
  const Limits limits_;
  const Device& device_;
  const Identity& identity_;
  Warnings warnings_;
  std::optional<EpollSleeper> own_sleeper_;  // of a thread that never sleeps
  EpollSleeper& sleeper_;

  // What adapters use goes last: the order here is the order in which things depend on each other.
  RegisteredPool blocks_;
  HeadPool heads_{blocks_};
  PlacePool places_;
  ReadMessages read_messages_{blocks_};
  SendScratch scratch_;
  SendCounts send_counts_;
  CompletionChannel events_;
  CompletionQueue arrivals_;
  CompletionQueue departures_;
  ReceiveBuffers receives_;
  const SendQueue::Parts parts_;
  Outcome<bool> is_ready_ = true;  // or why there are no queues
  uint32_t arrival_events_ = 0;    // to be acknowledged
  uint32_t departure_events_ = 0;
  bool arrivals_armed_ = false;
  bool departures_armed_ = false;
  uint32_t departures_size_ = 0;
  uint32_t departures_reserved_ = 0;
  uint32_t receives_wanted_ = 0;
  std::vector<ibv_wc> early_;  // found on the way to sleep

  SessionTable<std::unique_ptr<Session>> sessions_;
  std::unordered_map<uint32_t, Channel*> channels_;         // by the number of the queue pair
  std::unordered_map<uint32_t, SessionId> greeting_pairs_;  // the same, of sessions that are not open yet
  std::vector<std::unique_ptr<Channel>> draining_;
  std::vector<DyingPair> dying_;
  std::deque<EarlyMessage> early_messages_;  // of sessions that have just been opened
  size_t early_count_ = 0;                   // in those that are not
  uint32_t last_tag_ = 0;
  uint32_t open_count_ = 0;
  uint32_t young_count_ = 0;      // not open yet
  ClientShare clients_;           // of those that are past their handshake
  uint32_t accepting_count_ = 0;  // of these, those that were accepted
  uint64_t bad_count_ = 0;
  uint64_t delivered_count_ = 0;
  uint64_t arrival_count_ = 0;
  BorrowedCounts borrowed_counts_;
  uint64_t copied_out_bytes_ = 0;  // that wait in all sessions, as of the last look

  std::vector<RxMessage> requests_;    // found in this round
  std::vector<uint16_t> read_slots_;   // scratch
  std::deque<ReadyRead> ready_reads_;  // all there, not delivered yet
  // For memory: in the order in which they came, those of clients behind the others. The first one waits for enough,
  // and the others for it: what is shorter and would find memory may come for ever.
  std::deque<WaitingRead> waiting_reads_;
  int64_t reads_wait_since_ns_ = 0;  // the first of them
  std::vector<SessionId> dirty_;     // to be posted by flush()
  std::vector<SessionId> posting_;
  std::vector<SessionId> watched_;  // may hold borrowed bytes for long
  std::vector<SessionId> told_;     // whose sockets have something to say
  std::vector<SessionId> ended_;    // whose peers have gone
  std::vector<Broken> broken_;      // to be lost in the next round
  std::vector<Session*> lost_;      // to be announced

  ReadyFlag listener_{*this};
  ReadyFlag completions_ready_{*this};
  ReadyFlag device_ready_{*this};
  Descriptor listening_;
  std::vector<Locator> locators_;
  AcceptPause accept_pause_;
  Descriptor spare_;  // given up for a moment when no descriptor is left, so that a connection can be refused
  uint32_t rounds_to_timeouts_ = 1;
  int64_t last_timeouts_ns_ = 0;
  uint64_t looks_seen_ = 0;  // of the sleeper, by the last look at the timeouts
  bool had_messages_ = false;
  bool are_timeouts_due_ = false;
  bool is_asleep_ = false;
};

}  // namespace ramcore::transport::verbs
