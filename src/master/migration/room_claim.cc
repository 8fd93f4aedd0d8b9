#include "master/migration/room_claim.h"

#include <algorithm>

#include "base/mutation.h"
#include "runtime/await.h"
#include "store/tablet_intake.h"

namespace ramcore::master {
namespace {

using wire::MeasureTablet;

constexpr int64_t kAnswerDeadlineNs = 2 * runtime::kNanosPerSecond;
constexpr int64_t kPatienceNs = store::TabletIntake::kPatienceNs;
constexpr int64_t kPauseNs = store::TabletIntake::kPauseNs;

bool isGivenUp(void* ended) { return static_cast<std::atomic<bool>*>(ended)->load(); }

bool mayPass(Status status) {
  return status != Status::BadRequest && status != Status::WrongServer && status != Status::StaleEpoch &&
         status != Status::Shutdown && status != Status::WrongServerId;
}

// Whether the numbers of an answer are ones that a log can have.
bool isSensible(const MeasureTablet::Response& answer) {
  constexpr uint64_t kMost = log::LiveLimit::kHeldBytesMax / (4 * MeasureTablet::kWindows);
  return answer.object_bytes <= kMost && answer.large_bytes <= answer.object_bytes && answer.tombstone_bytes <= kMost;
}

}  // namespace

RoomClaim::~RoomClaim() { parts_.log.limit().release(object_bytes_ + tombstone_bytes_, large_bytes_); }

runtime::Task<Status> RoomClaim::claim() {
  uint64_t object_bytes = 0;
  uint64_t large_bytes = 0;
  uint64_t tombstone_bytes = 0;
  for (uint32_t window = 0; window < MeasureTablet::kWindows;) {
    MeasureTablet::Response part{};
    const Status status = co_await ask(window, part);
    if (status != Status::Ok) co_return status;
    if (window == 0) appended_before_ = part.appended_bytes;
    object_bytes += part.object_bytes;
    large_bytes += part.large_bytes;
    tombstone_bytes += part.tombstone_bytes;
    window = part.next_window;
  }
  co_return hold(object_bytes, large_bytes, tombstone_bytes);
}

runtime::Task<Status> RoomClaim::claimGrowth() {
  MeasureTablet::Response now{};
  const Status status = co_await ask(MeasureTablet::kWindows, now);
  if (status != Status::Ok) co_return status;
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
  if (!parts_.log.limit().hold(bytes, large_bytes)) {
    shortage_ = {.wanted_bytes = bytes, .left_bytes = parts_.log.limit().roomBytes()};
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
  parts_.log.limit().release(spent, large_spent);
}

runtime::Task<Status> RoomClaim::ask(uint32_t window, MeasureTablet::Response& answer) {
  const int64_t give_up_ns = parts_.background.clock().nowNs() + kPatienceNs;
  for (;;) {
    if (ended_) co_return Status::Cancelled;
    transport::TxMessage message = parts_.caller.allocate(sizeof(MeasureTablet::Request));
    message.appendHead(
        MeasureTablet::Request{.header = {.opcode = wire::Opcode::MeasureTablet, .target = ServerId(tablet_.source.id)},
                               .tablet = tablet_.id,
                               .epoch = tablet_.epoch,
                               .window = window});
    rpc::CallResult result =
        co_await parts_.caller.call(parts_.background, tablet_.source, std::move(message),
                                    {.deadline_ns = parts_.background.clock().nowNs() + kAnswerDeadlineNs,
                                     .priority = runtime::Priority::Background,
                                     .is_hopeless = &isGivenUp,
                                     .context = &ended_});
    if (result.status == Status::Ok) {
      const bool is_sound = wire::decode(result.response.head(), answer) && isSensible(answer) &&
                            (answer.next_window > window || window == MeasureTablet::kWindows);
      co_return is_sound ? Status::Ok : Status::BadRequest;
    }
    if (!mayPass(result.status) || parts_.background.clock().nowNs() >= give_up_ns) co_return result.status;
    co_await runtime::sleepFor(parts_.background, kPauseNs);
  }
}

}  // namespace ramcore::master
