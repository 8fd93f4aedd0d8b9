#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "transport/os/descriptor.h"
#include "transport/os/epoll_sleeper.h"
#include "transport/session/call_slots.h"
#include "transport/session/progress.h"
#include "transport/shm/frame_reader.h"
#include "transport/shm/frame_writer.h"
#include "transport/shm/greeting.h"
#include "transport/shm/shared_memory.h"
#include "transport/shm/unix_socket.h"

namespace ramcore::transport::shm {

/// What exists of a session once its memory is mapped.
struct Channel {
  Channel(SharedMemory&& shared, bool is_server, MessagePool& pool, uint16_t slot_count);

  SharedMemory memory;
  FrameReader reader;
  FrameWriter writer;
  std::atomic<uint32_t>& own_wakefulness;
  std::atomic<uint32_t>& peer_wakefulness;
  CallSlots calls;
  RequestSlots requests;

  /// Wakes the peer if it sleeps. To be called after every publication, of bytes or of room.
  void wakePeer(int socket) {
    // Both sides use read-modify-writes, so one of the two comes first. If the peer's follows ours, the peer sees what
    // we published; if ours follows, it sees that the peer sleeps. Only the exchange that sets Awake again wakes the
    // peer, so one sleep costs one system call, however often we publish meanwhile.
    const uint32_t was =
        peer_wakefulness.exchange(static_cast<uint32_t>(Wakefulness::Awake), std::memory_order_acq_rel);
    if (was != static_cast<uint32_t>(Wakefulness::Awake)) [[unlikely]]
      sendWakeUp(socket);
  }
  /// Publishes whether this side sleeps. After Asleep the caller looks at its rings once more.
  void setWakefulness(Wakefulness wakefulness) {
    own_wakefulness.exchange(static_cast<uint32_t>(wakefulness), std::memory_order_acq_rel);
  }
};

class ShmEndpoint;

/// Why a session is closed whose peer says that it has read or written more than there is.
inline constexpr std::string_view kImpossiblePosition = "its position in the ring cannot be true";

/// A session of a ShmEndpoint; its parts belong to the endpoint, which moves it through its states.
struct Session final : ReadinessListener {
  enum class State : uint8_t {
    Greeting,  ///< handshake over the socket, and the memory's way to the client
    Open,
    Lost,  ///< calls are completed; the sink is still to be told
  };

  Session(ShmEndpoint& owner, SessionId session_id) : endpoint(owner), id(session_id) {}
  void onReady(uint32_t events) override;

  ShmEndpoint& endpoint;
  SessionId id;
  State state = State::Greeting;
  Descriptor socket;
  EpollSleeper::Key key = EpollSleeper::kNoKey;  ///< of the socket, in the thread's sleeper
  std::unique_ptr<Greeting> greeting;            ///< while Greeting
  std::unique_ptr<Channel> channel;              ///< once Open
  Peer peer;

  bool is_accepted = false;
  bool is_announced = false;    ///< the sink has heard, or (connect) will hear, of it
  bool is_dirty = false;        ///< in the list of sessions that flush() publishes
  bool is_blocked = false;      ///< in the list of sessions whose peer has no room
  bool has_unread = false;      ///< the last look ended before everything was read
  bool is_told = false;         ///< in the list of sessions whose socket has something to say
  bool is_end_told = false;     ///< the sleeper has told of the socket's end
  uint32_t naps = 0;            ///< "asleep" published since the wake-up bytes were read
  bool peer_has_ended = false;  ///< its end of the socket is closed; what is in the ring still counts
  uint32_t idle_rounds = 0;
  Status lost_reason = Status::SessionLost;
  OpenFailure open_failure;

  uint64_t peer_position = 0;  ///< while is_blocked: where the peer was when it was last seen to read
  Progress sending;            ///< while is_blocked
  bool is_copied_out = false;
  bool is_bounded = false;  ///< a client's: it waits when memory for messages is used up
  Reception reception;

  /// Bytes of messages that the endpoint holds for this session, which is open.
  uint64_t heldBytes() const { return channel->writer.queuedBytes() + channel->reader.heldBytes(); }
};

}  // namespace ramcore::transport::shm
