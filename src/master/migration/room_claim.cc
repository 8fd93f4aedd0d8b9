#include "master/migration/room_claim.h"

#include <algorithm>
#include <utility>

#include "base/mutation.h"
#include "runtime/await.h"
#include "store/tablet_intake.h"

namespace ramcore::master {
namespace {

using wire::MeasureTablet;

constexpr int64_t kPatienceNs = store::TabletIntake::kPatienceNs;
constexpr int64_t kPauseNs = store::TabletIntake::kPauseNs;

// Whether the numbers of an answer are ones that a log can have.
bool isSensible(const MeasureTablet::Response& answer) {
  constexpr uint64_t kMost = log::LiveLimit::kHeldBytesMax / (4 * MeasureTablet::kWindows);
  return answer.object_bytes <= kMost && answer.tombstone_bytes <= kMost;
}

}  // namespace

RoomClaim::~RoomClaim() { log_.limit().release(object_bytes_ + tombstone_bytes_, large_bytes_); }

runtime::Task<Status> RoomClaim::claim() {
  uint64_t object_bytes = 0;
  uint64_t large_bytes = 0;
  uint64_t tombstone_bytes = 0;
  for (uint32_t window = 0; window < MeasureTablet::kWindows;) {
    SourceCalls::Measured answer;
    const Status status = co_await ask(window, runtime::Priority::Background, answer);
    if (status != Status::Ok) co_return status;
    const MeasureTablet::Response& part = answer.sizes;
    if (window == 0) appended_before_ = part.appended_bytes;
    object_bytes += part.object_bytes;
    large_bytes += part.large_bytes;
    tombstone_bytes += part.tombstone_bytes;
    window = part.next_window;
  }
  co_return hold(object_bytes, large_bytes, tombstone_bytes);
}

runtime::Task<Status> RoomClaim::claimGrowth(store::CrowdedHashes::List& crowded) {
  SourceCalls::Measured answer;
  // Writes of the tablet are refused meanwhile.
  const Status status = co_await ask(MeasureTablet::kWindows, runtime::Priority::Waited, answer);
  if (status != Status::Ok) co_return status;
  crowded = std::move(answer.crowded);
  const MeasureTablet::Response& now = answer.sizes;
  if (now.appended_bytes < appended_before_) co_return Status::BadRequest;
  const uint64_t appended_bytes = now.appended_bytes - appended_before_;
  if (appended_bytes > log::LiveLimit::kHeldBytesMax / 4) co_return Status::BadRequest;
  // Anything that the source has appended since may be of this tablet, and large. A tombstone that names a segment is
  // at most one and a half times as long as the smallest object.
  co_return hold(appended_bytes, appended_bytes, appended_bytes * 3 / 2);
}

Status RoomClaim::hold(uint64_t object_bytes, uint64_t large_bytes, uint64_t tombstone_bytes) {
  const uint64_t bytes = object_bytes + tombstone_bytes;
  if (RC_MUTATION("hold-no-room")) return Status::Ok;
  if (!log_.limit().hold(bytes, large_bytes)) {
    shortage_ = {.wanted_bytes = bytes, .left_bytes = log_.limit().roomBytes()};
    return Status::NoSpace;
  }
  object_bytes_ += object_bytes;
  large_bytes_ += large_bytes;
  tombstone_bytes_ += tombstone_bytes;
  return Status::Ok;
}

void RoomClaim::spend(uint64_t bytes) {
  const uint64_t spent = std::min(bytes, object_bytes_);
  object_bytes_ -= spent;
  // Which of them were large is not known: that part stays until no others are left.
  const uint64_t large_spent = large_bytes_ - std::min(large_bytes_, object_bytes_);
  large_bytes_ -= large_spent;
  log_.limit().release(spent, large_spent);
}

// Asks again and again, until the source answers or there is no use in it.
runtime::Task<Status> RoomClaim::ask(uint32_t window, runtime::Priority priority, SourceCalls::Measured& answer) {
  const int64_t give_up_ns = background_.clock().nowNs() + kPatienceNs;
  for (;;) {
    if (ended_) co_return Status::Cancelled;
    answer = {};
    const Status status = co_await source_.measure(window, range_, priority, answer);
    if (status == Status::Ok) co_return isSensible(answer.sizes) ? Status::Ok : Status::BadRequest;
    if (!SourceCalls::mayPass(status) || background_.clock().nowNs() >= give_up_ns) co_return status;
    co_await runtime::sleepFor(background_, kPauseNs);
  }
}

}  // namespace ramcore::master
