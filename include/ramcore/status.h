#pragma once

#include <cstdint>
#include <string_view>

namespace ramcore {

/// The outcome of an operation: as programs get it, as `Result<T>` carries it, and as it travels on the wire.
///
/// The client library handles the groups "try elsewhere" and "try again" by itself. Of these a program sees only
/// NoSpace, TooFewReplicas, CoordinatorFull and StateBehind, as the reason why its timeout passed. docs/client.md has a
/// table of what a call may end with.
///
/// A new value exists only if some caller acts on it differently; its comment says how. The numbers are wire format:
/// they are never reused, and a number that is not used any more stays as a comment.
enum class [[nodiscard]] Status : uint16_t {
  Ok = 0,

  // Answers of the data model: the call was carried out (or refused) and will give the same answer when repeated.

  /// There is no object with this key.
  NotFound = 1,
  /// The condition "must not exist" failed. The present version is in the answer.
  ObjectExists = 2,
  /// The condition on the version failed. The present version is in the answer: read again, or decide by it.
  WrongVersion = 3,
  /// The coordinator does not know the table's id or name: the table was dropped, or never existed.
  NoSuchTable = 4,
  /// A table of this name exists, so it was not created. Open it, or choose another name.
  TableExists = 5,
  /// An increment of a value that does not have 8 bytes.
  TypeMismatch = 6,
  /// A key or value is beyond the limits of docs/formats.md, an object does not fit into a segment of its server, or a
  /// message is too long.
  TooLarge = 7,
  /// The request is malformed or out of range. Repeating it is useless.
  BadRequest = 8,
  /// A change may have taken effect, or may yet. Only the application can decide: read and compare, or repeat with a
  /// condition.
  OutcomeUnknown = 9,
  /// There are as many tables, tablets, servers or clients as a cluster may have.
  LimitReached = 10,

  // Try elsewhere: the caller asks the coordinator, and repeats the call.

  /// The tablet is not at this server.
  WrongServer = 20,
  /// The request names an older or newer epoch of the tablet.
  StaleEpoch = 21,
  /// Another incarnation of the server listens at this address.
  WrongServerId = 22,

  // Try again: the caller waits, and repeats the call.

  /// The process is busy, or the tablet is in transition.
  RetryLater = 30,
  /// Memory is full: reads and removes go on, writes are refused until something is freed.
  NoSpace = 31,
  /// The server could not confirm the client's lease or its own yet.
  LeaseUnknown = 32,
  /// This coordinator is not, or no longer, the one in charge.
  NotLeader = 33,
  /// Fewer servers live, or have room, than `--min-replicas` demands replicas on. Writes wait for them.
  TooFewReplicas = 34,
  /// The disk of the coordinator's storage is full: tables and servers cannot change meanwhile.
  CoordinatorFull = 35,
  /// The coordinator's state is an older copy than the one that servers have heard of. It serves no requests.
  StateBehind = 36,

  // The call cannot be completed on this session. The client library gives none of these for a mutation that may have
  // happened: that is OutcomeUnknown.

  /// The peer is gone. The client library never gives it to a program.
  SessionLost = 40,
  /// No answer came in time. A mutation has not happened and will not.
  DeadlineExceeded = 41,
  /// The caller gave up.
  Cancelled = 42,
  /// No connection could be made.
  Unreachable = 43,
  /// The handshake failed: secret, cluster, protocol version or role.
  Refused = 44,
  /// This process is stopping; of a client: it is being destroyed.
  Shutdown = 45,
  /// The client was made by another process, from which this one was forked. Make a client after the fork.
  Forked = 46,

  // Duplicates and leases.

  /// The client has acknowledged this sequence before: this is a late attempt of a call that is over.
  StaleSequence = 60,
  /// The client's lease is over. It has to get a new identity.
  LeaseExpired = 61,
  /// The coordinator has declared this server dead. That is final: the server stops serving.
  Fenced = 62,

  // Storage and configuration.

  /// Bytes on disk, in memory or on the wire do not match their checksum, or make no sense.
  Corrupt = 80,
  /// The operating system refused something. The message or the trace line has the cause.
  IoError = 81,
  /// A port, file or directory belongs to another process.
  InUse = 82,
  /// The data or the peer belongs to another cluster.
  WrongCluster = 83,
  /// The format or the protocol has a newer or older version.
  WrongFormat = 84,
  /// A flag, option, file or locator makes no sense.
  BadConfig = 85,
  /// A library that Ramcore depends on broke a promise.
  Internal = 99,
};

/// Gives the name of a status, for messages. Any thread may call it.
/// @return such as "NotFound"; never empty: "Unknown" for a number that has no name. The text is constant and lives as
///         long as the process
std::string_view name(Status status);

/// Says whether a client may repeat the call, after it has asked the coordinator or has waited, without the application
/// noticing.
/// @return true for the groups "try elsewhere" and "try again"
constexpr bool isRetryable(Status status) {
  const auto n = static_cast<uint16_t>(status);
  return n >= 20 && n < 40;
}

}  // namespace ramcore
