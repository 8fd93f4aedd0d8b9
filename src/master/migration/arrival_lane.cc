#include "master/migration/arrival_lane.h"

namespace ramcore::master {

runtime::Task<Status> ArrivalLane::take(PulledSlice& slice, Patience patience, size_t who) {
  slice.lost.clear();
  // Another lane may wait for what is damaged in this one.
  side_.closeDamaged();
  ByteSpan rest = slice.entries;
  runtime::Clock& clock = executor_.clock();
  const int64_t give_up_ns = clock.nowNs() + store::TabletIntake::kPatienceNs;
  while (!rest.empty()) {
    if (state_.isOver()) co_return Status::Cancelled;
    const int64_t begin_ns = clock.nowNs();
    uint64_t objects = 0;
    const Status status = replay_.step(slice, rest, objects);
    const int64_t end_ns = clock.nowNs();
    state_.addObjects(objects);
    state_.countTime(&ArrivalTimes::replay_ns, begin_ns, end_ns);
    if (status == Status::Ok) {
      co_await intake_.giveWay(executor_, state_.isTaken() ? runtime::Priority::Background : runtime::Priority::Waited);
      continue;
    }
    state_.note(who, status);
    // What is damaged in an open segment can be restored when that is closed.
    side_.closeDamaged();
    const bool waits = store::TabletIntake::isWorthWaiting(status) && patience == Patience::UntilThereIsRoom &&
                       (state_.isTaken() || end_ns < give_up_ns);
    if (!waits) co_return status;
    co_await intake_.awaitRoom(executor_);
    state_.countTime(&ArrivalTimes::room_wait_ns, end_ns, clock.nowNs());
  }
  co_return Status::Ok;
}

}  // namespace ramcore::master
