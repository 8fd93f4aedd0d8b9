#include "store/tablet_table.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/mutation.h"

namespace ramcore::store {
namespace {

bool overlaps(const Tablet& a, const Tablet& b) {
  return a.table == b.table && a.range.first <= b.range.last && b.range.first <= a.range.last;
}

// Entries that a replay brings pass through old states.
bool isServed(const Tablet& tablet, KeyHash hash) {
  if (tablet.arriving == nullptr || !tablet.arriving->isClosed()) return true;
  return tablet.arriving->has(hash) || RC_MUTATION("serve-what-is-replayed");
}

auto positionOf(const std::vector<Tablet>& tablets, TabletId id) {
  return std::find_if(tablets.begin(), tablets.end(), [id](const Tablet& tablet) { return tablet.id == id; });
}

}  // namespace

TabletTable::TabletTable(runtime::Rcu& rcu) : rcu_(rcu), snapshot_(new Snapshot) {}

TabletTable::~TabletTable() { delete snapshot_.load(std::memory_order_relaxed); }

const Tablet* TabletTable::find(TableId table, KeyHash hash) const {
  const std::vector<Tablet>& tablets = snapshot_.load(std::memory_order_acquire)->tablets;
  // Finds the first tablet that begins behind the key; the one before it is the only candidate.
  size_t low = 0;
  size_t high = tablets.size();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    const Tablet& tablet = tablets[middle];
    if (tablet.table < table || (tablet.table == table && tablet.range.first <= hash)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return nullptr;
  const Tablet& candidate = tablets[low - 1];
  return candidate.table == table && candidate.range.contains(hash) ? &candidate : nullptr;
}

Status TabletTable::check(TableId table, KeyHash hash, TabletEpoch epoch, Access access, const Tablet*& tablet) const {
  const Tablet* found = find(table, hash);
  if (found == nullptr) return Status::WrongServer;
  if (epoch != found->epoch && !RC_MUTATION("answer-with-old-epoch")) {
    return epoch < found->epoch ? Status::StaleEpoch : Status::RetryLater;
  }
  tablet = found;
  if (found->state == TabletState::Normal) [[likely]]
    return Status::Ok;
  const Status status = checkInTransition(*found, hash, access);
  if (status != Status::Ok) tablet = nullptr;
  return status;
}

Status TabletTable::checkInTransition(const Tablet& tablet, KeyHash hash, Access access) {
  switch (tablet.state) {
    case TabletState::Normal:
      return Status::Ok;
    case TabletState::Frozen:
      if (access != Access::Read && !RC_MUTATION("change-what-is-frozen")) return Status::RetryLater;
      return isServed(tablet, hash) ? Status::Ok : Status::RetryLater;
    case TabletState::Pulling:
      return RC_MUTATION("answer-before-it-is-taken") ? Status::Ok : Status::RetryLater;
    case TabletState::Lent:
      return RC_MUTATION("answer-for-what-is-lent") ? Status::Ok : Status::WrongServer;
    case TabletState::Arriving:
      return isServed(tablet, hash) ? Status::Ok : Status::RetryLater;
  }
  return Status::RetryLater;
}

void TabletTable::publish(std::vector<Tablet> tablets) {
  std::sort(tablets.begin(), tablets.end(), [](const Tablet& a, const Tablet& b) {
    return std::tie(a.table, a.range.first) < std::tie(b.table, b.range.first);
  });
  auto* snapshot = new Snapshot;
  snapshot->tablets = std::move(tablets);
  Snapshot* old = snapshot_.exchange(snapshot, std::memory_order_acq_rel);
  old->run = [](runtime::Deferred& self) { delete static_cast<Snapshot*>(&self); };
  rcu_.defer(*old);
}

Status TabletTable::add(const Tablet& tablet) {
  SpinGuard guard(lock_);
  std::vector<Tablet> tablets = current().tablets;
  for (const Tablet& present : tablets) {
    if (present.id == tablet.id && present.range == tablet.range && present.epoch == tablet.epoch) return Status::Ok;
    if (present.id == tablet.id || overlaps(present, tablet)) return Status::BadRequest;
  }
  tablets.push_back(tablet);
  if (tablets.back().counters == nullptr) tablets.back().counters = std::make_shared<TabletCounters>();
  publish(std::move(tablets));
  return Status::Ok;
}

Status TabletTable::update(TabletId id, TabletEpoch epoch, TabletState state, SegmentId first_segment) {
  SpinGuard guard(lock_);
  std::vector<Tablet> tablets = current().tablets;
  const auto found = std::find_if(tablets.begin(), tablets.end(), [id](const Tablet& t) { return t.id == id; });
  if (found == tablets.end()) return Status::NotFound;
  found->epoch = epoch;
  found->state = state;
  found->first_segment = first_segment;
  found->arriving = nullptr;
  found->lent_to.reset();
  found->changes_after = 0;
  publish(std::move(tablets));
  return Status::Ok;
}

Status TabletTable::lend(TabletId id, std::optional<LentTo> lent_to) {
  SpinGuard guard(lock_);
  std::vector<Tablet> tablets = current().tablets;
  const auto found = std::find_if(tablets.begin(), tablets.end(), [id](const Tablet& t) { return t.id == id; });
  if (found == tablets.end()) return Status::NotFound;
  if (found->arriving != nullptr) found->changes_after = found->arriving->ceiling();
  found->state = TabletState::Lent;
  found->arriving = nullptr;
  found->lent_to = lent_to;
  publish(std::move(tablets));
  return Status::Ok;
}

Status TabletTable::arrive(TabletId id, TabletEpoch epoch, std::shared_ptr<const ArrivingRange> arriving) {
  SpinGuard guard(lock_);
  std::vector<Tablet> tablets = current().tablets;
  const auto found = std::find_if(tablets.begin(), tablets.end(), [id](const Tablet& t) { return t.id == id; });
  const bool may_arrive =
      found != tablets.end() && (found->state == TabletState::Pulling || found->state == TabletState::Lent);
  if (!may_arrive) return Status::NotFound;
  found->state = TabletState::Arriving;
  found->epoch = epoch;
  found->arriving = std::move(arriving);
  found->lent_to.reset();
  found->changes_after = 0;
  publish(std::move(tablets));
  return Status::Ok;
}

Status TabletTable::freezeArriving(TabletId id, TabletEpoch return_epoch) {
  SpinGuard guard(lock_);
  std::vector<Tablet> tablets = current().tablets;
  const auto found = std::find_if(tablets.begin(), tablets.end(), [id](const Tablet& t) { return t.id == id; });
  if (found == tablets.end() || found->arriving == nullptr) return Status::NotFound;
  if (return_epoch <= found->return_given_up) return Status::StaleEpoch;
  found->state = TabletState::Frozen;
  found->return_epoch = return_epoch;
  publish(std::move(tablets));
  return Status::Ok;
}

Status TabletTable::thaw(TabletId id, TabletEpoch return_epoch) {
  SpinGuard guard(lock_);
  std::vector<Tablet> tablets = current().tablets;
  const auto found = std::find_if(tablets.begin(), tablets.end(), [id](const Tablet& t) { return t.id == id; });
  if (found == tablets.end() || found->arriving == nullptr) return Status::NotFound;
  found->return_given_up = std::max(found->return_given_up, return_epoch);
  if (found->return_epoch <= return_epoch) found->state = TabletState::Arriving;
  publish(std::move(tablets));
  return Status::Ok;
}

Status TabletTable::split(TabletId id, const Tablet& lower, const Tablet& upper) {
  SpinGuard guard(lock_);
  std::vector<Tablet> tablets = current().tablets;
  const auto found = std::find_if(tablets.begin(), tablets.end(), [id](const Tablet& t) { return t.id == id; });
  if (found == tablets.end()) return Status::NotFound;
  const bool covers = lower.range.first == found->range.first && upper.range.last == found->range.last &&
                      lower.range.last + 1 == upper.range.first && lower.range.first <= lower.range.last &&
                      upper.range.first <= upper.range.last;
  if (!covers || lower.table != found->table || upper.table != found->table) return Status::BadRequest;
  const Tablet old = *found;
  tablets.erase(found);
  for (const Tablet& half : {lower, upper}) {
    tablets.push_back(half);
    tablets.back().state = old.state;
    tablets.back().first_segment = old.first_segment;
    tablets.back().durability = old.durability;
    tablets.back().counters = std::make_shared<TabletCounters>();
  }
  publish(std::move(tablets));
  return Status::Ok;
}

Status TabletTable::remove(TabletId id) {
  SpinGuard guard(lock_);
  std::vector<Tablet> tablets = current().tablets;
  const auto found = positionOf(tablets, id);
  if (found == tablets.end()) return Status::NotFound;
  tablets.erase(found);
  publish(std::move(tablets));
  return Status::Ok;
}

std::optional<Tablet> TabletTable::get(TabletId id) const {
  SpinGuard guard(lock_);
  const auto found = positionOf(current().tablets, id);
  if (found == current().tablets.end()) return std::nullopt;
  return *found;
}

std::vector<Tablet> TabletTable::list() const {
  SpinGuard guard(lock_);
  return current().tablets;
}

}  // namespace ramcore::store
