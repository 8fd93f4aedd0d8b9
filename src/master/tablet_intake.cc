#include "master/tablet_intake.h"

#include "runtime/await.h"

namespace ramcore::master {
namespace {

/// How long something has found no places for its copies.
class PlaceWatch {
 public:
  PlaceWatch(runtime::Clock& clock, std::atomic<bool>* lacks_places) : clock_(clock), lacks_places_(lacks_places) {}
  PlaceWatch(const PlaceWatch&) = delete;
  PlaceWatch& operator=(const PlaceWatch&) = delete;
  ~PlaceWatch() { tell(false); }

  /// True if it is too long.
  bool isOver(bool lacks) {
    if (lacks_places_ == nullptr) return false;
    const int64_t now_ns = clock_.nowNs();
    if (!lacks || since_ns_ == 0) since_ns_ = now_ns;
    const int64_t lacking_ns = lacks ? now_ns - since_ns_ : 0;
    tell(lacking_ns >= kWorthTellingNs);
    return lacking_ns >= TabletIntake::kPatienceNs;
  }
  void tell(bool lacks) {
    if (lacks_places_ != nullptr) lacks_places_->store(lacks, std::memory_order_relaxed);
  }

 private:
  // Places that come with the next round of a backup are none that are missing.
  static constexpr int64_t kWorthTellingNs = runtime::kNanosPerSecond;

  runtime::Clock& clock_;
  std::atomic<bool>* const lacks_places_;
  int64_t since_ns_ = 0;
};

}  // namespace

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

runtime::Task<Status> TabletIntake::roll(const std::atomic<bool>& cancelled, SegmentId& head,
                                         std::atomic<bool>* lacks_places) {
  head = parts_.log.requestRollToJoin();
  runtime::GrowingPause pause = growingPause();
  PlaceWatch watch(parts_.background.clock(), lacks_places);
  while (!parts_.log.isRolled(head)) {
    if (cancelled) co_return Status::Cancelled;
    if (watch.isOver(parts_.log.replicator().isShortOfPlaces())) co_return Status::TooFewReplicas;
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

runtime::Task<Status> TabletIntake::join(log::SideLog& side, const std::atomic<bool>& stopping,
                                         std::atomic<bool>* lacks_places) {
  if (!side.isSealed()) side.close();
  runtime::GrowingPause pause = growingPause();
  PlaceWatch watch(parts_.background.clock(), lacks_places);
  while (!side.isClosed()) {
    if (stopping) break;
    if (watch.isOver(!side.hasPlaces())) co_return Status::TooFewReplicas;
    parts_.maintenance.poke();
    co_await runtime::sleepFor(parts_.background, pause.nextNs());
  }
  if (stopping) {
    side.leave();
    co_return Status::Cancelled;
  }
  side.join();
  while (!side.isJoined()) {
    if (stopping) co_return Status::Cancelled;
    // What others free comes to it: there is no way back from here.
    watch.tell(parts_.log.replicator().isShortOfPlaces());
    parts_.maintenance.poke();
    co_await runtime::sleepFor(parts_.background, pause.nextNs());
  }
  co_return Status::Ok;
}

// Whoever takes such a tablet again has told the older recovery so, purges its range, and puts it into the table before
// anything is replayed: what is found outside of tablets of the table is ours, or older.
runtime::Task<bool> TabletIntake::forsake(log::SideLog& side, std::span<const Tablet> tablets) {
  const std::atomic<bool> cancelled{false};
  for (const Tablet& tablet : tablets) {
    const auto left = parts_.tablets.get(tablet.id);
    if (!left || left->state != TabletState::Pulling || left->epoch != tablet.epoch) continue;
    [[maybe_unused]] const Status removed = parts_.tablets.remove(tablet.id);
  }
  for (const Tablet& tablet : tablets) {
    const Status purged = co_await purge(tablet, cancelled);
    if (purged != Status::Ok) co_return false;
  }
  // What is damaged is not purged before it is restored.
  if (parts_.log.stats().damaged_now.load(std::memory_order_relaxed) != 0) co_return false;
  side.abandon();
  co_return true;
}

}  // namespace ramcore::master
