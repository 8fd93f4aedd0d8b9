#include "store/tablet_intake.h"

#include <utility>

#include "base/mutation.h"

namespace ramcore::store {
namespace {

/// Measures for how long an intake has found no places for its replicas. Without a Patience the intake waits for ever.
class PlaceWatch {
 public:
  /// @param is_endless  isOver() never says so
  PlaceWatch(runtime::Clock& clock, const TabletIntake::Patience* patience, bool is_endless = false)
      : clock_(clock), patience_(patience), is_endless_(is_endless) {}
  PlaceWatch(const PlaceWatch&) = delete;
  PlaceWatch& operator=(const PlaceWatch&) = delete;
  ~PlaceWatch() { tell(false); }

  /// @param lacks  true if places are lacking now
  /// @param left   how much is still waited for; when this changes, the time begins anew
  /// @return true if there is no use in waiting on
  bool isOver(bool lacks, size_t left) {
    if (patience_ == nullptr) return false;
    const int64_t now_ns = clock_.nowNs();
    if (!lacks || left != left_) since_ns_ = now_ns;
    left_ = left;
    lacked_ns_ = now_ns - since_ns_;
    tell(lacked_ns_ >= kWorthTellingNs);
    return lacks && !is_endless_ && (patience_->ended || lacked_ns_ >= TabletIntake::kPatienceNs);
  }
  /// True if places have been lacking for kWorthTellingNs: from then on the least number of replicas is enough.
  bool hasLacked() const { return patience_ != nullptr && lacked_ns_ >= kWorthTellingNs; }
  // Several side logs of one attempt may be watched beside each other: one that lacks nothing is silent about the
  // others, and one that does says so again at each look.
  void tell(bool lacks) {
    const bool has_told = std::exchange(has_told_, lacks);
    if (patience_ != nullptr && (lacks || has_told)) {
      patience_->lacks_places.store(lacks, std::memory_order_relaxed);
    }
  }

 private:
  // A backup that is full asks masters which of its replicas are needed, and frees the others. It is asked again after
  // two seconds (kAvoidNs in replica_placement.cc). So places count as lacking only after more than that.
  static constexpr int64_t kWorthTellingNs = 3 * runtime::kNanosPerSecond;

  runtime::Clock& clock_;
  const TabletIntake::Patience* const patience_;
  const bool is_endless_;
  size_t left_ = SIZE_MAX;
  int64_t since_ns_ = 0;
  int64_t lacked_ns_ = 0;
  bool has_told_ = false;  // that places are lacking
};

}  // namespace

void TabletIntake::evict(const Tablet& tablet) {
  const auto left = parts_.tablets.get(tablet.id);
  if (left && left->state == TabletState::Pulling && left->epoch < tablet.epoch) {
    [[maybe_unused]] const Status removed = parts_.tablets.remove(tablet.id);
  }
}

runtime::Task<Status> TabletIntake::purge(const Tablet& tablet, const std::atomic<bool>& cancelled, bool* is_left) {
  if (RC_MUTATION("take-in-without-a-purge")) co_return Status::Ok;
  // An earlier attempt may have brought results that this one will not find. No call may be answered from them.
  parts_.results.dropRange(tablet.table, tablet.range,
                           [&](KeyHash hash) { return parts_.tablets.find(tablet.table, hash) != nullptr; });
  std::optional<KeyHash> cursor = tablet.range.first;
  while (cursor) {
    if (cancelled) co_return Status::Cancelled;
    cursor = parts_.store.purge().purgeSlice(tablet.table, tablet.range, *cursor, is_left);
    co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
  }
  co_return Status::Ok;
}

// A small head that cannot be closed says nothing about the places for others, but no roll ends before it has one.
bool TabletIntake::lacksHead() const {
  const log::Replicator& replicator = parts_.log.replicator();
  return replicator.isShortOfPlaces() || replicator.isHeadStuck();
}

runtime::Task<Status> TabletIntake::roll(const std::atomic<bool>& cancelled, SegmentId& head,
                                         const Patience* patience) {
  head = RC_MUTATION("take-in-without-a-new-head") ? parts_.log.headId() : parts_.log.requestHeadToJoin();
  runtime::GrowingPause pause = growingPause();
  PlaceWatch watch(parts_.background.clock(), patience);
  while (!parts_.log.isRolled(head)) {
    if (patience != nullptr && patience->stopping) co_return Status::Cancelled;
    if (watch.isOver(lacksHead(), 1)) {
      parts_.log.cancelHeadToJoin(head);
      co_return Status::TooFewReplicas;
    }
    if (cancelled) {
      parts_.log.cancelHeadToJoin(head);
      co_return Status::Cancelled;
    }
    parts_.maintenance.wake();
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
                                         const Patience* patience, bool is_endless) {
  if (!side.isSealed()) side.close();
  runtime::GrowingPause pause = growingPause();
  PlaceWatch watch(parts_.background.clock(), patience, is_endless);
  bool awaits_least = false;
  while (!side.isClosed()) {
    if (stopping) break;
    if (watch.isOver(side.lacksPlaces(), side.unclosedCount())) co_return Status::TooFewReplicas;
    if (!awaits_least && watch.hasLacked()) {
      // No server has places for the other replicas, and no client reaches the contents before the side log has joined.
      awaits_least = true;
      side.awaitLeast();
    }
    parts_.maintenance.wake();
    co_await runtime::sleepFor(parts_.background, pause.nextNs());
  }
  // An earlier call of join() may have requested the head already.
  if (stopping) {
    if (!side.isJoining()) side.leave();
    co_return Status::Cancelled;
  }
  if (!side.isJoining()) side.join();
  bool is_over = false;
  while (!side.isJoined()) {
    if (stopping) co_return Status::Cancelled;
    is_over = is_over || watch.isOver(lacksHead(), 0);
    if (is_over && side.takeBack()) co_return Status::TooFewReplicas;
    parts_.maintenance.wake();
    co_await runtime::sleepFor(parts_.background, pause.nextNs());
  }
  co_return Status::Ok;
}

runtime::Task<Status> TabletIntake::joinOrForsake(log::SideLog& side, std::span<const Tablet> tablets, bool finds_none,
                                                  const Patience& patience) {
  Status first = Status::TooFewReplicas;
  if (!finds_none) {
    first = co_await join(side, patience.stopping, &patience);
  }
  Status joined = first;
  while (joined == Status::TooFewReplicas) {
    const bool is_gone = co_await forsake(side, tablets);
    if (is_gone) break;
    joined = co_await join(side, patience.stopping, &patience);
  }
  co_return first;
}

// Purging is safe: a later intake of one of these tablets gives up the older attempt first, then purges the range, and
// only then adds the tablet to the tablet table. So every entry of the range that no tablet of the tablet table covers
// is from this intake or older. A damaged entry cannot be purged before it is restored, and it may be of any tablet:
// while there is one, the side log has to be kept.
runtime::Task<bool> TabletIntake::forsake(log::SideLog& side, std::span<const Tablet> tablets) {
  const std::atomic<bool> cancelled{false};
  bool is_left = false;
  for (const Tablet& tablet : tablets) {
    const auto there = parts_.tablets.get(tablet.id);
    if (!there || there->epoch != tablet.epoch) continue;
    // It is being dropped, and answers until then: its entries are still referred to.
    if (there->state != TabletState::Pulling) co_return false;
    [[maybe_unused]] const Status removed = parts_.tablets.remove(tablet.id);
  }
  for (const Tablet& tablet : tablets) {
    [[maybe_unused]] const Status purged = co_await purge(tablet, cancelled, &is_left);
  }
  if (is_left || parts_.log.stats().damaged_now.load(std::memory_order_relaxed) != 0) co_return false;
  side.abandon();
  co_return true;
}

}  // namespace ramcore::store
