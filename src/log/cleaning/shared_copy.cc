#include "log/cleaning/shared_copy.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ramcore::log {

SharedCopy::SharedCopy(Log& log, EntryOwner& owner, uint32_t workers_max) : log_(log) {
  RC_CHECK(workers_max >= 1);
  for (uint32_t i = 0; i < workers_max; ++i) workers_.push_back(std::make_unique<Worker>(*this, owner, i));
}

void SharedCopy::begin(std::span<const Item> items, std::span<Segment* const> survivors) {
  SpinGuard guard(lock_);
  RC_CHECK(unfinished_count_ == 0 && survivors_out_count_ == 0);
  sources_.clear();
  survivors_.clear();
  entry_bytes_max_ = 0;
  uint64_t left_bytes = 0;
  for (const Item& item : items) {
    sources_.push_back({.item = item});
    left_bytes += item.from->committedBytes();
    entry_bytes_max_ = std::max(entry_bytes_max_, item.from->live().largestEntryBytes());
  }
  for (Segment* const survivor : survivors) survivors_.push_back({.segment = survivor});
  unfinished_count_ = items.size();
  left_bytes_.store(left_bytes, std::memory_order_relaxed);
}

bool SharedCopy::isDone() const {
  SpinGuard guard(lock_);
  return unfinished_count_ == 0 && survivors_out_count_ == 0;
}

std::vector<Segment*> SharedCopy::end() {
  SpinGuard guard(lock_);
  RC_CHECK(unfinished_count_ == 0 && survivors_out_count_ == 0);
  std::vector<Segment*> survivors;
  for (const Survivor& survivor : survivors_) survivors.push_back(survivor.segment);
  sources_.clear();
  survivors_.clear();
  return survivors;
}

std::vector<SharedCopy::Item> SharedCopy::takeUnsound() {
  SpinGuard guard(lock_);
  std::vector<Item> taken;
  for (Source& source : sources_) {
    if (source.is_out || source.is_done || !source.is_unsound) continue;
    source.is_done = true;
    --unfinished_count_;
    left_bytes_.fetch_sub(source.item.from->committedBytes() - source.offset, std::memory_order_relaxed);
    taken.push_back(source.item);
  }
  return taken;
}

uint32_t SharedCopy::workersUseful() const {
  SpinGuard guard(lock_);
  if (unfinished_count_ == 0) return 0;
  const auto sources = std::ranges::count_if(
      sources_, [](const Source& source) { return !source.is_done && !source.item.from->isDamaged(); });
  const auto survivors = std::ranges::count_if(survivors_, [](const Survivor& survivor) { return !survivor.is_full; });
  // A compaction has no survivors.
  return static_cast<uint32_t>(survivors_.empty() ? sources : std::min(sources, survivors));
}

SharedCopy::Progress SharedCopy::work(uint32_t number, uint32_t bytes_max) {
  Worker& worker = *workers_[number];
  const uint64_t copied_before = worker.mover.copiedBytes();
  uint64_t compacted = 0;
  uint32_t looked_at = 0;
  bool found_damage = false;
  for (bool goes_on = true; goes_on && looked_at < bytes_max;) {
    std::optional<Work> work = checkOut(worker);
    if (!work) break;
    worker.copy = work->copy;
    const uint32_t offset_before = work->offset;
    const uint64_t at_begin = worker.mover.copiedBytes();
    goes_on = worker.mover.move(*work->from, work->offset, bytes_max - looked_at, worker);
    looked_at += work->offset - offset_before;
    if (work->copy != nullptr) compacted += worker.mover.copiedBytes() - at_begin;
    Outcome outcome = Outcome::Stopped;
    if (goes_on && work->offset >= work->from->committedBytes()) {
      outcome = Outcome::Finished;
      if (work->copy != nullptr) log_.copies().finish(*work->copy);
    } else if (!goes_on && work->from->isDamaged()) {
      outcome = Outcome::Unsound;
      found_damage = !work->was_damaged;
    }
    checkIn(*work, outcome);
  }
  giveBackSurvivor(worker, false);
  LogStats& stats = log_.stats();
  stats.compaction_bytes_copied.fetch_add(compacted, std::memory_order_relaxed);
  if (number != 0) {
    stats.cleaner_bytes_shared.fetch_add(worker.mover.copiedBytes() - copied_before, std::memory_order_relaxed);
  }
  return looked_at != 0 || found_damage ? Progress::Worked : Progress::Nothing;
}

std::optional<SharedCopy::Work> SharedCopy::checkOut(const Worker& worker) {
  // First the segment that this worker had, then those that no worker had, then those that other workers had. Damaged
  // segments come when no other is left.
  const auto rank = [&](const Source& source, bool is_damaged) {
    if (is_damaged) return 3;
    return source.last_worker == worker.number ? 0 : source.last_worker == kNobody ? 1 : 2;
  };
  SpinGuard guard(lock_);
  Source* best = nullptr;
  int best_rank = worker.number == 0 ? 4 : 3;
  bool best_is_damaged = false;
  for (Source& source : sources_) {
    if (source.is_done || source.is_out) continue;
    const bool is_damaged = source.item.from->isDamaged();
    const int its_rank = rank(source, is_damaged);
    if (its_rank >= best_rank) continue;
    best = &source;
    best_rank = its_rank;
    best_is_damaged = is_damaged;
  }
  if (best == nullptr) return std::nullopt;
  best->is_out = true;
  best->is_unsound = false;
  best->last_worker = worker.number;
  return Work{.index = static_cast<size_t>(best - sources_.data()),
              .from = best->item.from,
              .copy = best->item.copy,
              .offset = best->offset,
              .was_damaged = best_is_damaged};
}

void SharedCopy::checkIn(const Work& work, Outcome outcome) {
  SpinGuard guard(lock_);
  Source& source = sources_[work.index];
  left_bytes_.fetch_sub(work.offset - source.offset, std::memory_order_relaxed);
  source.offset = work.offset;
  source.is_out = false;
  source.is_unsound = outcome == Outcome::Unsound;
  if (outcome != Outcome::Finished) return;
  source.is_done = true;
  --unfinished_count_;
}

MoveTarget::Place SharedCopy::Worker::place(uint32_t aligned_bytes, bool is_settled) {
  for (;;) {
    if (copy == nullptr && survivor == nullptr && !shared.takeSurvivor(*this)) return {};
    Segment& to = copy != nullptr ? *copy : *survivor;
    Place place{.segment = &to, .ref = {}, .before = to.cursor()};
    Segment::Cursor cursor = place.before;
    if (to.place(cursor, aligned_bytes, place.ref)) {
      to.adopt(cursor);
      return place;
    }
    if (!is_settled) return {};
    RC_CHECK_MSG(copy == nullptr, "a copy has room for all that is alive");
    shared.giveBackSurvivor(*this, true);
  }
}

/// Checks out a survivor that is not full. If all are full, opens another one; that would mean that more was alive than
/// was counted.
/// @return false: other workers have all survivors that are not full; or all are full, and there is no memory for
/// another
bool SharedCopy::takeSurvivor(Worker& worker) {
  uint32_t entry_bytes_max = 0;
  {
    SpinGuard guard(lock_);
    Survivor* best = nullptr;
    bool others_have_some = false;
    const auto rank = [&](const Survivor& survivor) {
      return survivor.last_worker == worker.number ? 0 : survivor.last_worker == kNobody ? 1 : 2;
    };
    for (Survivor& survivor : survivors_) {
      if (survivor.is_full) continue;
      others_have_some = others_have_some || survivor.is_out;
      if (!survivor.is_out && (best == nullptr || rank(survivor) < rank(*best))) best = &survivor;
    }
    if (best != nullptr) {
      best->is_out = true;
      ++survivors_out_count_;
      best->last_worker = worker.number;
      worker.survivor = best->segment;
      worker.survivor_index = static_cast<size_t>(best - survivors_.data());
      return true;
    }
    if (others_have_some) return false;
    entry_bytes_max = entry_bytes_max_;
  }
  worker.survivor = log_.privateSegments().open(SegmentKind::Survivor, entry_bytes_max);
  if (worker.survivor == nullptr) return false;
  SpinGuard guard(lock_);
  worker.survivor_index = survivors_.size();
  survivors_.push_back({.segment = worker.survivor, .last_worker = worker.number, .is_out = true});
  ++survivors_out_count_;
  return true;
}

void SharedCopy::giveBackSurvivor(Worker& worker, bool is_full) {
  Segment* const survivor = std::exchange(worker.survivor, nullptr);
  if (survivor == nullptr) return;
  if (survivor->committedBytes() != survivor->cursor().offset) {
    survivor->commit(survivor->cursor().offset);
    log_.replicator().advance(*survivor);
  }
  SpinGuard guard(lock_);
  --survivors_out_count_;
  survivors_[worker.survivor_index].is_out = false;
  survivors_[worker.survivor_index].is_full = is_full;
}

}  // namespace ramcore::log
