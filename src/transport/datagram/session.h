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

/// How long an answer that was taken waits for the next request in its slot, which says the same.
inline constexpr int64_t kTakenDelayNs = 20 * runtime::kNanosPerMicro;

/// Where packets of a session go, and how they are proven.
struct Route {
  static constexpr uint32_t kAnyPort = UINT32_MAX;

  uint32_t port = kAnyPort;  ///< index of the endpoint's ports; kAnyPort: not known yet
  MacAddress address;        ///< of the peer
  uint64_t number = 0;       ///< of the session, ours
  uint64_t peer_number = 0;  ///< the peer's
};

/// A call of ours, in its slot.
struct OwnCall {
  Outgoing* request = nullptr;  ///< until the peer has it
  Incoming response;
  uint32_t sequence = 0;
  uint32_t response_bytes_max = 0;
  bool owes_taken = false;   ///< the answer was taken, and the peer has not been told
  bool is_in_taken = false;  ///< in the list of those that did
  int64_t taken_ns = 0;
  int64_t asked_again_since_ns = 0;  ///< when it was sent first, if the peer was found at work by sending it again
  int64_t answer_counts_ns = 0;      ///< as so long at most, then
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

/// What there is of a session that is open.
struct Channel {
  Channel(uint16_t slot_count, const PacketSeal& of_ours, const PacketSeal& of_peer)
      : seal_out(of_ours), seal_in(of_peer), calls(slot_count), own(slot_count), served(slot_count) {}

  PacketSeal seal_out;
  PacketSeal seal_in;
  uint32_t packet_bytes = 0;
  uint32_t unasked_packets = 0;  ///< of each message, that the peer takes
  CallSlots calls;
  uint32_t calls_out = 0;  ///< that wait for an answer
  std::vector<OwnCall> own;
  std::vector<Served> served;
  std::vector<Outgoing*> sending;  ///< not all there yet
  std::vector<Arrival> arriving;   ///< messages of several packets
  std::vector<uint16_t> taken;     ///< slots whose answers were taken; who still owes the word, they know
  RoundTrip round_trip;
};

/// A session of a DatagramEndpoint, which moves it through its states.
struct Session {
  enum class State : uint8_t {
    Greeting,
    Open,
    Lost,  ///< calls are completed; the sink has still to hear of it
  };

  explicit Session(SessionId session_id) : id(session_id) {}

  SessionId id;
  State state = State::Greeting;
  Route route;
  Peer peer;
  bool is_accepted = false;
  bool is_announced = false;  ///< the sink has heard, or (connect) will hear, of it
  bool is_bounded = false;    ///< waits when memory is short
  Status lost_reason = Status::SessionLost;
  OpenFailure open_failure;

  /// Until the peer has heard all of it, which may be after the session is open.
  std::unique_ptr<GreetingStream> greeting;
  uint32_t greeting_received_bytes = 0;
  uint32_t greeting_sent_bytes = 0;
  bool wants_seal = false;  ///< one of the two
  bool was_heard = false;   ///< a word that answers one of ours: its address is no invention
  uint16_t looked_for = 0;  ///< the number behind the address
  uint16_t peer_packet_bytes = 0;
  uint16_t peer_unasked_packets = 0;
  int64_t deadline_ns = 0;  ///< of the greeting
  int64_t greet_due_ns = 0;
  uint8_t greet_tries = 0;

  std::unique_ptr<Channel> channel;  ///< while it is open
  int64_t heard_ns = 0;              ///< when a packet of it came that is proven
  int64_t expected_ns = 0;           ///< since when something is expected of the peer
  int64_t probed_ns = 0;
  int64_t suspected_ns = 0;    ///< since somebody says that the peer does not know the session; 0: nobody does
  bool is_used_up = false;     ///< begins no more calls, and ends with those that are out
  uint64_t unproven = 0;       ///< packets for it that nobody with the key has sealed
  bool has_taken = false;      ///< in the list of those with something to tell
  uint64_t waiting_bytes = 0;  ///< of our memory, in what it has not taken; as of the last look at the house
};

}  // namespace ramcore::transport::datagram
