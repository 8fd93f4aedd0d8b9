#include "wire/opcodes.h"

namespace ramcore::wire {

std::string_view name(Opcode opcode) {
  switch (opcode) {
    case Opcode::Ping:
      return "Ping";
    case Opcode::Read:
      return "Read";
    case Opcode::Write:
      return "Write";
    case Opcode::Remove:
      return "Remove";
    case Opcode::Increment:
      return "Increment";
    case Opcode::MultiRead:
      return "MultiRead";
    case Opcode::MultiMutate:
      return "MultiMutate";
    case Opcode::Scan:
      return "Scan";
    case Opcode::TakeTablet:
      return "TakeTablet";
    case Opcode::DropTablet:
      return "DropTablet";
    case Opcode::SplitTablet:
      return "SplitTablet";
    case Opcode::FreezeTablet:
      return "FreezeTablet";
    case Opcode::UnfreezeTablet:
      return "UnfreezeTablet";
    case Opcode::PullTablet:
      return "PullTablet";
    case Opcode::PullProgress:
      return "PullProgress";
    case Opcode::ServerState:
      return "ServerState";
    case Opcode::RecoverTablets:
      return "RecoverTablets";
    case Opcode::FenceServer:
      return "FenceServer";
    case Opcode::Pull:
      return "Pull";
    case Opcode::PullResults:
      return "PullResults";
    case Opcode::WriteReplica:
      return "WriteReplica";
    case Opcode::FreeReplica:
      return "FreeReplica";
    case Opcode::ReadReplica:
      return "ReadReplica";
    case Opcode::CheckReplicas:
      return "CheckReplicas";
    case Opcode::Enlist:
      return "Enlist";
    case Opcode::RenewServerLease:
      return "RenewServerLease";
    case Opcode::Goodbye:
      return "Goodbye";
    case Opcode::CreateTable:
      return "CreateTable";
    case Opcode::DropTable:
      return "DropTable";
    case Opcode::ListTables:
      return "ListTables";
    case Opcode::GetTablets:
      return "GetTablets";
    case Opcode::OpenClient:
      return "OpenClient";
    case Opcode::RenewClient:
      return "RenewClient";
    case Opcode::CloseClient:
      return "CloseClient";
    case Opcode::CheckClient:
      return "CheckClient";
    case Opcode::MoveTablet:
      return "MoveTablet";
    case Opcode::SplitTable:
      return "SplitTable";
    case Opcode::ClusterStatus:
      return "ClusterStatus";
    case Opcode::MigrationStatus:
      return "MigrationStatus";
    case Opcode::CancelMigration:
      return "CancelMigration";
    case Opcode::GetMembership:
      return "GetMembership";
    case Opcode::RaiseFloor:
      return "RaiseFloor";
    case Opcode::CheckMasters:
      return "CheckMasters";
  }
  return "Unknown";
}

}  // namespace ramcore::wire
