#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "transport/datagram/borrowed_frames.h"
#include "transport/datagram/session.h"
#include "transport/gather/gather_policy.h"
#include "transport/memory/tx_pool.h"
#include "transport/session/client_share.h"
#include "transport/session/session_table.h"
#include "transport/session/warnings.h"

namespace ramcore::transport::datagram {

struct DatagramOptions {
  std::string_view scheme = "dpdk";
  /// Calls in flight on one session, 1..wire::kSlotCountMax. The smaller of both sides' counts.
  uint16_t slots_per_session = 64;
  /// With this many sessions, its own connects included, the endpoint accepts a further one only if it can drop a
  /// pending session for it. Its own connects are bounded by `places_max` alone. A value above `places_max` less
  /// `own_places` counts as that difference.
  uint32_t sessions_max = 4096;
  /// Maximum number of sessions in any state. Each has a session number, of which 16 bits are its index: 1..65,536.
  uint32_t places_max = 65'536;
  /// Part of `places_max` that accepted sessions cannot take, so that our own connects find a session however many
  /// peers come.
  uint32_t own_places = 8'192;
  /// Maximum number of accepted sessions that have not yet proven their identity. For one more, an old one is dropped.
  uint32_t greetings_max = 128;
  int64_t greeting_timeout_ns = 5 * runtime::kNanosPerSecond;
  /// Packets of each message that a peer may send before it was granted any: 1..1024.
  uint16_t unasked_packets = 16;
  /// Maximum number of packets of a long message that may be in flight.
  uint32_t grant_window = 64;
  /// Number of long messages that are granted packets at a time.
  uint32_t granted_messages = 8;
  /// Maximum number of calls in one slot of a session. Then the session ends and another one begins with other keys: a
  /// sequence number that was used before would admit a packet that was recorded under it.
  uint32_t slot_calls_max = UINT32_MAX - 1;
  /// Number of packets with a wrong seal after which a session ends. It bounds how many guesses an attacker has to find
  /// a right seal.
  uint64_t unproven_max = 1 << 20;
  /// Whether packets carry a MAC. They also carry one if only the peer wants it.
  bool wants_seal = true;
  /// From which length on chunks are sent from where they are, and how many pieces an Ethernet frame may have.
  GatherLimits gather = {.entries_max = 32};
  /// Silence after which a session is closed, while something is expected of the peer.
  int64_t silence_close_ns = 2 * runtime::kNanosPerSecond;
  /// Silence after which the peer is probed, and interval of further probes, while something is expected of the peer.
  int64_t silence_probe_ns = 50 * runtime::kNanosPerMilli;
  /// Silence after which the peer of an idle session is probed. An idle session is closed after four times this
  /// silence; one that was accepted from a client, after 120 s.
  int64_t idle_probe_ns = 5 * runtime::kNanosPerSecond;
  /// Maximum time for which a message borrows bytes. Then they are copied, unless the port is about to read them.
  int64_t borrowed_ns_max = 100 * runtime::kNanosPerMilli;
  /// Maximum number of bytes in our own memory that may wait for one session: message heads and copies of borrowed
  /// bytes. Beyond it the session is closed.
  uint64_t stall_bytes_max = 64 * 1024 * 1024;
  /// Time after which a session is closed if a message that arrives gets no further although its sender may send, or if
  /// the peer says nothing of an answer that was sent to it.
  int64_t stall_close_ns = 10 * runtime::kNanosPerSecond;
  /// Time after which such a message counts as stalled while memory is short. Then the client session that holds most
  /// bytes in stalled messages is closed.
  int64_t stall_evict_ns = 1 * runtime::kNanosPerSecond;
  /// Maximum number of bytes in blocks of received messages and in our own memory that waits for peers (see
  /// stall_bytes_max), in all sessions together. Beyond it, messages of several packets from clients are not accepted.
  /// If what waits for peers alone exceeds it, the session that leaves the most bytes unread is closed.
  uint64_t held_bytes_max = 256 * 1024 * 1024;
  /// The longest sleep of a thread whose ports do not wake it. A packet that arrives meanwhile waits until the sleep
  /// ends.
  int64_t nap_ns_max = 1 * runtime::kNanosPerMilli;
};

/// What an endpoint needs from its process. All borrowed.
struct DatagramContext {
  runtime::Clock& clock;
  runtime::Entropy& entropy;
  Trace& trace;
  /// Ends the next sleep of the thread at this time at the latest. May be empty where no thread sleeps.
  std::function<void(int64_t)> wake_by;
};

/// What an endpoint holds, for metrics and tests.
struct HeldCounts {
  uint64_t blocks = 0;       ///< blocks of received messages, and of messages that are arriving
  uint64_t block_bytes = 0;  ///< bytes of these blocks
  uint64_t frames = 0;       ///< frames of ports that received messages borrow
  uint64_t outgoing = 0;     ///< messages that the peer does not have yet, or that a port still reads
  uint64_t sessions = 0;     ///< sessions in any state
};

/// The sessions of one thread over Ethernet frames. Packets that are lost are sent again, duplicates are taken once,
/// and receivers say how much of a long message may be in flight. docs/datagram.md has the protocol.
class DatagramEndpoint final : public Endpoint {
 public:
  /// There is at least one port. All ports have the same address (checked) and outlive the endpoint.
  DatagramEndpoint(const DatagramOptions& options, DatagramContext context, const Limits& limits,
                   std::vector<FramePort*> ports, const Identity& identity);
  ~DatagramEndpoint() override;

  /// What an endpoint over these ports can do.
  static Limits limitsOf(const DatagramOptions& options);

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
  PacketCounts packetCounts() const override { return packet_counts_; }
  HeldCounts heldCounts() const;

 private:
  /// A packet that arrived, split into its parts.
  struct Packet {
    uint32_t port = 0;
    wire::FrameStart start{};
    wire::PacketHeader header{};
    ByteSpan payload;
    MacAddress from() const { return MacAddress{start.from}; }
  };
  /// A session that we have closed. It is kept until the peer knows, or was told often enough.
  struct Closing {
    Route route;
    PacketSeal seal_out;
    PacketSeal seal_in;
    int64_t due_ns = 0;
    uint8_t tries = 0;
  };
  /// What a message is for; the rest of its header follows from the message.
  struct Purpose {
    wire::PacketKind kind = wire::PacketKind::Request;
    uint32_t sequence = 0;
    uint16_t slot = 0;
    uint8_t priority = 0;
    uint32_t response_bytes_max = 0;
  };
  /// An Ethernet frame that is being made, and where its payload stands.
  struct Frame {
    OutFrame handle;
    std::byte* start = nullptr;
    size_t piece_count = 0;  ///< number of payload pieces in frame_pieces_
  };
  /// Ethernet frames that a port has not taken yet.
  struct TxBacklog {
    std::vector<OutFrame> frames;
    int64_t refused_since_ns = runtime::kNever;  ///< since when the port takes none of them; kNever: it refused nothing
    bool has_link = false;
  };
  /// The peer's address and its number of a session. Duplicates of the session's first packet find it by this key.
  using PeerKey = std::pair<MacAddress, uint64_t>;

  // What arrives (datagram_arrivals.cc).
  void takeFrames(uint32_t port, std::span<const InFrame> frames);
  /// Reads the clock.
  void readClock();
  void readClockIfStale();
  void readClockInThisBurst();
  bool takeFrame(uint32_t port, const InFrame& frame);
  bool takeApart(uint32_t port, const InFrame& frame, Packet& packet);
  void takeFromUnknownPeer(const Packet& packet);
  bool takePacket(Session& session, const Packet& packet, const InFrame& frame);
  bool isValidData(const Channel& channel, const Packet& packet) const;
  bool takeRequest(Session& session, const Packet& packet, const InFrame& frame);
  bool beginRequest(Session& session, const Packet& packet, const InFrame& frame);
  bool takeResponse(Session& session, const Packet& packet, const InFrame& frame);
  bool takeGrant(Session& session, const Packet& packet);
  bool takeAcks(Session& session, const Packet& packet);
  void deliverRequest(Session& session, const wire::PacketHeader& header, RxMessage&& message);
  void finishCall(Session& session, const wire::PacketHeader& header, RxMessage&& message);
  void noteAckDue(Session& session, const wire::PacketHeader& header);
  void endRequest(Channel& channel, OwnCall& own);
  void noteSlowAnswer(Channel& channel, OwnCall& own);
  static bool isTimed(const Channel& channel, const OwnCall& own);
  void noteRoundTrip(Channel& channel, const Outgoing& outgoing);
  RxMessage messageOf(const Packet& packet, const InFrame& frame);
  RxMessage messageOf(Incoming& incoming);
  bool beginArriving(Session& session, Incoming& incoming, const Packet& packet, bool is_response);
  bool addArriving(Session& session, Incoming& incoming, const Packet& packet, bool is_response);
  void endArriving(Session& session, Incoming& incoming, bool is_response, uint16_t slot);
  void list(Incoming& incoming, const Arrival& arrival);
  Incoming* incomingOf(const Arrival& arrival);
  void tellListed();
  void sendGrant(Session& session, const Arrival& arrival, const wire::GrantBody& body, uint32_t sequence,
                 bool is_overdue);
  void chooseGranted();
  bool mayBeGranted(const Incoming& incoming) const;
  void handOver(MessageSink& sink);

  // What is sent (datagram_sending.cc).
  void pump();
  bool sendPacket(Session& session, Outgoing& outgoing, uint32_t packet, bool is_again);
  bool gatherFrame(FramePort& port, Outgoing& outgoing, ByteSpan head, uint32_t offset, uint32_t bytes, Frame& frame);
  /// Writes kind, addresses and header; `seal` goes into the header.
  void writeStart(std::byte* at, const MacAddress& to, wire::PacketKind kind, const HeaderWords& header,
                  uint64_t seal) const;
  void sendControlPacket(const Route& route, const PacketSeal& seal, wire::PacketKind kind, wire::PacketHeader header,
                         ByteSpan body);
  void sendControlPacket(Session& session, wire::PacketKind kind, const wire::PacketHeader& header = {},
                         ByteSpan body = {});
  void sendOn(uint32_t port, const MacAddress& to, const PacketSeal& seal, wire::PacketKind kind,
              wire::PacketHeader header, std::span<const ByteSpan> body);
  void leave(uint32_t port, OutFrame frame);
  void flushPort(uint32_t port);
  Outgoing& startSending(Session& session, TxMessage message, const Purpose& purpose);
  uint32_t sendSome(Session& session, Outgoing& outgoing, uint32_t count);
  void noteSent(const Session& session, Outgoing& outgoing, bool is_first);
  void makeReady(Outgoing& outgoing);
  void dateBegun();
  void endSending(Channel& channel, Outgoing*& outgoing);
  void retire(Outgoing& outgoing);
  void recycleRetired();
  bool sendAcks(Session& session, bool all);
  void tellTakers(bool all);

  // The life of sessions (datagram_sessions.cc).
  Session* find(SessionId id) const { return sessions_.find(id); }
  Session* findOpen(SessionId id) const { return sessions_.findOpen(id); }
  Session* findNumber(uint64_t number) const;
  /// Returns nullptr if there are `places` sessions already, in any state.
  Session* addSession(uint32_t places);
  void takeGreeting(const Packet& packet);
  Session* acceptPending(const Packet& packet, const wire::GreetingBody& body);
  bool dropPending();
  void stepGreeting(Session& session);
  void sendGreeting(Session& session);
  void openSession(Session& session);
  void takeUnknown(const Packet& packet);
  void sayUnknown(uint32_t port, const MacAddress& to, uint64_t peer_number, uint64_t number);
  void close(Session& session, Status reason);
  void closeMalformed(Session& session, std::string_view why);
  void closeSilent(Session& session, const std::string& why);
  void dropChannel(Channel& channel);
  void announceOpened(MessageSink& sink);
  void reportClosed(MessageSink& sink);

  // Deadlines and bounds (datagram_timeouts.cc).
  bool hasDeadlines() const;
  void runTimeouts();
  void keepPorts();
  void suspectAllAt(uint32_t port);
  int64_t checkGreeting(Session& session);
  int64_t checkOpen(Session& session);
  int64_t checkSilence(Session& session);
  int64_t checkSending(Session& session);
  int64_t checkArriving(Session& session);
  int64_t checkBorrowed(Session& session);
  uint64_t waitingBytes(const Outgoing& outgoing) const;
  void boundWaiting();
  void dropUnread(Session& session);
  void checkClosing();
  void evictStalled();
  uint64_t heldBytes() const { return blocks_.borrowedBytes() + copied_out_bytes_; }

  const DatagramOptions options_;
  const DatagramContext context_;
  const Limits limits_;
  const Identity& identity_;
  const std::vector<FramePort*> ports_;
  const MacAddress address_;
  const PacketSeal no_seal_;  // the checksum of packets that belong to no open session
  Warnings warnings_;
  uint32_t packet_bytes_ = 0;  // longest payload that every port can send
  // By port: messages may borrow a frame of it while they borrow fewer frames than this of all ports together.
  std::vector<uint64_t> borrowable_frames_;

  RxBlockPool blocks_;
  BorrowedFrames borrowed_;
  // (No lock: a locked instruction between the arrival of a frame and its answer would wait for the other core.)
  TxPool heads_{borrowed_.home()};

  SessionTable<std::unique_ptr<Session>> sessions_;
  std::map<PeerKey, SessionId> by_peer_;
  std::vector<Closing> closing_;
  uint32_t open_count_ = 0;
  uint32_t young_count_ = 0;      // sessions that are not open yet
  uint32_t accepting_count_ = 0;  // accepted ones among these
  ClientShare clients_;           // client sessions among the open ones
  uint64_t bad_count_ = 0;
  uint16_t listening_ = 0;
  std::vector<Locator> locators_;

  // The pieces of the frame that is being made. (Not a member of Frame: to initialize each takes as long as a seal.)
  std::array<ByteSpan, TxBuffer::kChunkCountMax + 1> frame_pieces_;
  std::vector<std::unique_ptr<Outgoing>> outgoings_;
  std::vector<Outgoing*> free_outgoings_;
  std::vector<Outgoing*> retired_;   // ended; a port still reads them, or they are in ready_
  std::vector<Outgoing*> begun_;     // messages that began since the last flush()
  std::deque<Outgoing*> ready_;      // messages that have packets to send
  std::vector<TxBacklog> backlogs_;  // by port
  bool is_blocked_ = false;          // a port takes no more for now

  static constexpr size_t kFramesPerPort = 32;  // frames of one port that are looked at before the next port
  std::array<InFrame, kFramesPerPort> frames_;
  std::vector<RxMessage> requests_;          // requests that were found in this round
  std::vector<Arrival> listed_;              // messages that packets arrived for in this round
  std::vector<Arrival> long_;                // messages that need grants
  uint32_t granted_remaining_ = UINT32_MAX;  // long messages with at most this many packets left may be granted packets
  int64_t granted_begun_ns_ = 0;             // and so may those that began at this time or before
  std::vector<SessionId> acks_due_;
  int64_t first_ack_due_ns_ = runtime::kNever;  // when the first of acks_due_ has waited for long enough
  std::vector<SessionId> opened_;               // sessions to be announced
  std::vector<Session*> lost_;                  // sessions to be announced
  uint64_t delivered_count_ = 0;
  bool borrowed_last_ = false;  // a message has borrowed the frame that was just looked at
  RxBlock* copies_ = nullptr;   // block for short messages that cannot stay in their frames
  uint32_t copies_used_ = 0;
  uint64_t copied_out_bytes_ = 0;  // bytes that wait in all sessions, as of the last look at the timeouts
  bool is_short_of_memory_ = false;
  uint32_t unknown_said_ = 0;  // `Unknown` packets sent since the last look at the timeouts
  uint32_t next_port_ = 0;

  int64_t now_ns_ = 0;          // as of the last reading of the clock
  uint64_t clock_ticks_ = 0;    // ticks at that reading
  bool is_time_fresh_ = false;  // now_ns_ serves for the rest of the frames that are being taken
  int64_t timeouts_due_ns_ = 0;
  int64_t timeouts_planned_ns_ = 0;  // timeouts_due_ns_ as the last look at the timeouts left it
  int64_t listening_since_ns_ = 0;   // before it the thread did not run: silence until then is no peer's fault
  int64_t ports_kept_ns_ = 0;
  uint32_t rounds_to_clock_ = 1;
  int64_t nap_ns_ = 0;
  BorrowedCounts borrowed_counts_;
  SendCounts send_counts_;
  PacketCounts packet_counts_;
};

}  // namespace ramcore::transport::datagram
