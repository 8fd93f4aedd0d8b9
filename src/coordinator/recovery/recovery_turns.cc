/// The part of RecoveryManager for when copies of what is recovered find no places.

#include <algorithm>
#include <tuple>
#include <utility>

#include "coordinator/recovery/recovery_manager.h"
#include "wire/control.h"

namespace ramcore::coordinator {
namespace {

// For so long after it was told the last time that copies find no places, they do not.
constexpr int64_t kLackingNs = 2 * runtime::kNanosPerSecond;
// A recovery master that has found none for so long should have given up: it cannot.
constexpr int64_t kStuckNs = 30 * runtime::kNanosPerSecond;
// Between two questions while one is stuck.
constexpr int64_t kAskPlacesAgainNs = 5 * runtime::kNanosPerSecond;
// Between two lines that say what lacks.
constexpr int64_t kTellAgainNs = 60 * runtime::kNanosPerSecond;

// With more the sums of what lacks could overflow.
bool isPossible(const wire::control::ServerStateResponse& state) {
  constexpr uint64_t kPlacesMax = uint64_t{1} << 32;
  constexpr uint64_t kPlaceBytesMax = uint64_t{1} << 30;
  return state.frames_free() <= state.frames_total() && state.frames_total() <= kPlacesMax &&
         state.storage_bytes() / std::max<uint64_t>(state.frames_total(), 1) <= kPlaceBytesMax &&
         state.replicas_wanted() <= kReplicasMax;
}

std::string text(const MissingPlaces& missing) {
  constexpr uint64_t kMegabyte = uint64_t{1} << 20;
  const uint64_t megabytes = (missing.storage_bytes + kMegabyte - 1) / kMegabyte;
  return "start " + std::to_string(missing.servers) + (missing.servers == 1 ? " more server" : " more servers") +
         ", each with --storage-bytes " + std::to_string(megabytes) + "MiB or more";
}

}  // namespace

void RecoveryManager::onLacking(ServerId dead) {
  const auto found = recoveries_.find(dead);
  if (found == recoveries_.end()) return;
  Recovery& recovery = found->second;
  const int64_t now_ns = parts_.journal.nowNs();
  if (!isLacking(recovery)) recovery.lacking_since_ns = now_ns;
  recovery.lacking_ns = now_ns;
}

bool RecoveryManager::isLacking(const Recovery& recovery) const {
  return recovery.lacking_ns != 0 && parts_.journal.nowNs() - recovery.lacking_ns < kLackingNs;
}

// What a recovery master has brought may be listed by a head that some servers have already: then it can only wait for
// places, and nobody has a turn meanwhile. So what is to be added is said now.
runtime::Task<void> RecoveryManager::noteStuck(Recovery& recovery) {
  const int64_t now_ns = parts_.journal.nowNs();
  if (now_ns - recovery.lacking_since_ns < kStuckNs) co_return;
  if (!turn_has_failed_ || now_ns - places_asked_ns_ >= kAskPlacesAgainNs) co_await askPlaces();
  turn_has_failed_ = true;
  recovery.was_given_up = true;
}

void RecoveryManager::noteAttemptFailed(Recovery& recovery, bool for_places) {
  if (for_places) {
    ++finished_.given_up;
    recovery.was_given_up = true;
    if (!std::exchange(places_are_scarce_, true)) {
      parts_.trace.warning(
          "copies of what is recovered find no places on the storages of other servers: dead servers are recovered "
          "one after the other from now on");
    }
  }
  // The others were begun when several took places at the same time: that says nothing about one alone.
  if (!std::exchange(recovery.is_in_turn, false)) return;
  ++recovery.failed_count;
  if (recovery.only_master != ServerId()) {
    recovery.tried.insert(recovery.only_master);
  } else {
    recovery.tried.clear();
  }
  turn_has_failed_ = turn_has_failed_ || for_places;
}

// It could be fetched now, if that were all.
bool RecoveryManager::mayBegin(ServerId dead, const Recovery& recovery) const {
  return recovery.survey.isComplete() || mayLose(dead, recovery);
}

// One at a time, so that what it leaves makes room for the next. Who has failed lets the others try, whatever the
// reason was.
bool RecoveryManager::hasTurn(ServerId dead) const {
  if ((turn_ != ServerId() && turn_ != dead) || !attempts_.isIdle()) return false;
  const auto rank = [](const auto& one) {
    return std::tuple(one.second.failed_count, one.second.segment_count, one.first);
  };
  const auto own = recoveries_.find(dead);
  return std::ranges::none_of(recoveries_, [&](const auto& one) {
    if (attempts_.isTakingFrom(one.first)) return true;
    return rank(one) < rank(*own) && mayBegin(one.first, one.second) && !workOf(one.first).open.empty();
  });
}

// Before an attempt nobody holds places that may be given back. While one is stuck what it holds counts as taken.
runtime::Task<void> RecoveryManager::askPlaces() {
  places_asked_ns_ = parts_.journal.nowNs();
  const std::vector<ServerId> servers = parts_.membership.heardServers();
  std::vector<wire::control::ServerStateResponse> states(servers.size());
  std::vector<runtime::Task<Status>> calls;
  for (size_t i = 0; i < servers.size(); ++i) {
    calls.push_back(parts_.masters.serverState(servers[i], false, states[i]));
  }
  std::vector<BackupPlaces> places;
  PlacesWanted wanted{.masters = servers.size()};
  for (size_t i = 0; i < servers.size(); ++i) {
    const Status status = co_await calls[i];
    if (status != Status::Ok || !isPossible(states[i])) continue;
    wanted.copies = std::max(wanted.copies, states[i].replicas_wanted());
    BackupPlaces& own = places.emplace_back();
    own.id = servers[i];
    if (states[i].storage_failed()) continue;
    own.places_total = states[i].frames_total();
    own.places_free = states[i].frames_free();
    own.storage_bytes = states[i].storage_bytes();
  }
  for (const auto& [dead, recovery] : recoveries_) {
    if (recovery.segment_count == 0 || !workOf(dead).any) continue;
    wanted.all_segments += recovery.segment_count;
    const bool is_least = wanted.least_segments == 0 || recovery.segment_count < wanted.least_segments;
    if (is_least) wanted.least_segments = recovery.segment_count;
  }
  missing_places_ = missingPlaces(wanted, places);
  places_ = std::move(places);
}

// One server for all tablets: each recovery master has a head and a segment on the side that take places, however
// little is in them. Of those that were not tried the one that has the fewest places for others, because those that
// have more are needed for its copies, and then the one with the fewest tablets; who did not say what it has is the
// last. After all of them all together.
RecoveryManager::Loads RecoveryManager::loadsInTurn(Recovery& recovery) const {
  std::set<std::tuple<uint64_t, size_t, ServerId>> ranks;
  for (const ServerId master : parts_.membership.heardServers()) {
    if (recovery.tried.contains(master)) continue;
    const auto there = std::ranges::find(places_, master, &BackupPlaces::id);
    const uint64_t places_free = there != places_.end() ? there->places_free : UINT64_MAX;
    ranks.emplace(places_free, parts_.map.tabletsOwnedBy(master).size(), master);
  }
  recovery.only_master = ranks.empty() ? ServerId() : std::get<ServerId>(*ranks.begin());
  if (ranks.empty()) return loadsNow();
  return {{0, recovery.only_master}};
}

std::string RecoveryManager::textOfFetching(const Recovery& recovery) {
  return isLacking(recovery) ? sayWhatLacks() : "its tablets are being fetched";
}

std::string RecoveryManager::textOfWaiting(const Recovery& recovery) {
  return recovery.was_given_up ? sayWhatLacks() : "others are recovered before it, because copies find no places";
}

MissingPlaces RecoveryManager::missingPlacesNow(const Recovery& recovery) const {
  return turn_has_failed_ && recovery.was_given_up ? missing_places_ : MissingPlaces();
}

// What is to be added is said when one alone has failed, or one is stuck, and traced once a minute.
std::string RecoveryManager::sayWhatLacks() {
  const std::string what =
      "the copies of what is recovered find no places, because too few servers have room in their storages";
  if (!turn_has_failed_ || missing_places_.servers == 0) return what;
  const std::string all = what + "; " + text(missing_places_);
  const int64_t now_ns = parts_.journal.nowNs();
  if (lack_told_ns_ == 0 || now_ns - lack_told_ns_ >= kTellAgainNs) {
    lack_told_ns_ = now_ns;
    parts_.trace.warning("recoveries wait: " + all);
  }
  return all;
}

void RecoveryManager::noteTabletsBack() {
  turn_has_failed_ = false;
  lack_told_ns_ = 0;
}

// Several at a time again, when nobody waits who could begin.
void RecoveryManager::endTurns() {
  places_are_scarce_ = places_are_scarce_ && std::ranges::any_of(recoveries_, [this](const auto& one) {
                         return one.second.was_given_up || (mayBegin(one.first, one.second) && workOf(one.first).any);
                       });
  if (places_are_scarce_) return;
  noteTabletsBack();
  missing_places_ = {};
}

}  // namespace ramcore::coordinator
