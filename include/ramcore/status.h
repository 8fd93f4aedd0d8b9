#pragma once

#include <cstdint>
#include <string_view>

namespace ramcore {

/// The outcome of an operation, as programs get it, as it travels on the wire and through `Result<T>`.
///
/// The client library deals with the groups "try elsewhere" and "try again" by itself; a program sees one of them only
/// as the last reason when its deadline passed. A new value exists only if some caller acts on it differently; its
/// comment says how. Numbers are wire format: they are never reused, a dead one stays as a comment.
enum class [[nodiscard]] Status : uint16_t {
  Ok = 0,

  // Answers of the data model: the call was carried out (or refused) and will give the same answer when repeated.
  NotFound = 1,        ///< no object with this key
  ObjectExists = 2,    ///< condition "must not exist" failed
  WrongVersion = 3,    ///< condition on the version failed; the current version is in the answer
  NoSuchTable = 4,     ///< the table id or name is unknown to the coordinator
  TableExists = 5,     ///< create: another table has this name
  TypeMismatch = 6,    ///< increment of a value that is not 8 bytes
  TooLarge = 7,        ///< key or value beyond the limits of docs/formats.md
  BadRequest = 8,      ///< malformed or out of range; repeating it is useless
  OutcomeUnknown = 9,  ///< a mutation may have taken effect, or may yet; only the application can decide
  LimitReached = 10,   ///< as many tables, tablets, servers or clients as a cluster may have

  // Try elsewhere: the caller refreshes what it knows and repeats.
  WrongServer = 20,    ///< the tablet is not here; ask the coordinator
  StaleEpoch = 21,     ///< the request names an older or newer epoch of the tablet; ask the coordinator
  WrongServerId = 22,  ///< another incarnation of the server listens at this address; ask the coordinator

  // Try again: the caller waits and repeats.
  RetryLater = 30,      ///< busy, or the tablet is in transition
  NoSpace = 31,         ///< memory is full: removes and reads go on, writes are refused until something is freed
  LeaseUnknown = 32,    ///< the server could not confirm the client's or its own lease yet
  NotLeader = 33,       ///< this coordinator is not (or no longer) the one in charge
  TooFewReplicas = 34,  ///< fewer servers live, or have place, than --min-replicas asks copies on: writes wait for them
  CoordinatorFull = 35,  ///< the disk of the coordinator's storage is full: tables and servers cannot change meanwhile
  StateBehind = 36,      ///< the coordinator's state is an older copy than what servers have heard: it serves nobody

  // The call cannot be completed on this session.
  // The client library gives none of these for a mutation that may have happened: that is OutcomeUnknown.
  SessionLost = 40,       ///< the peer is gone; programs never see it
  DeadlineExceeded = 41,  ///< no answer in time; a mutation has not happened and will not
  Cancelled = 42,         ///< the caller gave up
  Unreachable = 43,       ///< no connection could be made
  Refused = 44,           ///< the handshake failed: secret, cluster, protocol version or role
  Shutdown = 45,          ///< this process is stopping
  Forked = 46,            ///< the client was made by the parent of this process: make another one after the fork

  // Duplicates and leases.
  StaleSequence = 60,  ///< the sequence was acknowledged by the client before: a late attempt of a call that is over
  LeaseExpired = 61,   ///< the client's lease is over: get a new identity
  Fenced = 62,         ///< the coordinator has declared this server dead; final, stop serving

  // Storage and configuration.
  Corrupt = 80,       ///< bytes on disk, in memory or on the wire fail their checksum
  IoError = 81,       ///< the operating system refused; the trace line has errno
  InUse = 82,         ///< a port, file or directory belongs to another process
  WrongCluster = 83,  ///< data or peer of another cluster
  WrongFormat = 84,   ///< a newer or older format or protocol version
  BadConfig = 85,     ///< a flag, file or locator makes no sense
  Internal = 99,      ///< a broken promise of a library we depend on
};

/// The name of a status for messages ("NotFound"). Never empty; unknown numbers give "Unknown".
std::string_view name(Status status);

/// True if a client may repeat the call (after refreshing or waiting) without the application noticing.
constexpr bool isRetryable(Status status) {
  const auto n = static_cast<uint16_t>(status);
  return n >= 20 && n < 40;
}

}  // namespace ramcore
