#include "log/cleaning/cleaner.h"

#include <algorithm>

#include "base/mutation.h"

namespace ramcore::log {

namespace {

constexpr uint32_t kCandidatesMax = 64;

uint32_t headerEntryBytes() { return alignedEntryBytes(0, sizeof(SegmentHeaderPayload), false); }

uint64_t liveBytesOf(const Segment& segment) {
  return static_cast<uint64_t>(std::max<int64_t>(segment.live().bytes(), 0));
}

}  // namespace

Cleaner::Progress Cleaner::step(uint32_t bytes_max) {
  switch (phase_) {
    case Phase::Idle:
      return begin();
    case Phase::Compacting:
      return compact(bytes_max);
    case Phase::Opening:
      return awaitPlaces();
    case Phase::Copying:
      return copy(bytes_max);
    case Phase::Closing:
      return awaitClosed();
    case Phase::Deaths:
      return awaitDeaths();
    case Phase::Rolling:
      return awaitRoll();
  }
  return Progress::Idle;
}

Cleaner::Progress Cleaner::begin() {
  if (skips_left_ > 0 && log_.limit().deathsBytes() < deaths_wanted_) {
    // Only calls that found memory short use up a skip: no writer waits for a pass that frees storage alone.
    if (shortage_.lacksMemory()) --skips_left_;
    return Progress::Idle;
  }
  // Memory of segments that were given up comes back soon. Until then a pass could use only a part of the survivors'
  // reserve.
  const SegmentPool& pool = log_.pool();
  if (pool.freeBytes() < pool.survivorReserveBytes() && pool.exchangedBytes() > 0) return Progress::Waiting;
  std::vector<Segment*> cleanable;
  log_.listCleanable(cleanable);
  if (beginCompaction(cleanable)) return Progress::Worked;
  if (!log_.heads().tryBeginPass()) return Progress::Waiting;
  // The gain of a pass is certain only when no segment is being closed, given up or waited for.
  const bool is_settled = log_.heads().isSettled();
  const Verdict verdict = beginPass(cleanable);
  if (verdict == Verdict::Begun) {
    log_.limit().noteCollectable(true);
    return Progress::Worked;
  }
  log_.heads().endPass();
  if (verdict == Verdict::NoGain && is_settled) log_.limit().noteCollectable(false);
  // The storage may be full of live entries, or of replicas of other servers. Then there is nothing more to gain until
  // much has died.
  if (verdict == Verdict::NoGain && shortage_.isStorageScarce() && !shortage_.lacksMemory())
    putOff(false, log_.config().segment_bytes);
  return Progress::Idle;
}

/// Begins a compaction of the segments that are best for one, if decide() prefers that to a pass.
/// @return false: none has begun
bool Cleaner::beginCompaction(std::span<Segment* const> cleanable) {
  const LogConfig& config = log_.config();
  std::vector<SegmentSummary> compactable;
  for (const Segment* segment : cleanable) {
    const uint64_t gain = Compaction::gainOf(*segment, config);
    if (gain == 0) continue;
    SegmentSummary& summary = compactable.emplace_back(summaryOf(*segment));
    summary.memory_bytes = summary.live_bytes + gain;
  }
  CleaningBudget budget;
  budget.copy_bytes_max = std::min(log_.pool().freeBytes(), config.survivorReserveBytes());
  budget.gain_bytes_min = 2 * uint64_t{config.seglet_bytes};
  // Each copy takes the memory of a whole segment until it is trimmed.
  budget.segment_count_max = config.survivor_segments;
  const std::vector<uint32_t> chosen = chooseToCompact(compactable, budget);
  if (chosen.empty()) return false;
  if (decide(stateWith(compactable, chosen, cleanable)) != CleaningAction::Compact) return false;
  std::vector<Segment*> segments;
  for (const uint32_t slot : chosen) segments.push_back(&log_.pool().slot(slot));
  if (!compaction_.begin(segments)) return false;
  log_.limit().noteCollectable(true);
  phase_ = Phase::Compacting;
  return true;
}

/// What decide() needs to choose between a compaction and a pass.
/// @param compacting  slots of those of `compactable` that would be compacted
CleaningState Cleaner::stateWith(std::span<const SegmentSummary> compactable, std::span<const uint32_t> compacting,
                                 std::span<Segment* const> cleanable) const {
  const LogStats& stats = log_.stats();
  const auto atLeastZero = [](const std::atomic<int64_t>& bytes) {
    return static_cast<uint64_t>(std::max<int64_t>(bytes.load(std::memory_order_relaxed), 0));
  };
  CleaningState state{.has_room_for_head = log_.pool().mayHaveRoom(SegmentKind::Head),
                      .is_short_of_slots = log_.pool().isShortOfSlots(),
                      .is_short_of_places = replicator_.isShortOfPlaces(),
                      .live_bytes = atLeastZero(stats.live_bytes),
                      .live_bytes_max = log_.limit().liveBytesMax(),
                      .tombstone_bytes = atLeastZero(stats.tombstone_bytes),
                      .copies = replicator_.copyCount(),
                      .storage_percent = replicator_.storagePercent(),
                      .combining = {},
                      .compacting = {}};
  const auto add = [](LevelCost& cost, const SegmentSummary& segment) {
    cost.copied_bytes += segment.live_bytes;
    const uint64_t returned = segment.memory_bytes + segment.freed_elsewhere_bytes;
    cost.freed_bytes += returned > segment.live_bytes ? returned - segment.live_bytes : 0;
  };
  for (SegmentSummary segment : compactable) {
    segment.freed_elsewhere_bytes = 0;
    if (std::find(compacting.begin(), compacting.end(), segment.slot) != compacting.end()) {
      add(state.compacting, segment);
    }
  }
  for (const uint32_t slot : choose(cleanable)) {
    const Segment& segment = log_.pool().slot(slot);
    if (segment.kind() != SegmentKind::SmallHead) add(state.combining, summaryOf(segment));
  }
  return state;
}

Cleaner::Progress Cleaner::compact(uint32_t bytes_max) {
  switch (compaction_.step(bytes_max)) {
    case Compaction::Progress::Worked:
      return Progress::Worked;
    case Compaction::Progress::Waiting:
      return Progress::Waiting;
    case Compaction::Progress::Done:
      break;
  }
  phase_ = Phase::Idle;
  return Progress::Worked;
}

Cleaner::Verdict Cleaner::beginPass(std::span<Segment* const> cleanable) {
  SegmentPool& pool = log_.pool();
  is_tight_ = !pool.hasReserve();
  for (const uint32_t slot : choose(cleanable)) candidates_.push_back(&pool.slot(slot));
  if (candidates_.empty()) return Verdict::NoGain;
  const bool can_end = canEnd();
  if (!can_end || !openSurvivors()) {
    // The survivors that were opened give their memory and places back. Without a pause the next attempt would do the
    // same again.
    if (!survivors_.empty() && shortage_.hasTooMany()) putOff(false, log_.config().granuleBytes(largestEntryBytes()));
    reset();
    // The segments that are best by benefit and cost may together gain less than their survivors lose. Then the
    // emptiest are tried, once. If these gain too little as well, there is nothing to gain. With too many segments,
    // those in which least is alive were tried at once.
    const bool was_last_try = shortage_.hasTooMany() || takes_emptiest_;
    takes_emptiest_ = !was_last_try;
    return can_end && was_last_try ? Verdict::NoGain : Verdict::NotNow;
  }
  takes_emptiest_ = false;
  // The oldest first, so that each survivor holds entries of one age.
  std::sort(candidates_.begin(), candidates_.end(), [](const Segment* a, const Segment* b) {
    return a->stampBytes() != b->stampBytes() ? a->stampBytes() < b->stampBytes() : a->id() < b->id();
  });
  places_asked_ = 0;
  phase_ = Phase::Opening;
  if (!shortage_.mayMissPlaces()) beginCopying();
  return Verdict::Begun;
}

void Cleaner::beginCopying() {
  // From here on all candidates will leave together. Tombstones in them that name one of them leave as well.
  std::vector<SharedCopy::Item> items;
  for (Segment* candidate : candidates_) {
    log_.counts().setInPass(*candidate, true);
    items.push_back({.from = candidate});
  }
  copying_.begin(items, survivors_);
  phase_ = Phase::Copying;
}

/// Waits until all survivors have places on backups, and gives the pass up after many calls. Where places are short,
/// several masters may each have found some for their survivors, and none enough. As long as nothing was moved the
/// places can be given back, so that other masters end their passes, which frees more.
Cleaner::Progress Cleaner::awaitPlaces() {
  constexpr uint32_t kAskedMax = 512;
  const bool have_all =
      std::all_of(survivors_.begin(), survivors_.end(), [](const Segment* survivor) { return survivor->hasPlaces(); });
  if (have_all) {
    beginCopying();
    return Progress::Worked;
  }
  if (++places_asked_ < kAskedMax) return Progress::Waiting;
  putOff(false, log_.config().granuleBytes(largestEntryBytes()));
  reset();
  log_.heads().endPass();
  return Progress::Idle;
}

SegmentSummary Cleaner::summaryOf(const Segment& segment) const {
  // The age counts from when the segment was begun, not from when its entries were written: otherwise a new survivor,
  // which has lost nothing yet, would be cleaned again and again because its entries are old.
  const uint64_t now_bytes = log_.stats().appended_bytes.load(std::memory_order_relaxed);
  return {.slot = segment.slot(),
          .memory_bytes = segment.memoryBytes(),
          .live_bytes = liveBytesOf(segment),
          .freed_elsewhere_bytes = segment.live().namedByTombstoneBytes(),
          .age_bytes = now_bytes - std::min(now_bytes, segment.begunBytes())};
}

/// The bytes that the survivors of a pass may take. Where the storage for replicas runs short, that is no more than
/// backups keep places for.
uint64_t Cleaner::survivorBytesMax() const {
  return shortage_.isStorageScarce() ? log_.config().survivorReserveBytes() : log_.pool().survivorReserveBytes();
}

std::vector<uint32_t> Cleaner::choose(std::span<Segment* const> cleanable) const {
  const LogConfig& config = log_.config();
  const uint64_t room = std::min(log_.pool().freeBytes(), survivorBytesMax());
  std::vector<SegmentSummary> summaries;
  std::vector<uint32_t> small_heads;
  for (const Segment* segment : cleanable) {
    if (segment->kind() == SegmentKind::SmallHead) {
      small_heads.push_back(segment->slot());
      continue;
    }
    summaries.push_back(summaryOf(*segment));
  }
  CleaningBudget budget;
  budget.copy_bytes_max = room;
  budget.gain_bytes_min = 2 * uint64_t{config.seglet_bytes};
  budget.gain_bytes_enough = std::max<uint64_t>(config.segment_bytes, room / 2);
  budget.segment_count_max = kCandidatesMax;
  budget.merge_small = shortage_.hasTooMany();
  budget.emptiest_first = takes_emptiest_;
  std::vector<uint32_t> chosen = chooseSegments(summaries, budget);
  // A small head returns no memory that other segments could use. But when memory is full, removes need small heads,
  // and only removes make room then. So small heads come along with any pass, and enough of them make a pass of their
  // own.
  if (!chosen.empty() || small_heads.size() >= smallHeadsWorthAPass()) {
    chosen.insert(chosen.begin(), small_heads.begin(), small_heads.end());
  }
  return chosen;
}

/// How many small heads make a pass worthwhile by themselves: one, or two if no other head finds room, because the roll
/// of the pass then takes one of them.
size_t Cleaner::smallHeadsWorthAPass() const { return shortage_.findsHead() ? 1 : 2; }

/// Whether the roll that ends the pass is certain to find a head, however full the memory is by then. The last small
/// head is only taken by a pass that gives one back, so there is always one for the next.
bool Cleaner::canEnd() const {
  const uint32_t free_count = log_.pool().freeSmallHeadCount();
  const bool returns_one = std::any_of(candidates_.begin(), candidates_.end(), [](const Segment* candidate) {
    return candidate->kind() == SegmentKind::SmallHead;
  });
  return free_count >= 2 || (free_count == 1 && returns_one);
}

/// Opens as many survivors as certainly take what is alive in the candidates, giving up candidates if there is not
/// enough memory. Nothing has been moved yet, so this is the time to give up.
bool Cleaner::openSurvivors() {
  if (!isWorthwhile()) return false;
  uint64_t room = 0;
  for (;;) {
    uint64_t needed = 0;
    for (const Segment* candidate : candidates_) needed += liveBytesOf(*candidate);
    const uint32_t largest = largestEntryBytes();
    // Room for one entry more: an entry that dies while it is being copied takes room until its copy is taken back.
    if (needed == 0 || room >= needed + largest) break;
    // Where places are scarce, backups keep a few for each master's survivors.
    const bool may_open = !shortage_.mayMissPlaces() || survivors_.size() <= log_.config().survivor_segments;
    Segment* const survivor = may_open ? log_.privateSegments().open(SegmentKind::Survivor, largest) : nullptr;
    if (survivor != nullptr) {
      survivors_.push_back(survivor);
      room += survivor->certainRoomBytes(largest);
    } else {
      candidates_.pop_back();
    }
  }
  return isWorthwhile();
}

/// The length of the largest entry that the candidates hold.
uint32_t Cleaner::largestEntryBytes() const {
  uint32_t largest = 0;
  for (const Segment* candidate : candidates_) largest = std::max(largest, candidate->live().largestEntryBytes());
  return largest;
}

/// An estimate of what a survivor loses at the ends of its extents: half of the entry that does not fit. The entry is
/// taken to be a large one with a probability that is the share of large entries in the live bytes. (Half of the
/// largest entry would be far too much: where large entries are few, no pass would ever be worth it, and a memory with
/// some would be full at 86 %.)
uint64_t Cleaner::expectedLoss(const Segment& survivor) const {
  uint64_t live = 0;
  uint64_t large = 0;
  for (const Segment* candidate : candidates_) {
    live += liveBytesOf(*candidate);
    large += static_cast<uint64_t>(std::max<int64_t>(candidate->live().largeBytes(), 0));
  }
  if (live == 0) return 0;
  const auto half = [&](uint32_t entry_bytes) {
    return static_cast<double>(survivor.capacityBytes() - survivor.certainRoomBytes(entry_bytes)) / 2;
  };
  const uint32_t largest = largestEntryBytes();
  const double large_share = static_cast<double>(std::min(large, live)) / static_cast<double>(live);
  const uint32_t small_max = std::min(largest, log_.config().smallEntryBytesMax());
  return static_cast<uint64_t>(large_share * half(largest) + (1 - large_share) * half(small_max));
}

/// Whether the pass will probably give back more memory than it keeps: live bytes, the expected loss, and what is left
/// over of survivors, which comes back in granules only. Passes that gained less would eat up the reserve. If less than
/// the reserve was free when the pass began, twice the loss is assumed.
bool Cleaner::isWorthwhile() const {
  uint64_t given_up = 0;
  uint64_t kept = 0;
  uint64_t elsewhere = 0;
  size_t small_heads = 0;
  for (const Segment* candidate : candidates_) {
    kept += liveBytesOf(*candidate);
    elsewhere += candidate->live().namedByTombstoneBytes();
    if (candidate->kind() == SegmentKind::SmallHead) {
      ++small_heads;
    } else {
      given_up += candidate->memoryBytes();
    }
  }
  for (const Segment* survivor : survivors_) kept += (is_tight_ ? 2 : 1) * expectedLoss(*survivor);
  const bool has_room = log_.pool().mayHaveRoom(SegmentKind::Head);
  // While backups are short of places, a pass may not use up any: otherwise its survivors, and the head that it rolls,
  // would take the last ones.
  if (replicator_.isShortOfPlaces() && !gainsSegments() &&
      (small_heads < smallHeadsWorthAPass() || candidates_.size() < segmentsLeft())) {
    return false;
  }
  if (small_heads >= smallHeadsWorthAPass() || (shortage_.hasTooMany() && gainsSegments())) return true;
  // If the storage alone is scarce, there is nothing else to gain: free memory is no help.
  if (shortage_.isStorageScarce() && !shortage_.lacksMemory()) return false;
  // The pass rolls the head, which leaves a closed head behind, unless a small head of the reserve is taken for that.
  const uint64_t cost = (has_room ? 2 : 1) * uint64_t{log_.config().granuleBytes(largestEntryBytes())};
  return given_up >= kept + cost || (elsewhere >= cost && !is_tight_);
}

/// How many segments the pass leaves in the place of its candidates, at least: survivors, and the head that is rolled
/// for it.
size_t Cleaner::segmentsLeft() const {
  uint64_t live_bytes = 0;
  for (const Segment* candidate : candidates_) live_bytes += liveBytesOf(*candidate);
  const uint64_t segment_bytes = log_.config().segment_bytes;
  return std::max<size_t>(survivors_.size(), (live_bytes + segment_bytes - 1) / segment_bytes) + 1;
}

bool Cleaner::gainsSegments() const { return candidates_.size() > segmentsLeft(); }

Cleaner::Progress Cleaner::copy(uint32_t bytes_max) {
  bool has_worked = copying_.work(0, bytes_max) == SharedCopy::Progress::Worked;
  if (!log_.integrity().canRestore()) {
    for (const SharedCopy::Item& item : copying_.takeUnsound()) {
      leaveBehind(*item.from);
      has_worked = true;
    }
  }
  if (copying_.isDone()) {
    finishCopying();
    has_worked = true;
  }
  return has_worked ? Progress::Worked : Progress::Waiting;
}

bool Cleaner::help(uint32_t worker, uint32_t bytes_max) {
  return copying_.work(worker, bytes_max) == SharedCopy::Progress::Worked;
}

uint32_t Cleaner::workersWanted() const {
  if (workersMax() == 1) return 1;
  const CleaningPressure pressure{.has_room_for_head = log_.pool().mayHaveRoom(SegmentKind::Head),
                                  .free_bytes = log_.pool().freeBytesForHeads(),
                                  .begin_below_bytes = log_.config().cleanBelowFreeBytes(),
                                  .storage_percent = replicator_.storagePercent()};
  return std::clamp(cleanersWanted(pressure, workersMax()), 1u, std::max(1u, copying_.workersUseful()));
}

/// Takes a damaged segment out of the pass, in a log without replicas. Entries that were not moved stay where they are,
/// because there are references to them. The originals of those that were moved stay there, too; a log without replicas
/// is never replayed, so they are never taken for alive. With replicas a pass waits until the entry is restored.
void Cleaner::leaveBehind(const Segment& damaged) {
  const auto found = std::find(candidates_.begin(), candidates_.end(), &damaged);
  log_.counts().setInPass(**found, false);
  candidates_.erase(found);
}

void Cleaner::finishCopying() {
  pacer_.noteCopied();
  // The position is taken after the copying: every entry that killed one which was left behind was appended before it.
  deaths_end_ = log_.heads().end();
  deaths_ticket_ = log_.settling().graceTicket();
  uint64_t stamp = 0;
  for (const Segment* candidate : candidates_) stamp += candidate->stampBytes() / candidates_.size();
  std::vector<Segment*> used;
  for (Segment* survivor : copying_.end()) {
    if (survivor->committedBytes() <= headerEntryBytes()) {
      log_.privateSegments().drop(*survivor);
      continue;
    }
    survivor->setStamp(stamp);
    log_.privateSegments().close(*survivor);
    used.push_back(survivor);
  }
  survivors_ = std::move(used);
  phase_ = Phase::Closing;
}

Cleaner::Progress Cleaner::awaitClosed() {
  const bool closed = std::all_of(survivors_.begin(), survivors_.end(),
                                  [](const Segment* segment) { return segment->state() == SegmentState::Closed; });
  // A recovery needs a closed replica of each survivor: no digest may list one before.
  if (!closed) return Progress::Waiting;
  phase_ = Phase::Deaths;
  return awaitDeaths();
}

/// Waits until the deaths on which the pass has relied are flushed and known to the owner. An entry that was left
/// behind as dead may have been killed by one that is not flushed yet. If the segments left the digest before that is
/// flushed, a crash could take both the old entry and its successor. And a writer that has killed an entry may not have
/// told the owner yet: until it has, a reader may still be led to the old place.
Cleaner::Progress Cleaner::awaitDeaths() {
  log_.durability().requestFlush(deaths_end_);
  const bool waits = !RC_MUTATION("clean-before-deaths-are-flushed");
  if (waits && (!log_.durability().isFlushed(deaths_end_) || !log_.settling().isOver(deaths_ticket_)))
    return Progress::Waiting;
  judgePass();  // from here on the candidates are the log's to free
  log_.members().exchange(survivors_, candidates_);
  roll_ = log_.heads().requestRollForPass();
  phase_ = Phase::Rolling;
  return awaitRoll();
}

/// Judges whether the pass gains anything, and puts the next one off if not. A pass may give back less than expected:
/// room at the ends of extents is lost, and the head that it rolls stays behind. The next pass would probably gain
/// nothing either, so it waits until something has died. It does not wait for ever, because a segment that is closed in
/// the meantime may hold garbage that died long ago.
void Cleaner::judgePass() {
  uint64_t given_up = 0;
  uint64_t elsewhere = 0;
  bool freed_small_head = false;
  for (const Segment* candidate : candidates_) {
    const bool is_small = candidate->kind() == SegmentKind::SmallHead;
    freed_small_head |= is_small;
    elsewhere += candidate->live().namedByTombstoneBytes();
    if (!is_small) given_up += candidate->memoryBytes();
  }
  const uint64_t granule = log_.config().granuleBytes(largestEntryBytes());
  uint64_t kept = granule;
  for (const Segment* survivor : survivors_) kept += survivor->memoryBytes();
  log_.stats().cleaner_bytes_freed.fetch_add(given_up > kept ? given_up - kept : 0, std::memory_order_relaxed);
  const bool merged = shortage_.hasTooMany() && gainsSegments();
  // Tombstones elsewhere that have become garbage are gained as well: live bytes fall, and the next pass finds them.
  const bool gained = given_up + elsewhere > kept || freed_small_head || merged;
  putOff(gained, granule);
}

/// Unless this pass has `gained`, puts the next one off until `deaths_bytes` more bytes have died, or until it was
/// skipped 1, 2, 4 ... kSkipsMax times.
void Cleaner::putOff(bool gained, uint64_t deaths_bytes) {
  constexpr uint32_t kSkipsMax = 64;
  skips_ = gained ? 0 : std::clamp<uint32_t>(skips_ * 2, 1, kSkipsMax);
  skips_left_ = skips_;
  deaths_wanted_ = log_.limit().deathsBytes() + static_cast<int64_t>(deaths_bytes);
}

Cleaner::Progress Cleaner::awaitRoll() {
  if (!log_.isRolled(roll_)) return Progress::Waiting;
  pacer_.noteEnded();
  log_.stats().segments_cleaned.fetch_add(candidates_.size(), std::memory_order_relaxed);
  log_.stats().cleaner_passes.fetch_add(1, std::memory_order_relaxed);
  // The log has given the candidates up, and their slots may hold other segments already.
  candidates_.clear();
  survivors_.clear();
  reset();
  log_.heads().endPass();
  if (skips_left_ > 0) log_.limit().noteCollectable(false);
  return Progress::Worked;
}

/// Becomes idle. Nothing was moved into survivors that are still listed here: they are given up.
void Cleaner::reset() {
  for (Segment* survivor : survivors_) log_.privateSegments().drop(*survivor);
  survivors_.clear();
  candidates_.clear();
  phase_ = Phase::Idle;
}

}  // namespace ramcore::log
