#include "wire/opcodes.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace ramcore::wire {
namespace {

TEST(Opcodes, NumbersAndNamesOfTheWire) {
  const std::map<uint16_t, std::string> expected = {{1, "Ping"},
                                                    {16, "Read"},
                                                    {17, "Write"},
                                                    {18, "Remove"},
                                                    {19, "Increment"},
                                                    {20, "MultiRead"},
                                                    {21, "MultiMutate"},
                                                    {22, "Scan"},
                                                    {48, "TakeTablet"},
                                                    {49, "DropTablet"},
                                                    {50, "SplitTablet"},
                                                    {51, "FreezeTablet"},
                                                    {52, "UnfreezeTablet"},
                                                    {53, "PullTablet"},
                                                    {54, "PullProgress"},
                                                    {55, "ServerState"},
                                                    {56, "FenceServer"},
                                                    {57, "RecoverTablets"},
                                                    {58, "AdoptTablet"},
                                                    {59, "LendTablet"},
                                                    {60, "TabletLoads"},
                                                    {64, "Pull"},
                                                    {65, "PullResults"},
                                                    {66, "PullHashes"},
                                                    {67, "MeasureTablet"},
                                                    {68, "ListClients"},
                                                    {80, "WriteReplica"},
                                                    {81, "FreeReplica"},
                                                    {82, "ReadReplica"},
                                                    {83, "FetchReplica"},
                                                    {84, "CheckReplicas"},
                                                    {96, "Enlist"},
                                                    {97, "RenewServerLease"},
                                                    {98, "Goodbye"},
                                                    {99, "CreateTable"},
                                                    {100, "DropTable"},
                                                    {101, "ListTables"},
                                                    {102, "GetTablets"},
                                                    {103, "OpenClient"},
                                                    {104, "RenewClient"},
                                                    {105, "CloseClient"},
                                                    {106, "CheckClient"},
                                                    {107, "MoveTablet"},
                                                    {108, "SplitTable"},
                                                    {109, "ClusterStatus"},
                                                    {110, "MigrationStatus"},
                                                    {111, "CancelMigration"},
                                                    {112, "GetMembership"},
                                                    {113, "RaiseFloor"},
                                                    {115, "AcceptLoss"},
                                                    {116, "ListMigrations"},
                                                    {117, "SetMigrationRate"},
                                                    {118, "ClusterLoads"},
                                                    {114, "CheckMasters"}};
  std::map<uint16_t, std::string> found;
  for (uint32_t number = 0; number < 0x10000; ++number) {
    const auto text = name(static_cast<Opcode>(number));
    if (text != "Unknown") found.emplace(static_cast<uint16_t>(number), text);
  }
  EXPECT_EQ(found, expected);
  EXPECT_LT(found.rbegin()->first, kOpcodeCount) << "tables by opcode have no place for it";
}

}  // namespace
}  // namespace ramcore::wire
