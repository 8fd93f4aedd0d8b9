#include "master/tablet_intake.h"

#include "runtime/await.h"

namespace ramcore::master {

void TabletIntake::evict(const Tablet& tablet) {
  const auto left = parts_.tablets.get(tablet.id);
  if (left && left->state == TabletState::Pulling && left->epoch < tablet.epoch) {
    [[maybe_unused]] const Status removed = parts_.tablets.remove(tablet.id);
  }
}

runtime::Task<Status> TabletIntake::purge(const Tablet& tablet, const std::atomic<bool>& cancelled) {
  // An earlier attempt may have brought results of calls that this one will not find: they are not answered again.
  parts_.results.dropRange(tablet.table, tablet.range,
                           [&](KeyHash hash) { return parts_.tablets.find(tablet.table, hash) != nullptr; });
  std::optional<KeyHash> cursor = tablet.range.first;
  while (cursor) {
    if (cancelled) co_return Status::Cancelled;
    cursor = parts_.store.purgeSlice(tablet.table, tablet.range, *cursor);
    co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
  }
  co_return Status::Ok;
}

runtime::Task<Status> TabletIntake::roll(const std::atomic<bool>& cancelled, SegmentId& head) {
  head = parts_.log.requestRollToJoin();
  runtime::GrowingPause pause = growingPause();
  while (!parts_.log.isRolled(head)) {
    if (cancelled) co_return Status::Cancelled;
    parts_.maintenance.poke();
    co_await runtime::sleepFor(parts_.background, pause.nextNs());
  }
  co_return Status::Ok;
}

Status TabletIntake::add(Tablet tablet, SegmentId first_segment, const std::atomic<bool>& cancelled) {
  tablet.state = TabletState::Pulling;
  tablet.first_segment = first_segment;
  const Status status = parts_.tablets.add(tablet);
  if (status != Status::Ok || !cancelled) return status;
  [[maybe_unused]] const Status removed = parts_.tablets.remove(tablet.id);
  return Status::Cancelled;
}

runtime::Task<Status> TabletIntake::join(log::SideLog& side, const std::atomic<bool>& stopping) {
  side.close();
  runtime::GrowingPause pause = growingPause();
  while (!side.isClosed()) {
    if (stopping) break;
    co_await runtime::sleepFor(parts_.background, pause.nextNs());
  }
  if (stopping) {
    side.leave();
    co_return Status::Cancelled;
  }
  side.join();
  while (!side.isJoined()) {
    if (stopping) co_return Status::Cancelled;
    parts_.maintenance.poke();
    co_await runtime::sleepFor(parts_.background, pause.nextNs());
  }
  co_return Status::Ok;
}

}  // namespace ramcore::master
