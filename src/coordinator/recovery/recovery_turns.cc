#include "coordinator/recovery/recovery_turns.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "wire/control.h"

namespace ramcore::coordinator {
namespace {

// Replicas count as lacking storage frames for this long after the last report that they find none.
constexpr int64_t kLackingNs = 2 * runtime::kNanosPerSecond;
// A recovery master whose replicas have found no storage frames for this long should have given up. It is stuck: it
// cannot give up (noteStuck).
constexpr int64_t kStuckNs = 30 * runtime::kNanosPerSecond;
// Pause between two questions for storage frames while an attempt is stuck.
constexpr int64_t kAskPlacesAgainNs = 5 * runtime::kNanosPerSecond;
// Pause between two warnings that say what has to be added.
constexpr int64_t kTellAgainNs = 60 * runtime::kNanosPerSecond;

constexpr std::string_view kFindNoPlaces =
    "the copies of what is recovered find no places, because too few servers have room in their storages";

// False if the numbers contradict each other, or are so large that the sums in missingPlaces() could overflow.
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

void RecoveryTurns::remove(ServerId dead) {
  leave(dead);
  waits_.erase(dead);
  endTurns();
}

void RecoveryTurns::noteLacking(ServerId dead) {
  const auto found = waits_.find(dead);
  if (found == waits_.end()) return;
  Wait& wait = found->second;
  const int64_t now_ns = parts_.journal.nowNs();
  if (!isLacking(wait)) wait.lacking_since_ns = now_ns;
  wait.lacking_ns = now_ns;
}

bool RecoveryTurns::isLacking(const Wait& wait) const {
  return wait.lacking_ns != 0 && parts_.journal.nowNs() - wait.lacking_ns < kLackingNs;
}

// A recovery master cannot give up once some servers have a head that lists what it has brought. Then it can only wait
// for storage frames, and no other recovery gets a turn meanwhile. So what has to be added is said now.
runtime::Task<void> RecoveryTurns::noteStuck(ServerId dead) {
  Wait& wait = waits_.at(dead);  // nobody removes it meanwhile
  const int64_t now_ns = parts_.journal.nowNs();
  if (now_ns - wait.lacking_since_ns < kStuckNs) co_return;
  if (!turn_has_failed_ || now_ns - places_asked_ns_ >= kAskPlacesAgainNs) co_await askPlaces();
  turn_has_failed_ = true;
  wait.was_given_up = true;
}

void RecoveryTurns::noteFailed(ServerId dead, bool for_places) {
  Wait& wait = waits_.at(dead);
  if (for_places) {
    ++given_up_count_;
    wait.was_given_up = true;
    if (!std::exchange(places_are_scarce_, true)) {
      parts_.trace.warning(
          "copies of what is recovered find no places on the storages of other servers: dead servers are recovered "
          "one after the other from now on");
    }
  }
  // Other attempts began when several recoveries took storage frames at the same time: their failure says nothing about
  // one that runs alone.
  if (!std::exchange(wait.is_in_turn, false)) return;
  ++wait.failed_count;
  if (wait.only_master != ServerId()) {
    wait.tried.insert(wait.only_master);
  } else {
    wait.tried.clear();
  }
  turn_has_failed_ = turn_has_failed_ || for_places;
}

// Recoveries run one at a time, so that the storage frames that one gives back are there for the next. One that has
// failed lets the others try first, whatever the reason was.
bool RecoveryTurns::hasTurn(ServerId dead) const {
  if ((turn_ != ServerId() && turn_ != dead) || !attempts_.isIdle()) return false;
  const auto rank = [](const auto& one) {
    return std::tuple(one.second.failed_count, one.second.segment_count, one.first);
  };
  const auto own = waits_.find(dead);
  return std::ranges::none_of(waits_, [&](const auto& one) {
    if (attempts_.isTakingFrom(one.first)) return true;
    return rank(one) < rank(*own) && facts_.may_begin(one.first) && facts_.has_open(one.first);
  });
}

bool RecoveryTurns::take(ServerId dead) {
  turn_ = dead;
  return !std::exchange(places_are_asked_, true);
}

void RecoveryTurns::leave(ServerId dead) {
  if (turn_ == dead) turn_ = {};
}

void RecoveryTurns::attemptBegun(ServerId dead, bool is_begun) {
  leave(dead);
  if (is_begun) places_are_asked_ = false;
}

// Before an attempt no recovery holds storage frames that may be given back. While an attempt is stuck, those that it
// holds count as taken.
runtime::Task<void> RecoveryTurns::askPlaces() {
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
  for (const auto& [dead, wait] : waits_) {
    if (wait.segment_count == 0 || !facts_.has_work(dead)) continue;
    wanted.all_segments += wait.segment_count;
    const bool is_least = wanted.least_segments == 0 || wait.segment_count < wanted.least_segments;
    if (is_least) wanted.least_segments = wait.segment_count;
  }
  missing_places_ = missingPlaces(wanted, places);
  places_ = std::move(places);
}

// Chooses one server for all tablets: each recovery master has a head and a segment of a side log that take storage
// frames, however little is in them. Among the servers that were not tried it is the one with the fewest free storage
// frames, because those of the others are needed for its replicas, and then the one with the fewest tablets. A server
// that did not say how many it has comes last. When all were tried, all recover together.
ServerId RecoveryTurns::chooseMaster(ServerId dead) {
  Wait& wait = waits_.at(dead);
  if (!wait.is_in_turn) return {};
  std::set<std::tuple<uint64_t, size_t, ServerId>> ranks;
  for (const ServerId master : parts_.membership.heardServers()) {
    if (wait.tried.contains(master)) continue;
    const auto there = std::ranges::find(places_, master, &BackupPlaces::id);
    const uint64_t places_free = there != places_.end() ? there->places_free : UINT64_MAX;
    ranks.emplace(places_free, parts_.map.tabletsOwnedBy(master).size(), master);
  }
  wait.only_master = ranks.empty() ? ServerId() : std::get<ServerId>(*ranks.begin());
  return wait.only_master;
}

std::string RecoveryTurns::textOfFetching(ServerId dead) {
  return isLacking(dead) ? sayWhatLacks() : "its tablets are being fetched";
}

std::string RecoveryTurns::textOfWaiting(ServerId dead) {
  return wasGivenUp(dead) ? sayWhatLacks() : "others are recovered before it, because copies find no places";
}

MissingPlaces RecoveryTurns::missingPlacesNow(ServerId dead) const {
  return turn_has_failed_ && wasGivenUp(dead) ? missing_places_ : MissingPlaces();
}

std::string RecoveryTurns::textNow(const std::string& text) const {
  return text.starts_with(kFindNoPlaces) ? whatLacks() : text;
}

// What has to be added is said when a recovery that ran alone has failed, or one is stuck.
std::string RecoveryTurns::whatLacks() const {
  const bool is_known = turn_has_failed_ && missing_places_.servers != 0;
  return std::string(kFindNoPlaces) + (is_known ? "; " + text(missing_places_) : "");
}

// Traces what has to be added once a minute.
std::string RecoveryTurns::sayWhatLacks() {
  const std::string what = whatLacks();
  const int64_t now_ns = parts_.journal.nowNs();
  if (what != kFindNoPlaces && (lack_told_ns_ == 0 || now_ns - lack_told_ns_ >= kTellAgainNs)) {
    lack_told_ns_ = now_ns;
    parts_.trace.warning("recoveries wait: " + what);
  }
  return what;
}

void RecoveryTurns::noteBack(ServerId dead) {
  waits_.at(dead).was_given_up = false;
  endFailure();
}

void RecoveryTurns::endFailure() {
  turn_has_failed_ = false;
  lack_told_ns_ = 0;
}

// Lets several recoveries run at a time again when none waits that was given up or could begin.
void RecoveryTurns::endTurns() {
  places_are_scarce_ = places_are_scarce_ && std::ranges::any_of(waits_, [this](const auto& one) {
                         return one.second.was_given_up || (facts_.may_begin(one.first) && facts_.has_work(one.first));
                       });
  if (places_are_scarce_) return;
  endFailure();
  missing_places_ = {};
}

}  // namespace ramcore::coordinator
