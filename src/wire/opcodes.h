#pragma once

#include <cstdint>
#include <string_view>

namespace ramcore::wire {

/// What a request asks for. Numbers are wire format: never reused, a dead one stays as a comment.
enum class Opcode : uint16_t {
  // Any process.
  Ping = 1,

  // Client -> master, the data plane: fixed structs of master_messages.h.
  Read = 16,
  Write = 17,
  Remove = 18,
  Increment = 19,
  MultiRead = 20,
  MultiMutate = 21,
  Scan = 22,

  // Coordinator -> master: control.proto.
  TakeTablet = 48,      ///< start to serve a tablet
  DropTablet = 49,      ///< stop to serve a tablet and forget its objects
  SplitTablet = 50,     ///< split a tablet in two, in place
  FreezeTablet = 51,    ///< refuse mutations, finish those in flight
  UnfreezeTablet = 52,  ///< a move was given up: the tablet takes mutations again
  PullTablet = 53,      ///< get ready for a tablet of another master
  PullProgress = 54,    ///< how far the PullTablet of a tablet has come
  ServerState = 55,     ///< what a server holds, for `ramcore status`
  AdoptTablet = 58,     ///< take over what the owner of a frozen tablet knows besides its objects
  LendTablet = 59,      ///< stop to answer for a tablet, whose new owner fetches its contents
  TabletLoads = 60,     ///< how large each tablet is, and what calls there are to it
  RecoverTablets = 57,  ///< fetch the contents of tablets from the replicas of a dead server's log

  // Coordinator -> backup: control.proto.
  FenceServer = 56,  ///< accept nothing from a dead master any more, and list what there is of its log

  // Master -> master: fixed structs of migration_messages.h.
  Pull = 64,           ///< one slice of a lent tablet
  PullResults = 65,    ///< the unacknowledged result records of a frozen tablet
  PullHashes = 66,     ///< the objects of some key hashes of a lent tablet, for which calls wait
  MeasureTablet = 67,  ///< how much room a tablet takes
  ListClients = 68,    ///< the clients of the owner of a tablet

  // Master or recovery master -> backup: fixed structs of replica_messages.h.
  WriteReplica = 80,  ///< bytes of a segment
  FreeReplica = 81,   ///< a segment is not needed any more
  ReadReplica = 82,   ///< entries of some hash ranges, from a dead master's segment
  FetchReplica = 83,  ///< bytes of the sender's own segment, whose memory is damaged

  // Backup -> master: control.proto.
  CheckReplicas = 84,  ///< which replicas of the backup's former life are not needed; which others it has lost

  // Any -> coordinator: control.proto.
  Enlist = 96,
  RenewServerLease = 97,
  Goodbye = 98,
  CreateTable = 99,
  DropTable = 100,
  ListTables = 101,
  GetTablets = 102,
  OpenClient = 103,
  RenewClient = 104,
  CloseClient = 105,
  CheckClient = 106,  ///< a master asks whether a client's lease is valid
  MoveTablet = 107,
  SplitTable = 108,
  ClusterStatus = 109,
  MigrationStatus = 110,
  CancelMigration = 111,
  GetMembership = 112,     ///< the servers that are alive
  RaiseFloor = 113,        ///< a master says that older open replicas of its log do not count
  CheckMasters = 114,      ///< a backup asks whether the replicas of these masters are still needed
  ListMigrations = 116,    ///< all moves that are under way, and the last ones
  ClusterLoads = 118,      ///< TabletLoads of all servers
  SetMigrationRate = 117,  ///< how fast the contents of a tablet that moves may come
  AcceptLoss = 115,        ///< an operator lets a recovery go on without what is missing of a dead server's log
};
inline constexpr uint16_t kOpcodeCount = 128;

/// The name for metrics and messages ("MultiRead"); "Unknown" for a number that is none.
std::string_view name(Opcode opcode);

}  // namespace ramcore::wire
