#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/pacer.h"
#include "client/retry_policy.h"
#include "client/tablet_map.h"
#include "ramcore/types.h"
#include "rpc/caller.h"
#include "rpc/coordinators.h"
#include "runtime/task.h"
#include "wire/server_numbers.h"

namespace ramcore::client {

/// One end of a session, as the process at the other end sees it.
struct OpenSession {
  transport::Role peer_role{};  ///< as that process reports it; no role if this process does not know the value
  uint64_t peer_id = 0;         ///< 0: the peer had no id when the session was opened
  std::string peer_address;     ///< for people
};

/// The sessions of a process over one of its transports.
struct TransportSessions {
  std::string name;
  uint32_t sessions = 0;          ///< how many are open
  std::vector<OpenSession> open;  ///< some of them, if they were asked for
};

/// A server as the coordinator knows it, with what it said about itself if it answered.
struct ServerStatus : wire::ServerNumbers {
  ServerId id;
  std::string name;
  std::vector<std::string> locators;
  bool is_alive = false;
  bool has_answered = false;
  std::vector<TransportSessions> transports;
};

/// The recovery of a dead server whose tablets are not all back.
struct RecoveryProgress {
  ServerId server;
  std::string server_name;
  uint32_t tablets_left = 0;
  std::vector<SegmentId> missing;  ///< segments of its log that no server offers as a whole; only the first ones
  uint64_t missing_count = 0;
  std::vector<ServerId> away;        ///< servers that may have them; only the first ones
  std::string text;                  ///< what the recovery waits for, for a person
  std::vector<int64_t> away_for_ns;  ///< how long each server in `away` has been silent; -1: not known
  /// The replicas of what is recovered find no room: this number of further servers, with missing_storage_bytes of
  /// storage each, is certainly enough. 0: they find room, or nothing can be said.
  uint32_t missing_servers = 0;
  uint64_t missing_storage_bytes = 0;

  /// Where the list of what belongs to the log comes from.
  enum class End : uint8_t { Unknown, Known, OldDigest, NoDigest };
  uint64_t loss_token = 0;  ///< for acceptLoss(); 0: there is nothing to accept now
  End loss_end = End::Unknown;
  SegmentId loss_list;            ///< the segment whose digest lists the members of the log; 0: there is none
  uint64_t segments_whole = 0;    ///< members that can be brought back
  uint64_t segments_in_part = 0;  ///< members of `missing` of which the beginning can be brought back
  bool loss_accepted = false;     ///< true: what is left is being brought back
};

/// A living server that does not renew its lease.
struct ServerSilence {
  /// Why it is not declared dead yet.
  enum class Wait : uint8_t { Unknown, Short, Together, Replacers, Room };
  ServerId server;
  int64_t silent_ns = -1;  ///< -1: since before the coordinator started
  Wait wait = Wait::Unknown;
};

struct ClusterStatus {
  ClusterId cluster;
  std::string name;
  std::vector<ServerStatus> servers;
  std::vector<TableMap> tables;
  std::vector<RecoveryProgress> recoveries;
  std::vector<ServerSilence> silences;
  std::vector<TransportSessions> coordinator_transports;
  bool is_coordinator_full = false;  ///< the disk of the coordinator's storage is full: nothing can be changed
};

struct MigrationStatus {
  enum class State : uint8_t { Unknown, Running, Done, Cancelled, Failed };
  State state = State::Unknown;
  uint64_t objects = 0;
  uint64_t bytes = 0;
  double fraction = 0;      ///< 0..1 of the tablet's hash range
  std::string reason;       ///< of a failure; while it runs: what it waits for, if that does not come
  std::string step;         ///< while it runs, for a person
  bool lacks_room = false;  ///< of a failure: the destination has no room
};

/// A move that is under way, or one of the last that are over.
struct MigrationRecord : MigrationStatus {
  uint64_t migration = 0;
  TabletId tablet;
  TableId table;
  ServerId source;
  ServerId destination;
  int64_t age_ns = -1;       ///< since it was asked for; -1: before the coordinator started
  int64_t over_for_ns = -1;  ///< of one that is over: since then; -1: since before the coordinator started
  uint64_t rate_max = 0;     ///< bytes a second at the most; 0: any
};

/// What a server says of one of its tablets.
struct TabletLoad {
  ServerId server;
  TabletId tablet;
  uint64_t objects = 0;  ///< this and bytes: estimated
  uint64_t bytes = 0;
  uint64_t calls = 0;           ///< since the server has the tablet
  std::vector<KeyHash> called;  ///< key hashes of some of the last calls, ascending
  std::string hot_key;          ///< that half of the calls or more are for; empty: there is none
};

/// How long a server's answers to the calls of clients have taken since it started: counts of LogLinearHistogram.
struct ServerCalls {
  ServerId server;
  std::map<uint32_t, uint64_t> counts;  ///< by bucket, each below LogLinearHistogram::kBucketCount
};

/// What the servers that answered say.
struct ClusterLoads {
  std::vector<TabletLoad> tablets;
  std::vector<ServerCalls> calls;
};

/// The coordinator's calls, typed. Each call is repeated until it is answered or its deadline passes, at each
/// coordinator in turn. Answers are checked before they are handed out; one that makes no sense gives Corrupt.
///
/// For calls that change something: OutcomeUnknown if an attempt went out, no answer to it came, and what came later
/// does not tell whether that attempt was carried out.
///
/// Threads: the dispatch's.
class CoordinatorStub {
 public:
  /// @param coordinators  at least one; `id` 0. Each is asked in turn until one answers.
  CoordinatorStub(rpc::Caller& caller, Pacer& pacer, std::vector<rpc::PeerAddress> coordinators,
                  const RetrySettings& retry, runtime::Random random);

  /// Finds out whether a coordinator answers and accepts this process; asks for nothing else. A coordinator answers it
  /// at once, also while it waits for its servers to speak. Until a coordinator has answered, this and every other call
  /// ends at once with Refused or Unreachable if each of them refuses this process, is no coordinator, or has a name
  /// without an address: waiting does not help there.
  runtime::Task<Status> ping(int64_t deadline_ns);
  /// The locators of the coordinators, for a person.
  std::string places() const { return coordinators_.toString(); }
  /// True if there is a session with one of them.
  bool isReached() const { return coordinators_.isAnyOpen(caller_); }
  /// Why no coordinator serves this process, as it was found last: causes and remedies for a person, on one line. Only
  /// after a call has ended with Unreachable, Refused or DeadlineExceeded.
  std::string whyNoAnswer() const;

  /// All attempts carry one number, by which the coordinator recognizes the table that a first attempt has created.
  /// @param tablet_count  0: one per server.
  runtime::Task<Result<TableId>> createTable(std::string name, uint32_t tablet_count, int64_t deadline_ns,
                                             Durability durability = Durability::Buffered);
  /// Drops a table by its id, so that no attempt drops a table of the same name that is created meanwhile. NoSuchTable:
  /// the table was gone before the first attempt.
  runtime::Task<Status> dropTable(TableId table, int64_t deadline_ns);
  runtime::Task<Result<std::vector<TableInfo>>> listTables(int64_t deadline_ns);
  /// NoSuchTable if there is none.
  runtime::Task<Result<TableMap>> tabletsOf(std::string table_name, int64_t deadline_ns);
  runtime::Task<Result<TableMap>> tabletsOf(TableId table, int64_t deadline_ns);
  runtime::Task<Result<std::vector<TableMap>>> allTablets(int64_t deadline_ns);

  struct Lease {
    ClientId client;
    int64_t lease_ns = 0;  ///< counted from when the request was sent
    int64_t sent_ns = 0;   ///< of the attempt that was answered
  };
  /// @param nonce  the same in every attempt to open one lease.
  runtime::Task<Result<Lease>> openClient(uint64_t nonce, int64_t deadline_ns);
  /// LeaseExpired if it is over.
  runtime::Task<Result<Lease>> renewClient(ClientId client, Sequence acknowledged, int64_t deadline_ns);
  runtime::Task<Status> closeClient(ClientId client, int64_t deadline_ns);

  /// Gives the migration's number.
  /// @param rate_max  bytes a second at which its contents come at the most; 0: any
  runtime::Task<Result<uint64_t>> moveTablet(TabletId tablet, ServerId destination, int64_t deadline_ns,
                                             uint64_t rate_max = 0);
  struct Halves {
    TabletId lower;
    TabletId upper;
  };
  runtime::Task<Result<Halves>> splitTable(TableId table, KeyHash at, int64_t deadline_ns);
  runtime::Task<Result<MigrationStatus>> migrationStatus(uint64_t migration, int64_t deadline_ns);
  /// NoSpace, Cancelled: its contents arrive, and it cannot be taken back now; migrationStatus() says why. BadRequest: it
  /// is over, or everything has arrived.
  runtime::Task<Status> cancelMigration(uint64_t migration, int64_t deadline_ns);
  /// Moves that are under way, and the last ones that are over, in the order in which they were asked for.
  runtime::Task<Result<std::vector<MigrationRecord>>> listMigrations(int64_t deadline_ns);
  /// Changes how fast the contents of a move come. BadRequest: it is over; NotFound.
  runtime::Task<Status> setMigrationRate(uint64_t migration, uint64_t rate_max, int64_t deadline_ns);
  /// @param lists_sessions  true: the answer also lists sessions, and not only their numbers; it is long in a large
  ///                        cluster
  runtime::Task<Result<ClusterStatus>> clusterStatus(int64_t deadline_ns, bool lists_sessions = false);
  /// How large tablets are, what calls there are to them, and how long calls take: of the servers that answered.
  /// @param only_calls  nothing about tablets, which takes the servers longer to find out
  runtime::Task<Result<ClusterLoads>> clusterLoads(int64_t deadline_ns, bool only_calls = false);
  /// Makes the recovery of a dead server go on without what is missing of its log.
  /// @param token  RecoveryProgress::loss_token of what is accepted
  /// Failure: WrongVersion: the situation has changed since; NotFound: there is no such recovery.
  runtime::Task<Status> acceptLoss(ServerId dead, uint64_t token, int64_t deadline_ns);

 private:
  enum class Effect : uint8_t {
    None,        ///< repeating it changes nothing
    Idempotent,  ///< repeating it gives the same again
    Removal,     ///< repeating it finds nothing: NoSuchTable says that an attempt before was carried out
    Once,        ///< an answer to a repetition does not tell what the first attempt did
  };
  template <typename RequestMessage, typename ResponseMessage>
  runtime::Task<Status> call(wire::Opcode opcode, RequestMessage request, ResponseMessage& response, Effect effect,
                             int64_t deadline_ns, int64_t* sent_ns = nullptr);

  rpc::Caller& caller_;
  Pacer& pacer_;
  /// Whether another attempt, at this or another coordinator, makes sense after this outcome of one.
  bool isWorthRepeating(Status status, const rpc::PeerAddress& asked) const;

  rpc::Coordinators coordinators_;
  bool has_answered_ = false;
  const RetrySettings retry_;
  runtime::Random random_;
};

}  // namespace ramcore::client
