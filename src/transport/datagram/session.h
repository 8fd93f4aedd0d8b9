#pragma once

#include <memory>
#include <vector>

#include "transport/datagram/greeting_stream.h"
#include "transport/datagram/incoming.h"
#include "transport/datagram/outgoing.h"
#include "transport/datagram/packet_seal.h"
#include "transport/datagram/round_trip.h"
#include "transport/session/call_slots.h"

namespace ramcore::transport::datagram {

/// How long the acknowledgement of an answer is delayed. The next request in the slot acknowledges the answer, too.
inline constexpr int64_t kAckDelayNs = 20 * runtime::kNanosPerMicro;
/// Maximum number of tries that are counted.
inline constexpr uint8_t kTriesMax = 30;

/// Where packets of a session go, and which numbers both ends have given it.
struct Route {
  static constexpr uint32_t kAnyPort = UINT32_MAX;

  uint32_t port = kAnyPort;  ///< index of the endpoint's ports; kAnyPort: not known yet
  MacAddress address;        ///< the peer's address
  uint64_t number = 0;       ///< our number of the session
  uint64_t peer_number = 0;  ///< the peer's number of the session
};

/// A call of ours, in its slot.
struct OwnCall {
  Outgoing* request = nullptr;  ///< nullptr: the peer has it
  Incoming response;
  uint32_t sequence = 0;
  uint32_t response_bytes_max = 0;
  bool owes_taken = false;   ///< the answer has come, and the peer has not been sent an acknowledgement
  bool is_in_taken = false;  ///< its slot is in Channel::taken
  int64_t taken_ns = 0;
  int64_t asked_again_since_ns = 0;  ///< when the request was first sent, if a resend found the peer at work; else 0
  int64_t answer_counts_ns = 0;      ///< then the most that its answer may count as a round trip
};

/// The latest request of the peer in a slot.
struct Served {
  enum class State : uint8_t {
    None,
    Arriving,
    InService,
    Answered,  ///< the answer is being sent
    Over,      ///< the peer has the answer
  };
  State state = State::None;
  uint32_t sequence = 0;
  Incoming request;
  Outgoing* response = nullptr;
};

/// Names an Incoming.
struct Arrival {
  SessionId session;
  uint16_t slot = 0;
  bool is_response = false;
  bool operator==(const Arrival&) const = default;
};

/// The state of an open session.
struct Channel {
  Channel(uint16_t slot_count, const PacketSeal& of_ours, const PacketSeal& of_peer)
      : seal_out(of_ours), seal_in(of_peer), calls(slot_count), own(slot_count), served(slot_count) {}

  PacketSeal seal_out;
  PacketSeal seal_in;
  uint32_t packet_bytes = 0;
  uint32_t unasked_packets = 0;  ///< packets of each message that the peer takes without a grant
  CallSlots calls;
  uint32_t calls_out = 0;  ///< our calls that have no answer yet
  std::vector<OwnCall> own;
  std::vector<Served> served;
  std::vector<Outgoing*> sending;  ///< our messages that the peer does not have whole
  std::vector<Arrival> arriving;   ///< the peer's messages of several packets
  std::vector<uint16_t> taken;     ///< slots whose answers came; OwnCall::owes_taken: not acknowledged yet
  RoundTrip round_trip;
};

/// A session of an endpoint, whose parts move it through its states.
struct Session {
  enum class State : uint8_t {
    Greeting,
    Open,
    Lost,  ///< its calls are completed; the sink has not been told yet
  };

  explicit Session(SessionId session_id) : id(session_id) {}

  SessionId id;
  State state = State::Greeting;
  Route route;
  Peer peer;
  bool is_accepted = false;
  bool is_announced = false;  ///< the sink was told of it, or (connect) will be told of it
  bool is_bounded = false;    ///< accepted from a client or administrator: it waits when memory is short
  Status lost_reason = Status::SessionLost;
  OpenFailure open_failure;

  /// The handshake. Kept until the peer has heard all of it, which may be after the session is open.
  std::unique_ptr<GreetingStream> greeting;
  uint32_t greeting_received_bytes = 0;
  uint32_t greeting_sent_bytes = 0;
  bool wants_seal = false;  ///< one of the two sides wants a MAC
  bool was_heard = false;   ///< a packet came that answers one of ours: the peer's address is not made up
  uint16_t looked_for = 0;  ///< the port number that the initiator connects to
  uint16_t peer_packet_bytes = 0;
  uint16_t peer_unasked_packets = 0;
  int64_t deadline_ns = 0;  ///< end of the time for the handshake
  int64_t greet_due_ns = 0;
  uint8_t greet_tries = 0;

  std::unique_ptr<Channel> channel;  ///< while it is open
  int64_t heard_ns = 0;              ///< when a packet with a right seal last came, or the session opened
  int64_t expected_ns = 0;           ///< since when something is expected of the peer
  int64_t probed_ns = 0;
  /// Since when the peer may not know the session (an `Unknown` packet, or a lost link); 0: no sign of that.
  int64_t suspected_ns = 0;
  bool is_used_up = false;  ///< begins no more calls, and ends when the calls that are out have ended
  uint64_t unproven = 0;    ///< packets for it with a wrong seal
  bool has_taken = false;   ///< it is in the list of sessions that owe acknowledgements
  /// Bytes of our memory in messages that the peer has not taken, as of the last look at the timeouts.
  uint64_t waiting_bytes = 0;
};

}  // namespace ramcore::transport::datagram
