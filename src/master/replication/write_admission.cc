#include "master/replication/write_admission.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/mutation.h"

namespace ramcore::master {
namespace {

// A head that has found too few servers for this long will not find them soon: writes are refused, instead of being
// left waiting.
constexpr int64_t kNoPlaceNs = runtime::kNanosPerSecond;

}  // namespace

void WriteAdmission::begin() {
  refresh();  // members may have been heard of before
  tellIfTooFew();
}

void WriteAdmission::membersChanged() {
  no_place_since_ns_ = 0;  // the new members may have places
  refresh();
  tellIfTooFew();
}

void WriteAdmission::fence() {
  fenced_ = true;
  refresh();
}

// One line when writes begin to be refused for want of servers, and one when they are taken again.
void WriteAdmission::tellIfTooFew() {
  if (!placement_.isReady() || fenced_) return;
  const uint32_t available = placement_.availableCount();
  const bool too_few = available < placement_.leastCount();
  if (std::exchange(told_too_few_, too_few) == too_few) return;
  if (!too_few) {
    trace_.info("enough other servers keep copies: writes are taken");
  } else {
    trace_.warning("writes are refused while " + std::to_string(available) +
                   " other servers live that keep copies, and --min-replicas asks for " +
                   std::to_string(placement_.leastCount()) +
                   ": start servers, or lower it; --local-replica is for one server alone");
  }
}

void WriteAdmission::refresh() {
  const bool has_places = no_place_since_ns_ == 0 || clock_.nowNs() - no_place_since_ns_ < kNoPlaceNs;
  const bool is_enough =
      placement_.availableCount() >= placement_.leastCount() || RC_MUTATION("write-with-too-few-copies");
  const bool enough = has_places && is_enough;
  write_status_.store(fenced_  ? Status::Fenced
                      : enough ? Status::Ok
                               : Status::TooFewReplicas,
                      std::memory_order_relaxed);
  // Backups that are full keep frames for the heads that removals need.
  const bool may_remove = enough || (isShortOfPlaces() && placement_.availableCount() >= placement_.leastCount());
  remove_status_.store(!fenced_ && may_remove ? Status::Ok : writeStatus(), std::memory_order_relaxed);
}

void WriteAdmission::noteStuck(bool is_of_reserve) {
  if (!is_of_reserve) short_of_places_.store(true, std::memory_order_relaxed);
}

void WriteAdmission::noteOpened(bool is_of_reserve) {
  if (!is_of_reserve) short_of_places_.store(false, std::memory_order_relaxed);
}

void WriteAdmission::notePlaces(bool all_heads_have_places) {
  if (all_heads_have_places && no_place_since_ns_ == 0) return;
  const int64_t now_ns = clock_.nowNs();
  if (all_heads_have_places) {
    no_place_since_ns_ = 0;
  } else if (no_place_since_ns_ == 0) {
    no_place_since_ns_ = now_ns;
  }
  const Status before = writeStatus();
  refresh();
  if (before == Status::Ok && writeStatus() == Status::TooFewReplicas) {
    trace_.warning("no server has taken a new segment of the log for " +
                   std::to_string((now_ns - no_place_since_ns_) / runtime::kNanosPerMilli) +
                   " ms, so writes are refused; see their storage (ramcore status: frames)");
  }
}

void WriteAdmission::refreshStorage() {
  uint32_t percent = 0;
  if (backup_ != nullptr) {
    const uint64_t total = backup_->framesTotal();
    const uint64_t used = total - std::min(total, backup_->framesFree());
    const uint64_t for_heads = total - std::min(total, backup_->framesKept());
    percent = for_heads == 0 ? 0 : static_cast<uint32_t>(std::min(used, for_heads) * 100 / for_heads);
  }
  // All backups that could take a head are full, whatever the gauge of the one in this process says.
  if (isShortOfPlaces()) percent = 100;
  storage_percent_.store(percent, std::memory_order_relaxed);
}

}  // namespace ramcore::master
