#pragma once

#include <memory>
#include <optional>

#include "transport/os/epoll_sleeper.h"
#include "transport/session/call_slots.h"
#include "transport/session/handshake.h"
#include "transport/session/progress.h"
#include "transport/tcp/asio.h"
#include "transport/tcp/frame_reader.h"
#include "transport/tcp/send_queue.h"
#include "transport/tcp/stream_socket.h"

namespace ramcore::transport::tcp {

class TcpEndpoint;

/// What exists of a session once its handshake has succeeded.
struct TcpChannel {
  /// `unsent_bytes` counts those of all sessions of the endpoint.
  TcpChannel(RxBlockPool& blocks, SharedBlock& shared, uint64_t& unsent_bytes, uint16_t slot_count)
      : reader(blocks, shared, slot_count), queue(unsent_bytes), calls(slot_count), requests(slot_count) {}

  FrameReader reader;
  SendQueue queue;
  CallSlots calls;
  RequestSlots requests;
};

/// A session of a TcpEndpoint, which moves it through its states. Handlers of Asio hold it too: they may still come
/// when the endpoint has let go of it.
struct TcpSession final : ReadinessListener {
  enum class State : uint8_t {
    Resolving,  ///< a name is looked up
    Connecting,
    Greeting,  ///< handshake
    Open,
    Lost,  ///< calls are completed; the sink is still to be told
  };

  TcpSession(TcpEndpoint& owner, SessionId session_id) : endpoint(&owner), id(session_id) {}
  void onReady(uint32_t events) override;

  bool isPending() const { return state != State::Open && state != State::Lost; }
  /// Whether nothing is read because the peer leaves more than `unsent_bytes_max` bytes of answers unread. Requests do
  /// not count: if a caller stopped reading as well, two sides with much to send would wait for each other.
  bool isReadPaused(uint64_t unsent_bytes_max) const {
    return channel && channel->queue.unsentAnswerBytes() > unsent_bytes_max;
  }
  /// True if there may be something to read of which the sleeper will not tell.
  bool mustRead(uint64_t unsent_bytes_max) const {
    return state != State::Lost && (!is_drained || has_unread) && !isReadPaused(unsent_bytes_max);
  }
  /// Bytes of messages that the endpoint holds for this session, which is open.
  uint64_t heldBytes() const { return channel->queue.unsentBytes() + channel->reader.heldBytes(); }

  TcpEndpoint* endpoint;  ///< nullptr once the endpoint has let go of the session
  SessionId id;
  State state = State::Greeting;
  StreamSocket socket;                           ///< once it is connected
  EpollSleeper::Key key = EpollSleeper::kNoKey;  ///< of the socket, in the thread's sleeper
  Peer peer;
  bool is_accepted = false;
  bool is_announced = false;  ///< the sink has heard, or (connect) will hear, of it
  Status lost_reason = Status::SessionLost;
  OpenFailure open_failure;

  // Until it is open.
  int64_t deadline_ns = runtime::kNever;
  uint64_t expected_id = 0;
  bool peer_is_local = false;
  std::optional<Handshake> handshake;
  bool has_received = false;  ///< at least one byte
  /// One attempt to connect to an address.
  struct Attempt {
    Attempt(asio::io_context& io, uint32_t attempt_number) : number(attempt_number), socket(io) {}
    uint32_t number;
    Tcp::socket socket;
  };
  struct Connecting {
    std::optional<Tcp::resolver> resolver;
    std::vector<Tcp::endpoint> addresses;  ///< still to be tried, the next one last
    Tcp::endpoint address;
    std::vector<std::unique_ptr<Attempt>> attempts;  ///< the oldest first; the first that succeeds is used
    uint32_t attempts_begun = 0;
    int64_t attempt_again_ns = runtime::kNever;
  };
  Connecting connecting;  ///< while Resolving or Connecting

  std::optional<TcpChannel> channel;  ///< while Open

  // Reading.
  bool is_hot = false;      ///< in the list of sessions that are read without asking the sleeper
  bool is_drained = false;  ///< the kernel had nothing more at the last look, and the sleeper has told of nothing since
  bool has_ended = false;   ///< the sleeper has told of the end: only a read that finds nothing sets is_drained
  bool has_unread = false;  ///< whole messages may wait in the reader
  uint32_t misses = 0;      ///< weighed looks that found nothing
  bool is_bounded = false;  ///< a client's: it waits when memory for messages is used up
  Reception reception;

  // Writing.
  bool is_dirty = false;        ///< in the list of sessions that flush() writes
  bool is_write_armed = false;  ///< the kernel takes no more; the sleeper tells when it does
  bool is_blocked = false;      ///< in the list of sessions that are watched for standing still
  bool is_copied_out = false;
  int64_t first_since_ns = 0;  ///< while is_blocked: since when the first message waits
  uint64_t taken_bytes = 0;    ///< by the kernel, while is_blocked
  Progress sending;            ///< while is_blocked
};

/// The events that are always listened to on a session's socket (EpollSleeper::listen).
extern const uint32_t kReadEvents;
/// "10.0.0.1:1100"
std::string textOf(const Tcp::endpoint& address);
/// Sets the options that every session wants on its socket. False: the socket is useless.
bool prepareSocket(int socket, int32_t kernel_send_bytes);
/// See Endpoint::hasVanished.
bool hasPeerVanished(int fd);

}  // namespace ramcore::transport::tcp
