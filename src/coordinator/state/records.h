#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/durability.h"
#include "base/ids.h"

namespace ramcore::coordinator {

using MigrationId = Id<struct MigrationIdTag, uint64_t>;

/// Open replicas of a server's log below its floor do not count in its recovery.
struct ReplicaFloor {
  SegmentId segment;
  uint64_t replica_epoch = 0;
  auto operator<=>(const ReplicaFloor&) const = default;
};

/// How far a survivor was told to read a segment of a dead server's log of which only open replicas were read, or its
/// end. What a survivor has replayed stays in its own log, so another reading may find more, and not less.
struct ReadSegment {
  static constexpr uint32_t kClosed = UINT32_MAX;  ///< only closed replicas have all that was read
  static constexpr uint32_t kCut = 0;              ///< the end, of which nothing was replayed

  SegmentId segment;
  uint32_t length_bytes = kCut;
  bool operator==(const ReadSegment&) const = default;
};

/// What an operator has agreed to lose of a dead server's log.
struct AcceptedLoss {
  uint64_t token = 0;              ///< LogSalvage::token() of what was shown; 0: nothing was accepted
  SegmentId list;                  ///< the segment whose digest said what belongs to the log
  std::vector<SegmentId> whole;    ///< segments to be brought back whole, ascending
  std::vector<SegmentId> in_part;  ///< segments to be brought back as far as they go
};

/// Maximum number of replicas of its log that a server can be configured to have.
inline constexpr uint32_t kReplicasMax = 8;

/// One server process.
struct Server {
  ServerId id;
  std::vector<std::string> locators;
  std::string name;
  uint64_t memory_bytes = 0;
  uint32_t format_version = 0;
  uint64_t nonce = 0;
  bool alive = true;  ///< false: declared dead, which is final
  bool keeps_replicas = false;
  std::string failure_domain;  ///< empty: a domain of its own
  uint32_t replicas = 0;       ///< replicas of its log, by its configuration
  uint32_t min_replicas = 0;   ///< with fewer it takes no writes
  bool local_replica = false;  ///< its only replica is in its own storage
  ReplicaFloor floor;
  bool recovered = false;  ///< dead, and nothing of its log is needed any more; final
  bool returned = false;   ///< dead, and its storage came back under another id
  ServerId former;  ///< the server that had used its storage last when it opened that; none: it found no name there
  uint64_t storage = 0;        ///< its storage's own name, drawn when that was new; 0: it has no storage, or no name
  AcceptedLoss accepted_loss;  ///< only for dead servers
  /// Only for dead servers: the end of the log, and before it the former end if that was read open. Empty: no survivor
  /// has read it.
  std::vector<ReadSegment> read;
};

/// One log that holds contents of a tablet, from a segment on.
struct LogRef {
  ServerId server;
  SegmentId first_segment;
  bool operator==(const LogRef&) const = default;
};

enum class TabletState : uint8_t {
  Normal = 1,
  Moving = 2,
  Splitting = 3,
  Recovering = 4,  ///< the owner is dead; the recovery master fetches the contents, under last_epoch
  /// Granted to a recovery master, which is the owner now but has not confirmed yet that it answers for the tablet.
  Taking = 5,
};

/// A range of a table's key hashes and the server that answers for it.
struct Tablet {
  TabletId id;
  TableId table;
  HashRange range;
  TabletEpoch epoch;
  TabletEpoch last_epoch;  ///< the highest that any server was ever told for this tablet; the next one is higher
  TabletState state = TabletState::Normal;
  ServerId owner;
  std::vector<LogRef> logs;    ///< one; or two while it is handed over: the former owner's, then the owner's
  ServerId recovery_master{};  ///< while Recovering
  Durability durability = Durability::Buffered;  ///< durability of its table; not stored with it
  bool operator==(const Tablet&) const = default;

  /// The part of its contents that is in the log of `server`; nullptr: none.
  const LogRef* logOf(ServerId server) const {
    const auto at =
        std::find_if(logs.begin(), logs.end(), [server](const LogRef& log) { return log.server == server; });
    return at == logs.end() ? nullptr : &*at;
  }
  /// Whether its contents are in two logs, because it is being handed over: that of the former owner, and that of the
  /// present one.
  bool isLent() const { return logs.size() == 2; }
};

enum class TableState : uint8_t { Creating = 1, Ready = 2, Dropping = 3 };

struct Table {
  TableId id;
  std::string name;
  TableState state = TableState::Creating;
  // While creating: tablet i has the id first_tablet + i, is on owners[i], and is under epochs[i].
  TabletId first_tablet;
  std::vector<ServerId> owners;
  std::vector<TabletEpoch> epochs;
  /// The nonce of the call that created it, by which a repetition of that call is distinguished from another call.
  uint64_t nonce = 0;
  Durability durability = Durability::Buffered;

  /// While creating: true if `tablet` is one of those that it will have.
  bool intends(TabletId tablet) const {
    return tablet >= first_tablet && tablet.value - first_tablet.value < owners.size();
  }
};

enum class MigrationStep : uint8_t {
  Copying = 1,     ///< only in stores of earlier versions: the move is given up
  HandedOver = 2,  ///< only in stores of earlier versions: as Arrived
  GivingUp = 3,    ///< the source takes mutations again, the destination forgets
  Done = 4,
  Cancelled = 5,
  Failed = 6,
  Preparing = 7,   ///< the destination gets ready; the source serves
  Freezing = 8,    ///< the source is frozen; the destination takes over what there is besides objects
  Arriving = 9,    ///< the destination owns the tablet, and its contents arrive; they are in both logs
  Arrived = 10,    ///< the contents are in the destination's log alone; the source drops the tablet
  Returning = 11,  ///< the source owns the tablet again, and what was changed at the destination comes back; the
                   ///< contents are in both logs
};

/// For people.
constexpr std::string_view textOf(MigrationStep step) {
  switch (step) {
    case MigrationStep::Preparing:
      return "preparing";
    case MigrationStep::Freezing:
      return "handing over";
    case MigrationStep::Arriving:
      return "arriving";
    case MigrationStep::Returning:
      return "returning";
    case MigrationStep::HandedOver:
    case MigrationStep::Arrived:
      return "arrived";
    case MigrationStep::Copying:
    case MigrationStep::GivingUp:
      return "giving up";
    case MigrationStep::Done:
    case MigrationStep::Cancelled:
    case MigrationStep::Failed:
      return "over";
  }
  return "unknown";
}

/// The move of one tablet.
struct Migration {
  MigrationId id;
  TabletId tablet;
  TableId table;
  ServerId source;
  ServerId destination;
  TabletEpoch source_epoch;       ///< the epoch under which the source froze it
  TabletEpoch destination_epoch;  ///< the epoch under which the destination gets it
  MigrationStep step = MigrationStep::Preparing;
  SegmentId destination_segment{};  ///< from Freezing on: where the destination's log has its contents from
  TabletEpoch return_epoch{};       ///< under which the source gets it back, once that was asked for
  bool cancelled = false;           ///< it is given up because that was asked for
  std::string reason;               ///< reason of a failure, for a person
  uint64_t objects = 0;
  uint64_t bytes = 0;
  uint64_t rate_max = 0;    ///< bytes a second; 0: any
  bool lacks_room = false;  ///< it failed because the destination has no room

  /// The same with the roles swapped, to hand the tablet back.
  Migration reversed() const {
    Migration back = *this;
    back.source = destination;
    back.destination = source;
    back.source_epoch = destination_epoch;
    back.destination_epoch = return_epoch;
    return back;
  }
  bool isOver() const {
    return step == MigrationStep::Done || step == MigrationStep::Cancelled || step == MigrationStep::Failed;
  }
};

/// The split of one tablet in place. Under way as long as it is stored.
struct Split {
  TabletId tablet;
  TabletId lower;
  TabletId upper;
  KeyHash at_hash = 0;  ///< first of the upper half
  TabletEpoch epoch;    ///< epoch of both halves
};

}  // namespace ramcore::coordinator
