#include "sim/cluster/guard_counts.h"

#include "base/check.h"
#include "wire/opcodes.h"

namespace ramcore::sim {
namespace {

using wire::Opcode;

// Floors are per run. Without a floor are those that decide too seldom to count on.
struct Info {
  Guard guard;
  std::string_view name;
  double crash_free;
  double with_crashes;
  // The same, where settings are drawn.
  double drawn_crash_free;
  double drawn_with_crashes;
};

constexpr Info kInfos[kGuardCount] = {
    {Guard::ReadRefused, "reads refused", 60, 100, 400, 300},
    {Guard::WriteRefused, "mutations refused", 200, 300, 700, 800},
    {Guard::MultiRefused, "multi-operations refused", 0, 0, 0, 1},
    {Guard::ScanRefused, "scans refused", 8, 5, 40, 20},
    {Guard::TakeRefused, "takings refused", 0.3, 2, 0.7, 5},
    {Guard::DropRefused, "drops refused", 5, 0.5, 20, 5},
    {Guard::SplitRefused, "splits refused", 0.1, 0, 0.5, 0.07},
    {Guard::FreezeRefused, "freezes refused", 2, 0.3, 5, 1},
    {Guard::UnfreezeRefused, "unfreezes refused", 1.5, 0.3, 4, 0.9},
    {Guard::PullRefused, "fetchings of tablets refused", 0, 0, 0, 0},
    {Guard::SliceRefused, "slices refused to other servers", 0.01, 0, 0.04, 0.02},
    {Guard::RecoverRefused, "recoveries refused", 0, 0, 0, 0},
    {Guard::FenceRefused, "fences put off", 0, 0, 0, 1},
    {Guard::ReplicaWriteRefused, "replica writes refused", 0, 10, 0, 80},
    {Guard::ReplicaReadRefused, "replica reads refused", 0, 0, 0, 0.5},
    {Guard::ReplicaFetchRefused, "own replicas refused", 0, 0, 0, 0},
    {Guard::EnlistRefused, "servers not admitted", 1, 4, 3, 10},
    {Guard::RenewalRefused, "renewals of servers refused", 3, 1, 9, 5},
    {Guard::FloorRefused, "floors refused", 0, 20, 0, 60},
    {Guard::ClientRenewalRefused, "renewals of clients refused", 40, 15, 100, 90},
    {Guard::ClientCheckRefused, "questions about clients refused", 1, 0, 20, 3},
    {Guard::MasterCheckRefused, "questions about masters refused", 0, 0.3, 0, 2},
    {Guard::MoveRefused, "moves refused", 4, 50, 10, 300},
    {Guard::WaitForRoom, "waits for room in the log", 0, 500, 0, 1000},
    {Guard::RefusedNoSpace, "mutations refused, memory full", 0, 0, 0, 1},
    {Guard::RefusedNoHead, "appends without a head", 0, 500, 0.1, 1000},
    {Guard::SmallHead, "small heads", 0, 0, 0, 2},
    {Guard::ValueCopied, "values copied, not pinned", 0.1, 1, 0.7, 9},
    {Guard::SplitPutOff, "index splits put off", 0, 0, 0, 0},
    {Guard::RelocationRefused, "relocations of what had gone", 0, 0, 0, 0},
    {Guard::RecoveryWaits, "pauses of recoveries for room", 0, 0, 0, 2},
    {Guard::RecoveryJoinsEarly, "recoveries that join early", 0, 0, 0, 0.005},
    {Guard::AttemptAbandoned, "attempts given up, tablet moved", 1, 15, 5, 60},
    {Guard::IdentityLapsed, "identities of clients that ended", 0.03, 0, 80, 40},
    {Guard::CoordinatorStoodStill, "verdicts put off, stood still", 0, 0, 0, 0},
    {Guard::SilentTogether, "verdicts put off, many silent", 0, 2, 0.03, 9},
    {Guard::NobodyReplaces, "verdicts put off, no replacement", 0, 0.2, 0, 2},
    {Guard::NoRoomToReplace, "verdicts put off, no room", 0, 0, 0, 0},
    {Guard::OneRecoveryAtATime, "recoveries in turns", 0, 0, 0, 0.03},
    {Guard::RecoveryIncomplete, "recoveries that wait for replicas", 0, 0.7, 0, 4},
    {Guard::NotRecoveredThere, "tablets not recovered there", 0, 0.1, 0, 2},
    {Guard::PullFailed, "fetchings of tablets failed", 0.1, 0.5, 0.5, 4},
    {Guard::MoveGivenUp, "moves given up", 3, 4, 8, 20},
    {Guard::TooFewBackups, "writes refused, few backups", 0, 0.5, 0, 4},
    {Guard::MaybeShort, "storages taken for short", 0, 3, 0, 10},
    {Guard::ReplicaNotKept, "replicas not as they were", 0, 0, 0, 0},
    {Guard::OlderCopy, "coordinators that serve nobody", 0.3, 0.1, 1, 0.8},
};

constexpr bool isInOrder() {
  for (size_t i = 0; i < kGuardCount; ++i) {
    if (kInfos[i].guard != static_cast<Guard>(i)) return false;
  }
  return true;
}
static_assert(isInOrder());

const Info& infoOf(Guard guard) { return kInfos[static_cast<size_t>(guard)]; }

struct Refusal {
  Guard guard;
  Opcode opcode;
};

constexpr Refusal kRefusals[] = {
    {Guard::ReadRefused, Opcode::Read},
    {Guard::WriteRefused, Opcode::Write},
    {Guard::WriteRefused, Opcode::Remove},
    {Guard::WriteRefused, Opcode::Increment},
    {Guard::MultiRefused, Opcode::MultiRead},
    {Guard::MultiRefused, Opcode::MultiMutate},
    {Guard::ScanRefused, Opcode::Scan},
    {Guard::TakeRefused, Opcode::TakeTablet},
    {Guard::DropRefused, Opcode::DropTablet},
    {Guard::SplitRefused, Opcode::SplitTablet},
    {Guard::FreezeRefused, Opcode::FreezeTablet},
    {Guard::UnfreezeRefused, Opcode::UnfreezeTablet},
    {Guard::PullRefused, Opcode::PullTablet},
    {Guard::SliceRefused, Opcode::Pull},
    {Guard::SliceRefused, Opcode::PullResults},
    {Guard::RecoverRefused, Opcode::RecoverTablets},
    {Guard::FenceRefused, Opcode::FenceServer},
    {Guard::ReplicaWriteRefused, Opcode::WriteReplica},
    {Guard::ReplicaReadRefused, Opcode::ReadReplica},
    {Guard::ReplicaFetchRefused, Opcode::FetchReplica},
    {Guard::EnlistRefused, Opcode::Enlist},
    {Guard::RenewalRefused, Opcode::RenewServerLease},
    {Guard::FloorRefused, Opcode::RaiseFloor},
    {Guard::ClientRenewalRefused, Opcode::RenewClient},
    {Guard::ClientCheckRefused, Opcode::CheckClient},
    {Guard::MasterCheckRefused, Opcode::CheckMasters},
    {Guard::MoveRefused, Opcode::MoveTablet},
};

struct Line {
  Guard guard;
  std::string_view part;  ///< of the line
};

constexpr Line kLines[] = {
    {Guard::CoordinatorStoodStill, "the coordinator stood still for "},
    {Guard::SilentTogether, " servers are silent together"},
    {Guard::NobodyReplaces, " is silent, and nobody could take its place"},
    {Guard::NoRoomToReplace, " is silent, and the others have not enough room"},
    {Guard::OneRecoveryAtATime, "one after the other from now on"},
    {Guard::RecoveryIncomplete, " cannot be recovered yet: "},
    {Guard::NotRecoveredThere, " does not recover tablet "},
    {Guard::PullFailed, "pulling tablet "},
    {Guard::MoveGivenUp, " was given up: "},
    {Guard::TooFewBackups, "writes are refused while "},
    {Guard::MaybeShort, " frames may be short"},
    {Guard::ReplicaNotKept, " has not kept a replica of ours as it was"},
    {Guard::OlderCopy, "; nobody is served"},
};

}  // namespace

std::string_view name(Guard guard) { return infoOf(guard).name; }

void GuardCounts::add(const GuardCounts& other) {
  for (size_t i = 0; i < kGuardCount; ++i) decided[i] += other.decided[i];
}

void GuardCounts::addRefusals(const rpc::Dispatch& dispatch) {
  for (const Refusal& refusal : kRefusals) add(refusal.guard, dispatch.stats(refusal.opcode).failures.load());
}

void GuardCounts::addLine(std::string_view text) {
  for (const Line& line : kLines) {
    if (text.find(line.part) != std::string_view::npos) return add(line.guard, 1);
  }
}

double guardFloor(Guard guard, bool crashes, bool drawn) {
  const Info& info = infoOf(guard);
  if (drawn) return crashes ? info.drawn_with_crashes : info.drawn_crash_free;
  return crashes ? info.with_crashes : info.crash_free;
}

}  // namespace ramcore::sim
