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
  SplitTablet = 50,     ///< cut a tablet in two, in place
  FreezeTablet = 51,    ///< refuse mutations, finish those in flight
  UnfreezeTablet = 52,  ///< the move was given up
  PullTablet = 53,      ///< fetch a tablet's contents from another master
  PullProgress = 54,    ///< how far that is
  ServerState = 55,     ///< what a server holds, for `rc status`

  // Master -> master: fixed structs of migration_messages.h.
  Pull = 64,         ///< one slice of a frozen tablet
  PullResults = 65,  ///< its unacknowledged result records

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
};
inline constexpr uint16_t kOpcodeCount = 128;

/// The name for metrics and messages ("MultiRead"); "Unknown" for a number that is none.
std::string_view name(Opcode opcode);

}  // namespace ramcore::wire
