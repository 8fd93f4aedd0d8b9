#include "master/migration/room_claim.h"

#include <algorithm>
#include <utility>

#include "base/mutation.h"
#include "runtime/await.h"
#include "store/tablet_intake.h"

namespace ramcore::master {
namespace {

using wire::MeasureTablet;

// The time for all answers about objects. An answer is about thousands of them.
constexpr int64_t kMeasureNsMax = 600 * runtime::kNanosPerSecond;

// Whether these are numbers that a log can have; several of them may be added.
bool isSensible(uint64_t object_bytes, uint64_t tombstone_bytes) {
  constexpr uint64_t kMost = log::LiveLimit::kHeldBytesMax / 8;
  return object_bytes <= kMost && tombstone_bytes <= kMost;
}

}  // namespace

RoomClaim::~RoomClaim() {
  const SpinGuard guard(lock_);
  log_.limit().release(held_.all(), held_.large_bytes);
}

runtime::Task<Status> RoomClaim::measure() {
  Parts& all = measured_;
  KeyHash cursor = range_.first;
  const int64_t give_up_ns = background_.clock().nowNs() + kMeasureNsMax;
  for (bool is_done = false; !is_done;) {
    if (background_.clock().nowNs() > give_up_ns) co_return Status::DeadlineExceeded;
    SourceCalls::Measured answer;
    const Status status = co_await ask(MeasureTablet::Part::Objects, cursor, runtime::Priority::Background, answer);
    if (status != Status::Ok) co_return status;
    const MeasureTablet::Response& part = answer.sizes;
    if (cursor == range_.first) appended_before_ = part.appended_bytes;
    all.object_bytes += part.object_bytes;
    all.large_bytes += part.large_bytes;
    all.tombstone_bytes += part.tombstone_bytes;
    if (!isSensible(all.object_bytes, all.tombstone_bytes)) co_return Status::BadRequest;
    cursor = part.next_cursor;
    is_done = part.done != 0;
  }
  SourceCalls::Measured rest;
  const Status status = co_await ask(MeasureTablet::Part::Rest, 0, runtime::Priority::Background, rest);
  if (status != Status::Ok) co_return status;
  all.result_bytes = rest.sizes.object_bytes;
  result_bytes_ = all.result_bytes;
  co_return Status::Ok;
}

Status RoomClaim::claim(uint64_t spare_bytes) {
  const Status held = hold(measured_);
  if (held != Status::Ok || RC_MUTATION("hold-no-room")) return held;
  if (!log_.limit().hold(spare_bytes, 0)) {
    shortage_ = {.wanted_bytes = spare_bytes, .left_bytes = log_.limit().roomBytes()};
    return Status::NoSpace;
  }
  const SpinGuard guard(lock_);
  held_.object_bytes += spare_bytes;
  return Status::Ok;
}

runtime::Task<Status> RoomClaim::claimGrowth(store::CrowdedHashes::List& crowded) {
  SourceCalls::Measured answer;
  // Writes of the tablet are refused meanwhile.
  const Status status = co_await ask(MeasureTablet::Part::Rest, 0, runtime::Priority::Waited, answer);
  if (status != Status::Ok) co_return status;
  crowded = std::move(answer.crowded);
  const MeasureTablet::Response& now = answer.sizes;
  if (now.appended_bytes < appended_before_) co_return Status::BadRequest;
  const uint64_t appended_bytes = now.appended_bytes - appended_before_;
  if (!isSensible(appended_bytes, appended_bytes)) co_return Status::BadRequest;
  // Anything that the source has appended since may be of this tablet, and large. A tombstone that names a segment is
  // at most one and a half times as long as the smallest object.
  const uint64_t held_bytes = std::exchange(result_bytes_, now.object_bytes);
  co_return hold({.object_bytes = appended_bytes,
                  .large_bytes = appended_bytes,
                  .tombstone_bytes = appended_bytes * 3 / 2,
                  .result_bytes = result_bytes_ - std::min(result_bytes_, held_bytes)});
}

Status RoomClaim::hold(const Parts& more) {
  claimed_bytes_ += more.object_bytes;
  if (RC_MUTATION("hold-no-room")) return Status::Ok;
  if (!log_.limit().hold(more.all(), more.large_bytes)) {
    shortage_ = {.wanted_bytes = more.all(), .left_bytes = log_.limit().roomBytes()};
    return Status::NoSpace;
  }
  const SpinGuard guard(lock_);
  held_.object_bytes += more.object_bytes;
  held_.large_bytes += more.large_bytes;
  held_.tombstone_bytes += more.tombstone_bytes;
  held_.result_bytes += more.result_bytes;
  return Status::Ok;
}

void RoomClaim::releaseResults() {
  const SpinGuard guard(lock_);
  log_.limit().release(std::exchange(held_.result_bytes, 0), 0);
}

void RoomClaim::releaseObjects() {
  const SpinGuard guard(lock_);
  giveBack(held_.object_bytes);
}

void RoomClaim::spend(uint64_t bytes) {
  spent_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  const SpinGuard guard(lock_);
  giveBack(std::min(bytes, held_.object_bytes));
}

void RoomClaim::giveBack(uint64_t object_bytes) {
  held_.object_bytes -= object_bytes;
  // Which of them were large is not known: that part stays until no others are left.
  const uint64_t large_bytes = held_.large_bytes - std::min(held_.large_bytes, held_.object_bytes);
  held_.large_bytes -= large_bytes;
  log_.limit().release(object_bytes, large_bytes);
}

// Asks again and again, until the source answers or there is no use in it.
runtime::Task<Status> RoomClaim::ask(MeasureTablet::Part part, KeyHash cursor, runtime::Priority priority,
                                     SourceCalls::Measured& answer) {
  const int64_t give_up_ns = background_.clock().nowNs() + store::TabletIntake::kPatienceNs;
  for (;;) {
    if (ended_ || is_given_up_) co_return Status::Cancelled;
    answer = {};
    const Status status = co_await source_.measure(part, range_, cursor, priority, answer);
    if (status == Status::Ok) {
      const bool is_sensible = isSensible(answer.sizes.object_bytes, answer.sizes.tombstone_bytes);
      co_return is_sensible ? Status::Ok : Status::BadRequest;
    }
    if (!SourceCalls::mayPass(status) || background_.clock().nowNs() >= give_up_ns) co_return status;
    co_await runtime::sleepFor(background_, store::TabletIntake::kPauseNs);
  }
}

}  // namespace ramcore::master
