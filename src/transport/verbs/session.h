#pragma once

#include <memory>
#include <optional>

#include "transport/os/epoll_sleeper.h"
#include "transport/session/call_slots.h"
#include "transport/verbs/greeting.h"
#include "transport/verbs/place_pool.h"
#include "transport/verbs/send_queue.h"
#include "transport/verbs/side_socket.h"

namespace ramcore::transport::verbs {

struct Session;

/// Sent to the peer on the socket, when the last message has left the queue pair.
inline constexpr std::byte kCloseByte{'c'};

/// A call of ours whose request or answer needs a transfer.
struct OwnTransfer {
  std::shared_ptr<Place> request;   ///< which the peer reads
  std::shared_ptr<Place> response;  ///< which the peer writes to
  uint32_t response_bytes = 0;      ///< that it announced
  uint32_t response_bytes_max = 0;  ///< that we take
};

/// A request of the peer whose bytes, or whose answer's, need a transfer.
struct ServedTransfer {
  wire::VerbsHeader request{};
  std::vector<wire::VerbsPiece> pieces;
  Block* into = nullptr;    ///< where it is read to; the send queue owns it until is_read
  bool is_read = false;     ///< all of it is there, and `into` is ours
  uint32_t into_bytes = 0;  ///< of `into`, that count as held
  TxMessage response;       ///< waits for a place
  wire::VerbsHeader response_header{};
  int64_t response_since_ns = 0;
};

/// What exists of a session once its queue pair is connected. It stays, without a session, until the adapter has done
/// with what was given to it.
struct Channel {
  Channel(const SendQueue::Parts& parts, std::unique_ptr<QueuePair> pair, uint32_t channel_tag, uint16_t slot_count,
          uint32_t receive_bytes_of_peer)
      : tag(channel_tag),
        peer_receive_bytes(receive_bytes_of_peer),
        queue(parts, std::move(pair), channel_tag),
        calls(slot_count),
        requests(slot_count),
        own(slot_count),
        served(slot_count) {}

  /// True if a message of this length, its header not counted, fits no receive buffer of the peer.
  bool needsTransfer(uint32_t bytes) const { return bytes > peer_receive_bytes - uint32_t{sizeof(wire::VerbsHeader)}; }
  /// Begins a call of ours, and puts its slot and sequence into the header. A slot is free (CallSlots::isFull()).
  void beginCall(wire::VerbsHeader& header, PendingCall& call, const CallOptions& options) {
    calls.begin(call);
    header.slot = call.slot;
    header.sequence = call.sequence;
    OwnTransfer& transfer = own[call.slot];
    transfer.response_bytes = 0;
    transfer.response_bytes_max = options.response_bytes_max;
  }

  const uint32_t tag;
  const uint32_t peer_receive_bytes;
  Session* session = nullptr;  ///< nullptr: it only drains
  SendQueue queue;
  CallSlots calls;
  RequestSlots requests;
  uint32_t responses_waiting = 0;  ///< of `served`, for a place
  // Whether the adapter makes progress with what it was given (BorrowWatch).
  uint32_t seen_completed = 0;
  int64_t seen_ns = 0;

  std::vector<OwnTransfer> own;        ///< by the slot of our call
  std::vector<ServedTransfer> served;  ///< by the slot of the peer's

  // While it drains.
  int64_t drain_until_ns = 0;
  uint64_t settled_at = 0;  ///< arrivals of the endpoint when it was settled
  bool has_failed = false;  ///< the queue pair is in error
  bool is_settled = false;  ///< nothing is posted, and nothing can arrive any more
  Descriptor socket;        ///< to be told that the end was in order
};

class VerbsEndpoint;

/// A session of a VerbsEndpoint, which moves it through its states.
struct Session final : ReadinessListener {
  enum class State : uint8_t {
    Resolving,
    Connecting,
    Greeting,  ///< handshake, and addresses of queue pairs
    Open,
    Lost,  ///< calls are completed; the sink is still to be told
  };

  Session(VerbsEndpoint& owner, SessionId session_id) : endpoint(owner), id(session_id) {}
  void onReady(uint32_t events) override;

  VerbsEndpoint& endpoint;
  SessionId id;
  State state = State::Greeting;
  Peer peer;
  bool is_accepted = false;
  bool is_announced = false;  ///< the sink has heard, or (connect) will hear, of it
  Status lost_reason = Status::SessionLost;
  OpenFailure open_failure;

  // Until it is open.
  std::unique_ptr<HostLookup> lookup;
  size_t next_address = 0;
  uint64_t expected_id = 0;
  int64_t deadline_ns = 0;
  std::unique_ptr<Greeting> greeting;
  /// Messages that came before the peer said on the socket that it is ready: the two take different ways. They are
  /// copies, because a peer that never says so must not keep receive buffers.
  std::vector<std::vector<std::byte>> early;

  Descriptor socket;  ///< open for as long as the session; its end shows that the peer has gone
  EpollSleeper::Key key = EpollSleeper::kNoKey;
  bool is_told = false;         ///< in the list of sessions whose socket has something to say
  bool ends_in_order = false;   ///< the peer said so
  bool peer_has_ended = false;  ///< what has arrived still counts

  std::unique_ptr<Channel> channel;  ///< once Open
  bool is_dirty = false;             ///< in the list of sessions that flush() posts
  bool is_watched = false;           ///< in the list of sessions that may hold borrowed bytes for long
  uint64_t ended_at = 0;             ///< arrivals of the endpoint when its peer had ended
  bool is_bounded = false;           ///< a client's: it waits when memory for messages is used up
};

}  // namespace ramcore::transport::verbs
