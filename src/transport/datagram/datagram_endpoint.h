#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "transport/datagram/lent_frames.h"
#include "transport/datagram/session.h"
#include "transport/gather/gather_policy.h"
#include "transport/memory/tx_pool.h"
#include "transport/session/client_share.h"
#include "transport/session/complaints.h"

namespace ramcore::transport::datagram {

struct DatagramOptions {
  std::string_view scheme = "dpdk";
  /// Calls in flight on one session, 1..wire::kSlotCountMax. The smaller of both sides' counts.
  uint16_t slots_per_session = 64;
  /// Sessions of an endpoint; more are refused. What is above `places_max` less `own_places` counts as that.
  uint32_t sessions_max = 4096;
  /// Sessions in any state that have a number, of which the place is 16 bits: 1..65,536.
  uint32_t places_max = 65'536;
  /// Of these, those that peers cannot take: our own connects find one, whoever comes.
  uint32_t own_places = 8'192;
  /// Accepted sessions that have not yet proven who they are; for one more an old one is dropped.
  uint32_t greetings_max = 128;
  int64_t greeting_timeout_ns = 5 * runtime::kNanosPerSecond;
  /// Packets of each message that a peer may send before it was granted any: 1..1024.
  uint16_t unasked_packets = 16;
  /// Packets of a long message that may be under way, and how many long messages are granted any at a time.
  uint32_t grant_window = 64;
  uint32_t granted_messages = 8;
  /// Calls in a slot of a session. Then the session ends and another one begins, with other keys: a number that was
  /// used before would let in what was recorded under it.
  uint32_t slot_calls_max = UINT32_MAX - 1;
  /// Packets with a wrong seal after which a session ends: so many tries has who wants to find a right one.
  uint64_t unproven_max = 1 << 20;
  /// Packets carry a MAC; so also if only the other side wants it.
  bool wants_seal = true;
  /// What is taken for a chunk that pays to be sent from where it is, and how many pieces a frame may have.
  GatherLimits gather = {.entries_max = 32};
  /// How long nothing may be heard of a peer while something is expected of it, and when it is asked.
  int64_t silence_close_ns = 2 * runtime::kNanosPerSecond;
  int64_t silence_probe_ns = 50 * runtime::kNanosPerMilli;
  /// How often a session where nothing happens is asked whether it is there; after three times it is lost.
  int64_t idle_probe_ns = 5 * runtime::kNanosPerSecond;
  /// How long at most bytes are lent to a message; then they are copied, unless the port is about to read them.
  int64_t lent_ns_max = 100 * runtime::kNanosPerMilli;
  /// What may wait, copied out, for one session; beyond it the session is closed.
  uint64_t stall_bytes_max = 64 * 1024 * 1024;
  /// How long a message may stand still in the middle, or an answer not be mentioned by whom it is for, before its
  /// session is closed; and if memory is short.
  int64_t stall_close_ns = 10 * runtime::kNanosPerSecond;
  int64_t stall_squeeze_ns = 1 * runtime::kNanosPerSecond;
  /// What messages of several packets may take, of all sessions; of clients those beyond it are not taken in.
  uint64_t held_bytes_max = 256 * 1024 * 1024;
  /// The longest sleep of a thread whose ports do not wake it: what comes meanwhile waits so long.
  int64_t nap_ns_max = 1 * runtime::kNanosPerMilli;
};

/// What an endpoint needs from its process. All borrowed.
struct DatagramContext {
  runtime::Clock& clock;
  runtime::Entropy& entropy;
  Trace& trace;
  /// Ends the next sleep of the thread at this time at the latest; may be empty where nobody sleeps.
  std::function<void(int64_t)> wake_by;
};

/// What an endpoint holds, for metrics and tests.
struct HeldCounts {
  uint64_t blocks = 0;       ///< of received messages, and of those that are arriving
  uint64_t block_bytes = 0;  ///< of these
  uint64_t frames = 0;       ///< of ports, lent to received messages
  uint64_t outgoing = 0;     ///< messages that the peer does not have yet, or that a port still reads
  uint64_t sessions = 0;     ///< in any state
};

/// Sessions of one thread over Ethernet frames: what is lost is sent again, what comes twice is taken once, receivers
/// say how much of a long message may be under way. docs/transport.md has the protocol.
class DatagramEndpoint final : public Endpoint {
 public:
  /// Ports outlive it, and have the same address (checked), at least one.
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
  LendingCounts lendingCounts() const override { return lending_counts_; }
  SendCounts sendCounts() const override { return send_counts_; }
  PacketCounts packetCounts() const override { return packet_counts_; }
  HeldCounts heldCounts() const;

 private:
  /// A packet that arrived, taken apart.
  struct Packet {
    uint32_t port = 0;
    wire::FrameStart start{};
    wire::PacketHeader header{};
    ByteSpan payload;
    MacAddress from() const { return MacAddress{start.from}; }
  };
  /// A session of ours that is over, until the peer knows.
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
  /// A frame that is being made, and where its payload stands.
  struct Frame {
    OutFrame handle;
    std::byte* start = nullptr;
    size_t piece_count = 0;  ///< in frame_pieces_
  };
  /// Frames that a port has not taken yet.
  struct Leaving {
    std::vector<OutFrame> frames;
    int64_t refused_since_ns = runtime::kNever;  ///< when it first took not all, since it last took any
    bool has_link = false;
  };
  /// Who named a session first: copies of its first packet find it there.
  using PeerKey = std::pair<MacAddress, uint64_t>;

  // What arrives (datagram_arrivals.cc).
  void takeFrames(uint32_t port, std::span<const InFrame> frames);
  /// At the clock.
  void look();
  void lookIfStale();
  void lookInThisBurst();
  bool takeFrame(uint32_t port, const InFrame& frame);
  bool takeApart(uint32_t port, const InFrame& frame, Packet& packet);
  void takeFromStranger(const Packet& packet);
  bool takePacket(Session& session, const Packet& packet, const InFrame& frame);
  bool isValidData(const Channel& channel, const Packet& packet) const;
  bool takeRequest(Session& session, const Packet& packet, const InFrame& frame);
  bool beginRequest(Session& session, const Packet& packet, const InFrame& frame);
  bool takeResponse(Session& session, const Packet& packet, const InFrame& frame);
  bool takeProgress(Session& session, const Packet& packet);
  bool takeTaken(Session& session, const Packet& packet);
  void deliverRequest(Session& session, const wire::PacketHeader& header, RxMessage&& message);
  void finishCall(Session& session, const wire::PacketHeader& header, RxMessage&& message);
  void noteTaken(Session& session, const wire::PacketHeader& header);
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
  void tellProgress(Session& session, const Arrival& arrival, const wire::ProgressBody& body, uint32_t sequence,
                    bool is_overdue);
  void chooseGranted();
  bool mayBeGranted(const Incoming& incoming) const;
  void handOver(MessageSink& sink);

  // What is sent (datagram_sending.cc).
  void pump();
  bool sendPacket(Session& session, Outgoing& outgoing, uint32_t packet, bool is_again);
  bool gatherFrame(FramePort& port, Outgoing& outgoing, ByteSpan head, uint32_t offset, uint32_t bytes, Frame& frame);
  /// Kind, addresses, header and, last, its seal.
  void writeStart(std::byte* at, const MacAddress& to, wire::PacketKind kind, const HeaderWords& header,
                  uint64_t seal) const;
  void sendWord(const Route& route, const PacketSeal& seal, wire::PacketKind kind, wire::PacketHeader header,
                ByteSpan body);
  void sendWord(Session& session, wire::PacketKind kind, const wire::PacketHeader& header = {}, ByteSpan body = {});
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
  bool tellTaken(Session& session, bool all);
  void tellTakers(bool all);

  // The life of sessions (datagram_sessions.cc).
  Session* find(SessionId id) const {
    if (id.index >= sessions_.size()) return nullptr;
    Session* const session = sessions_[id.index].get();
    return session != nullptr && session->id == id ? session : nullptr;
  }
  Session* findOpen(SessionId id) const {
    Session* const session = find(id);
    return session != nullptr && session->state == Session::State::Open ? session : nullptr;
  }
  Session* findNumber(uint64_t number) const;
  /// nullptr: that many places are taken.
  Session* addSession(uint32_t places);
  void takeGreeting(const Packet& packet);
  Session* acceptNewcomer(const Packet& packet, const wire::GreetingBody& body);
  bool dropNewcomer();
  void stepGreeting(Session& session);
  void sendGreeting(Session& session);
  void openSession(Session& session);
  void takeUnknown(const Packet& packet);
  void sayUnknown(uint32_t port, const MacAddress& to, uint64_t peer_number, uint64_t number);
  void lose(Session& session, Status reason);
  void loseBad(Session& session, std::string_view why);
  void loseSilent(Session& session, const std::string& why);
  void dropChannel(Channel& channel);
  void announceOpened(MessageSink& sink);
  void announceLost(MessageSink& sink);

  // Deadlines and bounds (datagram_house.cc).
  bool hasDeadlines() const;
  void keepHouse();
  void keepPorts();
  void suspectAllAt(uint32_t port);
  int64_t checkGreeting(Session& session);
  int64_t checkOpen(Session& session);
  int64_t checkSilence(Session& session);
  int64_t checkSending(Session& session);
  int64_t checkArriving(Session& session);
  int64_t checkLending(Session& session);
  uint64_t waitingBytes(const Outgoing& outgoing) const;
  void boundWaiting();
  void dropUnread(Session& session);
  void checkClosing();
  void squeeze();
  uint64_t heldBytes() const { return blocks_.lentBytes() + copied_out_bytes_; }

  const DatagramOptions options_;
  const DatagramContext context_;
  const Limits limits_;
  const Identity& identity_;
  const std::vector<FramePort*> ports_;
  const MacAddress address_;
  const PacketSeal no_seal_;  // the checksum of what has no session
  Complaints complaints_;
  uint32_t packet_bytes_ = 0;              // longest payload of all ports
  std::vector<uint64_t> lendable_frames_;  // by port: what all together may have lent when one of it is

  RxBlockPool blocks_;
  LentFrames lent_;
  // (Not under a lock: between a frame that was taken and its answer a locked instruction waits for the other core.)
  TxPool heads_{lent_.home()};

  std::vector<std::unique_ptr<Session>> sessions_;  // by SessionId::index; nullptr = free
  std::vector<uint32_t> generations_;
  std::vector<uint32_t> free_indices_;
  std::map<PeerKey, SessionId> by_peer_;
  std::vector<Closing> closing_;
  uint32_t open_count_ = 0;
  uint32_t young_count_ = 0;      // not open yet
  uint32_t accepting_count_ = 0;  // of these, those that were accepted
  ClientShare clients_;           // of the open ones
  uint64_t bad_count_ = 0;
  uint16_t listening_ = 0;
  std::vector<Locator> locators_;

  // Of the frame that is being made. (Not in the Frame: setting each to nothing takes as long as a seal.)
  std::array<ByteSpan, TxBuffer::kChunkCountMax + 1> frame_pieces_;
  std::vector<std::unique_ptr<Outgoing>> outgoings_;
  std::vector<Outgoing*> free_outgoings_;
  std::vector<Outgoing*> retired_;  // something still reads them, or they are queued
  std::vector<Outgoing*> begun_;    // since the last flush()
  std::deque<Outgoing*> ready_;     // have something to send
  std::vector<Leaving> leaving_;    // by port
  bool is_blocked_ = false;         // a port takes no more for now

  static constexpr size_t kFramesPerPort = 32;  // looked at before the next port
  std::array<InFrame, kFramesPerPort> frames_;
  std::vector<RxMessage> requests_;          // found in this round
  std::vector<Arrival> listed_;              // got on in this round
  std::vector<Arrival> long_;                // need grants
  uint32_t granted_remaining_ = UINT32_MAX;  // of the long messages, those with no more left may be granted packets
  int64_t granted_begun_ns_ = 0;             // and those that are no younger
  std::vector<SessionId> takers_;
  int64_t takers_due_ns_ = runtime::kNever;  // the first of them has waited for long enough
  std::vector<SessionId> opened_;            // to be announced
  std::vector<Session*> lost_;               // to be announced
  uint64_t delivered_count_ = 0;
  bool lent_last_ = false;     // the frame that was just looked at is kept
  RxBlock* copies_ = nullptr;  // where short messages go that cannot stay in their frames
  uint32_t copies_used_ = 0;
  uint64_t copied_out_bytes_ = 0;  // that wait in all sessions, as of the last look
  bool is_short_of_memory_ = false;
  uint32_t unknown_said_ = 0;  // since the last look at the house
  uint32_t next_port_ = 0;

  int64_t now_ns_ = 0;          // as of this round
  uint64_t looked_ticks_ = 0;   // when it was read
  bool is_time_fresh_ = false;  // for what is left of the frames that are being taken
  int64_t house_due_ns_ = 0;
  int64_t house_planned_ns_ = 0;    // as the last look left it
  int64_t listening_since_ns_ = 0;  // before that the thread was away, and nobody can be blamed for silence
  int64_t ports_kept_ns_ = 0;
  uint32_t rounds_to_look_ = 1;
  int64_t nap_ns_ = 0;
  LendingCounts lending_counts_;
  SendCounts send_counts_;
  PacketCounts packet_counts_;
};

}  // namespace ramcore::transport::datagram
