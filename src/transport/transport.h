#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "transport/locator.h"
#include "transport/message.h"

namespace ramcore::transport {

/// What a process may do on its sessions. Proven in the handshake, enforced per opcode by the receiver.
enum class Role : uint8_t { Client = 1, Server = 2, Coordinator = 3, Admin = 4 };

/// Who this process says it is, and the secret by which it proves that it belongs to the cluster.
struct Identity {
  Role role = Role::Client;
  uint64_t id = 0;       ///< ServerId or ClientId; 0 while the coordinator has not given one
  uint64_t cluster = 0;  ///< ClusterId; 0 while it is not known. Different clusters have no sessions with each other
  std::string cluster_name;  ///< both ends must have the same
  std::string secret;        ///< read from a file; never travels. Empty: only loopback and shm are allowed
  /// The locators that handshakes tell peers; empty: those at which the process listens.
  std::vector<Locator> advertised = {};
};

/// The other end of a session, as its handshake proved it.
struct Peer {
  Role role = Role::Client;
  uint64_t id = 0;
  uint64_t cluster = 0;        ///< 0: it does not know yet
  std::string address;         ///< for people: where it connected from or to
  std::string_view transport;  ///< "tcp", "shm", ...
  /// Where the other end's process listens, as its handshake told; empty on sessions that were accepted.
  std::vector<Locator> locators = {};
};

/// What a transport can do; data, so that policies and tests ask for abilities and not for names.
struct Limits {
  std::string_view name;
  uint32_t message_bytes_max = 0;
  uint32_t gather_count_max = 0;    ///< chunks per message that are sent without being copied together
  uint32_t inline_bytes_max = 0;    ///< payload the hardware takes inside a descriptor
  uint32_t burst_messages_max = 0;  ///< upper bound for poll's message_max
  uint16_t slots_per_session = 0;   ///< calls in flight on one session
  uint32_t zero_copy_bytes_min =
      4097;                         ///< from this length on it is better to borrow a value as a chunk than to copy it
  bool zero_copy = false;           ///< the hardware reads chunks from where they are
  bool one_sided = false;           ///< rendezvous and remote reads are possible
  bool needs_registration = false;  ///< chunks outside registered regions are copied
  bool idle_poll_is_syscall_free = true;
};

/// One call in flight. Owned by the caller, which keeps it alive until `complete` has run or `Endpoint::abandon`
/// returned.
struct PendingCall {
  /// Runs once, on the endpoint's thread, from poll() or close(): with the response, or with an empty message and
  /// SessionLost / Shutdown. May start other calls; must not poll.
  using Complete = void (*)(PendingCall&, Status, RxMessage response);
  explicit PendingCall(Complete function) : complete(function) {}
  PendingCall(const PendingCall&) = delete;
  PendingCall& operator=(const PendingCall&) = delete;

  Complete complete;
  uint16_t slot = 0;      ///< the transport's
  uint32_t sequence = 0;  ///< the transport's
  bool in_flight = false;
};

struct CallOptions {
  runtime::Priority priority = runtime::Priority::Client;
  uint32_t response_bytes_max = UINT32_MAX;  ///< a longer answer is replaced by TooLarge at the sender
};

/// Why a session never opened, in addition to the Status, which says what a program does about it.
struct OpenFailure {
  enum class Kind : uint8_t {
    None,         ///< nothing is known
    Unreachable,  ///< nothing answers there; another try may succeed
    UnknownName,  ///< an authoritative answer: the host has no address
    Refused,      ///< the handshake failed: secret, cluster, protocol version
    WrongRole,    ///< another kind of process listens there
  };
  Kind kind = Kind::None;
  std::string text;  ///< cause and remedy for a person: "connection refused; check that it runs and listens there"

  /// True if another try cannot succeed before a person changes something.
  bool isLasting() const { return kind == Kind::UnknownName || kind == Kind::Refused || kind == Kind::WrongRole; }
};

/// Receives what an endpoint's poll finds. All calls on the endpoint's thread, from inside poll().
class MessageSink {
 public:
  virtual ~MessageSink() = default;
  /// Complete requests in arrival order for each session, no order between sessions; at most the poll's message_max.
  /// Move out what outlives the call.
  virtual void onRequests(std::span<RxMessage> requests) = 0;
  /// A handshake has succeeded, on a session that was accepted or that connect() started.
  virtual void onSessionOpen(SessionId session) = 0;
  /// The session is gone (once per session that was open or that connect() started). Its calls have been completed with
  /// SessionLost before. `reason`: Unreachable (never connected), Refused or WrongServerId (handshake), RetryLater (a
  /// server that listens and has not been told its id yet; it may be the one that is looked for), SessionLost (later
  /// failure or a peer's bad bytes), Shutdown (the peer closed in order).
  virtual void onSessionLost(SessionId session, Status reason) = 0;
};

/// What became of bytes that messages borrowed for longer than the transport lets them wait.
struct BorrowedCounts {
  /// Messages whose chunks were copied, because the peer did not take them in time, so that their owners got them back.
  uint64_t messages_copied_out = 0;
  /// Sessions closed because the copies would have been more than one session may leave unread.
  uint64_t sessions_dropped = 0;
};

/// What was given to hardware to send, and how much of it was copied for that. Zeros where everything is copied anyway.
struct SendCounts {
  uint64_t messages = 0;
  uint64_t payload_bytes = 0;   ///< heads and chunks
  uint64_t gathered_bytes = 0;  ///< bytes of chunks that the hardware reads from where they are, in registered memory
  uint64_t chunks_gathered = 0;
  uint64_t chunks_copied = 0;       ///< chunks whose bytes we copied, or put into a descriptor
  uint64_t long_chunks_copied = 0;  ///< of these, those that were long enough to be gathered (GatherLimits)
  uint64_t posts = 0;               ///< doorbells
};

/// Packets of transports whose network may lose packets, which they send again then. Zeros elsewhere.
struct PacketCounts {
  uint64_t sent = 0;
  uint64_t resent = 0;         ///< of these, packets of messages that were sent before
  uint64_t received = 0;       ///< whole Ethernet frames of ours
  uint64_t copies = 0;         ///< packets of messages whose bytes were there already
  uint64_t unproven = 0;       ///< packets whose seal or checksum was wrong
  uint64_t nonsense = 0;       ///< frames that are no valid packets of ours
  uint64_t dropped = 0;        ///< packets dropped before they were sent: the port took nothing for long
  uint64_t unknown_peers = 0;  ///< packets of sessions that are not there
};

/// What one thread polls: its own sockets, rings or queue pairs, with the sessions and receive buffers on them.
///
/// Delivery: a request that call() took reaches the service at the other end at most once, and only as a message of its
/// session: nothing of a session is delivered after the receiver has closed it or heard of its end, not even through a
/// later session of the same peer. So a call that was answered is over; its request does not come again. A call that
/// ended without an answer (session lost, abandoned) may have been delivered, and may yet be until the other end has
/// closed the session. Over a network that duplicates messages the transport recognises duplicates, by session and
/// number of the call.
///
/// Borrowed bytes: chunks stand in memory of others, which keep it for as long as the message waits. However slow the
/// peer is, every owner is released within a bounded time after the endpoint got the message (the transport's
/// `borrowed_ns_max`). What is not sent by then is copied. A session for which more would have to be copied than its
/// transport allows is closed, with a warning. Only hardware that is about to read the bytes is waited for.
///
/// Thread: the endpoint's own for everything except allocate() and the release of messages. Messages of other threads
/// come in through the dispatch thread's inbox (rpc/).
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  virtual const Limits& limits() const = 0;

  /// Starts to accept sessions. Returns the locator others can reach it at (port 0 resolved).
  /// Failure: InUse, BadConfig, IoError, with cause and remedy.
  virtual Outcome<Locator> listen(const Locator& where) = 0;

  /// Starts a session; the sink hears onSessionOpen or onSessionLost later, never inside this call.
  /// @param expected_id  the ServerId the peer must prove; another one gives WrongServerId, a server that has none yet
  ///                     RetryLater. 0 = any.
  /// @param deadline_ns  of connecting and handshake together.
  virtual SessionId connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns) = 0;

  /// A message with at least `head_bytes` (and at least TxBuffer::kHeadBytesMin) of writable head. Any thread.
  virtual TxMessage allocate(uint32_t head_bytes) = 0;

  /// Sends a request; `call.complete` runs later, never inside this call. The bytes leave at the latest at flush().
  /// Failure (call and request are untouched and still the caller's): RetryLater: all slots are taken; SessionLost: the
  /// session is not open; TooLarge: beyond limits().
  virtual Status call(SessionId session, TxMessage& request, const CallOptions& options, PendingCall& call) = 0;

  /// Forgets a call whose caller no longer waits. Its slot stays taken until the late answer comes or the session ends.
  virtual void abandon(SessionId session, PendingCall& call) = 0;

  /// Sends an answer. Never fails: an answer to a lost session is dropped, one longer than the caller takes is replaced
  /// by the rpc layer before.
  virtual void reply(const ReplyTo& to, TxMessage response) = 0;

  /// Makes progress: delivers complete requests and responses, accepts and finishes sessions. Runs in a tight loop; the
  /// idle case is the cheap one: no lock, no allocation, no system call except in tcp.
  /// @param message_max  1..limits().burst_messages_max.
  /// @return Messages delivered (requests and responses); 0 means idle.
  virtual uint32_t poll(MessageSink& sink, uint32_t message_max) = 0;

  /// Hands over everything that call() and reply() collected: one doorbell, one vectored write per socket, one wake-up
  /// per sleeping peer.
  virtual void flush() = 0;

  /// Publishes "asleep" and looks once more. Returns false if there is something to poll; then it is awake again. When
  /// every endpoint of a thread has returned true, the thread sleeps in its Sleeper, which the endpoints have told what
  /// to watch.
  virtual bool prepareSleep() = 0;
  /// Withdraws "asleep".
  virtual void awake() = 0;

  /// nullptr if the session is not open. Valid until the next poll().
  virtual const Peer* peer(SessionId session) const = 0;
  /// True if the peer's machine has acknowledged nothing of what was sent to it for about half a second, although it
  /// was sent again and again, and no error has ended the session. Then something drops the packets, and the session
  /// would notice late that they get through again. Called now and then for a session that is silent while calls wait.
  /// Also false where the transport ends such sessions by itself, or cannot know.
  virtual bool hasVanished(SessionId session) const {
    (void)session;
    return false;
  }
  /// Ends a session: its calls complete with SessionLost, unsent bytes are dropped, the peer is told.
  virtual void close(SessionId session) = 0;
  /// Sessions that are open, for metrics.
  virtual uint32_t sessionCount() const = 0;
  /// Sessions closed because of bytes that no honest peer sends, or that ended in the middle, for metrics.
  virtual uint64_t badSessionCount() const = 0;
  /// For metrics. The endpoint's thread.
  virtual BorrowedCounts borrowedCounts() const = 0;
  virtual SendCounts sendCounts() const { return {}; }
  virtual PacketCounts packetCounts() const { return {}; }
  /// Memory that is registered with hardware now, for messages of all sessions; 0: there is none. docs/rdma.md says
  /// what a session costs besides.
  virtual uint64_t registeredBytes() const { return 0; }

  /// Why a session never opened. It is valid only while the sink is told of the loss of that session.
  const OpenFailure& openFailure() const { return open_failure_; }

 protected:
  OpenFailure open_failure_;  ///< set right before the sink is told
};

/// Access rights of registered memory.
enum class Access : uint8_t { Local, RemoteRead, RemoteWrite };

/// A way to move messages between processes; makes endpoints.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual const Limits& limits() const = 0;
  /// The scheme of its locators.
  virtual std::string_view scheme() const = 0;
  /// Makes `bytes` at `base` (multiples of 64 KB) sendable without a copy. Once, at start, as few and as large as
  /// possible; stays until the transport is destroyed. A transport numbers its regions from 1 on. A registration that
  /// fails uses its number up, so that the same memory has the same number in all transports of a process.
  /// @return the number; 0: this transport has no use for registered memory
  /// Failure: NoSpace: the limit of locked memory; IoError.
  virtual Outcome<RegionId> registerMemory(std::byte* base, size_t bytes, Access access) = 0;
  /// The identity is read at each handshake, so that a server that has just got its id uses it from then on.
  virtual std::unique_ptr<Endpoint> makeEndpoint(const Identity& identity) = 0;
};

/// How a dispatch thread sleeps until one of its endpoints, an inbox or a deadline wants it.
class Sleeper {
 public:
  virtual ~Sleeper() = default;
  /// Sleeps until `deadline_ns` (runtime::Clock), wake(), or activity on what endpoints registered with it. Only on the
  /// sleeper's own thread.
  virtual void sleep(int64_t deadline_ns) = 0;
  /// Ends the current sleep or the next one. Any thread.
  virtual void wake() = 0;
  /// Wakes up when `fd` becomes readable, from now until forget(fd). Only on the sleeper's own thread.
  virtual void watch(int fd) = 0;
  virtual void forget(int fd) = 0;
};

}  // namespace ramcore::transport
