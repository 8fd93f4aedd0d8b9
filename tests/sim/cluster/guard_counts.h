#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "rpc/dispatch.h"

namespace ramcore::sim {

/// A place where the product refuses, waits or gives up to protect its promises. That a fault happened says little;
/// that such a place has reacted says that the fault met its guard.
enum class Guard : uint8_t {
  // Requests that were answered with something else than Ok: ramcore_request_failures_total.
  ReadRefused,
  WriteRefused,
  MultiRefused,
  ScanRefused,
  TakeRefused,
  DropRefused,
  SplitRefused,
  FreezeRefused,
  UnfreezeRefused,
  PullRefused,
  SliceRefused,
  RecoverRefused,
  FenceRefused,
  ReplicaWriteRefused,
  ReplicaReadRefused,
  ReplicaFetchRefused,
  EnlistRefused,
  RenewalRefused,
  FloorRefused,
  ClientRenewalRefused,
  ClientCheckRefused,
  MasterCheckRefused,
  MoveRefused,
  // Other metrics of servers.
  WaitForRoom,
  RefusedNoSpace,
  RefusedNoHead,
  SmallHead,
  ValueCopied,
  SplitPutOff,
  RelocationRefused,
  RecoveryWaits,
  RecoveryJoinsEarly,
  // Counted by clients.
  AttemptAbandoned,
  IdentityLapsed,
  // Lines of logs.
  CoordinatorStoodStill,
  SilentTogether,
  NobodyReplaces,
  NoRoomToReplace,
  OneRecoveryAtATime,
  RecoveryIncomplete,
  NotRecoveredThere,
  PullFailed,
  MoveGivenUp,
  TooFewBackups,
  MaybeShort,
  ReplicaNotKept,
  OlderCopy,
};
inline constexpr size_t kGuardCount = 47;

/// For people, in totals.
std::string_view name(Guard guard);

/// How often each has decided.
struct GuardCounts {
  std::array<uint64_t, kGuardCount> decided{};

  void add(Guard guard, uint64_t count) { decided[static_cast<size_t>(guard)] += count; }
  void add(const GuardCounts& other);
  /// A process, at its end.
  void addRefusals(const rpc::Dispatch& dispatch);
  /// A line of a process's log.
  void addLine(std::string_view line);
};

/// At least so many decisions in a run, on average.
/// @param drawn  its settings were
double guardFloor(Guard guard, bool crashes, bool drawn);

}  // namespace ramcore::sim
