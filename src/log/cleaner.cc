#include "log/cleaner.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutation.h"

namespace ramcore::log {

namespace {

constexpr uint32_t kCandidatesMax = 64;

uint32_t headerEntryBytes() { return alignedEntryBytes(0, sizeof(SegmentHeaderPayload), false); }

uint64_t liveBytesOf(const Segment& segment) {
  return static_cast<uint64_t>(std::max<int64_t>(segment.liveBytes(), 0));
}

}  // namespace

bool Cleaner::isNeeded() const {
  SegmentPool& pool = log_.pool();
  const LogConfig& config = log_.config();
  if (pool.freeBytesForHeads() < config.memory_bytes / 100 * config.clean_below_free_percent) return true;
  if (pool.isShortOfSlots()) return true;
  // Writes are about to be refused though tombstones could go together with what they hold down.
  const LogStats& stats = log_.stats();
  const auto limit = static_cast<int64_t>(config.liveBytesMax());
  return stats.live_bytes.load(std::memory_order_relaxed) > limit - limit / 16 &&
         stats.tombstone_bytes.load(std::memory_order_relaxed) > static_cast<int64_t>(config.segment_bytes);
}

bool Cleaner::isUrgent() const {
  const LogConfig& config = log_.config();
  return log_.pool().freeBytesForHeads() < config.memory_bytes / 200 * config.clean_below_free_percent;
}

Cleaner::Progress Cleaner::step(uint32_t bytes_max) {
  switch (phase_) {
    case Phase::Idle:
      return begin();
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
  log_.setPassRunning(true);
  const Progress progress = beginPass();
  if (phase_ == Phase::Idle) log_.setPassRunning(false);
  return progress;
}

Cleaner::Progress Cleaner::beginPass() {
  if (skips_left_ > 0 && deathsBytes() < deaths_wanted_) {
    --skips_left_;
    return Progress::Idle;
  }
  std::vector<Segment*> cleanable;
  log_.listCleanable(cleanable);
  for (const uint32_t slot : choose(cleanable)) candidates_.push_back(&log_.pool().slot(slot));
  if (candidates_.empty()) return Progress::Idle;
  if (!openSurvivors()) {
    endPass();
    return Progress::Idle;
  }
  // From here on all of them will leave together, and tombstones among them that name one another with them.
  for (Segment* candidate : candidates_) log_.setInPass(*candidate, true);
  phase_ = Phase::Copying;
  return Progress::Worked;
}

std::vector<uint32_t> Cleaner::choose(std::span<Segment* const> cleanable) const {
  const LogConfig& config = log_.config();
  const uint64_t now_bytes = log_.stats().appended_bytes.load(std::memory_order_relaxed);
  const uint64_t room = std::min(log_.pool().freeBytes(), config.survivorReserveBytes());
  std::vector<SegmentSummary> summaries;
  std::vector<uint32_t> small_heads;
  for (const Segment* segment : cleanable) {
    if (segment->kind() == SegmentKind::SmallHead) {
      small_heads.push_back(segment->slot());
      continue;
    }
    const uint64_t age = now_bytes - std::min(now_bytes, segment->stampBytes());
    summaries.push_back({.slot = segment->slot(),
                         .memory_bytes = segment->memoryBytes(),
                         .live_bytes = liveBytesOf(*segment),
                         .freed_elsewhere_bytes = segment->namedByTombstoneBytes(),
                         .age_bytes = age});
  }
  CleaningBudget budget;
  budget.copy_bytes_max = room;
  budget.gain_bytes_min = config.extentBytesMin();
  budget.gain_bytes_enough = std::max<uint64_t>(config.segment_bytes, room / 2);
  budget.segment_count_max = kCandidatesMax;
  budget.merge_small = log_.pool().isShortOfSlots();
  std::vector<uint32_t> chosen = chooseSegments(summaries, budget);
  // Small heads return nothing that others could use, but the next full memory needs them back: they come along with
  // any pass, and make a pass of their own if its roll does not cost another one of them.
  if (!chosen.empty() || log_.pool().mayHaveRoom(SegmentKind::Head)) {
    chosen.insert(chosen.begin(), small_heads.begin(), small_heads.end());
  }
  return chosen;
}

/// Opens as many survivors as certainly take what is alive in the candidates, giving up candidates if there is not
/// enough memory. Nothing has been moved yet, so this is the time to give up.
bool Cleaner::openSurvivors() {
  uint64_t room = 0;
  for (;;) {
    uint64_t needed = 0;
    uint32_t largest = 0;
    for (const Segment* candidate : candidates_) {
      needed += liveBytesOf(*candidate);
      largest = std::max(largest, candidate->largestEntryBytes());
    }
    // One entry more: what dies while it is being copied takes room for that long.
    if (needed == 0 || room >= needed + largest) break;
    if (Segment* const survivor = log_.openPrivate(SegmentKind::Survivor); survivor != nullptr) {
      survivors_.push_back(survivor);
      room += survivor->certainRoomBytes(largest);
    } else {
      candidates_.pop_back();
    }
  }
  return isWorthwhile();
}

/// Whether the pass gives back more than survivors keep. What is left over at the end of a survivor comes back only in
/// extents, so a smaller gain would be no gain, for ever.
bool Cleaner::isWorthwhile() const {
  uint64_t given_up = 0;
  uint64_t kept = 0;
  uint64_t elsewhere = 0;
  bool frees_small_head = false;
  for (const Segment* candidate : candidates_) {
    kept += liveBytesOf(*candidate);
    elsewhere += candidate->namedByTombstoneBytes();
    if (candidate->kind() == SegmentKind::SmallHead) {
      frees_small_head = true;
    } else {
      given_up += candidate->memoryBytes();
    }
  }
  const bool has_room = log_.pool().mayHaveRoom(SegmentKind::Head);
  if (frees_small_head && has_room) return true;
  if (log_.pool().isShortOfSlots() && candidates_.size() > survivors_.size() + 1) return true;
  // The pass rolls the head, which leaves a closed one behind unless it is one of the reserve.
  const uint64_t cost = (has_room ? 2 : 1) * uint64_t{log_.config().extentBytesMin()};
  return given_up >= kept + cost || elsewhere >= cost;
}

Cleaner::Progress Cleaner::copy(uint32_t bytes_max) {
  uint32_t looked_at = 0;
  bool stuck = false;
  while (looked_at < bytes_max && candidate_index_ < candidates_.size() && !stuck) {
    Segment& from = *candidates_[candidate_index_];
    if (candidate_offset_ >= from.committedBytes()) {
      ++candidate_index_;
      candidate_offset_ = 0;
      continue;
    }
    const EntryRef ref = from.refAt(candidate_offset_);
    const uint32_t bytes = log_.view(ref).alignedBytes();
    stuck = !copyEntryAt(from, ref);
    if (stuck) break;
    candidate_offset_ += bytes;
    looked_at += bytes;
  }
  for (Segment* survivor : survivors_) {
    if (survivor->committedBytes() == survivor->cursor().offset) continue;
    survivor->commit(survivor->cursor().offset);
    replicator_.advance(*survivor);
  }
  if (candidate_index_ == candidates_.size()) finishCopying();
  return stuck && looked_at == 0 ? Progress::Waiting : Progress::Worked;
}

bool Cleaner::isWanted(EntryRef ref, const EntryView& entry) {
  switch (entry.type()) {
    case EntryType::SegmentHeader:
    case EntryType::LogDigest:
    case EntryType::SafeVersion:
      return false;  // every head since has newer ones
    default:
      break;
  }
  if (!log_.isOwnTombstone(entry)) return owner_.isLive(ref, entry);
  if (log_.isTombstoneLive(entry.payloadAs<TombstonePayload>())) return true;
  owner_.dropped(ref, entry);
  return false;
}

/// False: there is no room for it now, though there ought to be.
bool Cleaner::copyEntryAt(Segment& from, EntryRef ref) {
  const EntryView entry = log_.view(ref);
  if (!isWanted(ref, entry)) return true;
  Segment::Cursor before;
  EntryRef to;
  Segment* const survivor = placeInSurvivor(entry.alignedBytes(), before, to);
  if (survivor == nullptr) return false;
  copyEntry(log_.pool().memory().at(to), entry);
  const EntryView copied = log_.view(to);
  // The copy is counted first: once the owner refers to it, it can die.
  log_.moveLive(from, *survivor, copied);
  if (!owner_.relocated(ref, to, copied) && !log_.isOwnTombstone(copied)) {
    // It died meanwhile, and its tombstone names the old place: the copy must not exist. (The death was counted where
    // the entry was.)
    log_.moveLive(*survivor, from, copied);
    survivor->rewind(before);
    return true;
  }
  log_.stats().cleaner_bytes_copied.fetch_add(copied.alignedBytes(), std::memory_order_relaxed);
  return true;
}

Segment* Cleaner::placeInSurvivor(uint32_t aligned_bytes, Segment::Cursor& before, EntryRef& to) {
  for (;;) {
    if (survivor_index_ == survivors_.size()) {
      Segment* const survivor = log_.openPrivate(SegmentKind::Survivor);
      if (survivor == nullptr) return nullptr;
      survivors_.push_back(survivor);
    }
    Segment& survivor = *survivors_[survivor_index_];
    before = survivor.cursor();
    Segment::Cursor cursor = before;
    if (survivor.place(cursor, aligned_bytes, to)) {
      survivor.adopt(cursor);
      return &survivor;
    }
    ++survivor_index_;
  }
}

void Cleaner::finishCopying() {
  deaths_end_ = log_.end();
  uint64_t stamp = 0;
  for (const Segment* candidate : candidates_) stamp += candidate->stampBytes() / candidates_.size();
  std::vector<Segment*> used;
  for (Segment* survivor : survivors_) {
    if (survivor->committedBytes() <= headerEntryBytes()) {
      log_.dropPrivate(*survivor);
      continue;
    }
    survivor->setStamp(stamp);
    log_.closePrivate(*survivor);
    used.push_back(survivor);
  }
  survivors_ = std::move(used);
  phase_ = Phase::Closing;
}

Cleaner::Progress Cleaner::awaitClosed() {
  const bool closed = std::all_of(survivors_.begin(), survivors_.end(),
                                  [](const Segment* segment) { return segment->state() == SegmentState::Closed; });
  if (!closed) return Progress::Waiting;
  phase_ = Phase::Deaths;
  return awaitDeaths();
}

/// What was left behind as dead may have been killed by entries that are not flushed yet. If the segments left the
/// digest before those are, a crash could take both the old entry and its successor.
Cleaner::Progress Cleaner::awaitDeaths() {
  log_.requestFlush(deaths_end_);
  if (!log_.isFlushed(deaths_end_)) return Progress::Waiting;
  judgePass();  // from here on the candidates are the log's to free
  log_.exchange(survivors_, candidates_);
  roll_ = log_.requestRollForPass();
  phase_ = Phase::Rolling;
  return awaitRoll();
}

/// What has died since the log began: grows with every death, and with nothing else.
int64_t Cleaner::deathsBytes() const {
  const LogStats& stats = log_.stats();
  return static_cast<int64_t>(stats.appended_bytes.load(std::memory_order_relaxed)) -
         stats.live_bytes.load(std::memory_order_relaxed);
}

/// A pass may give back less than it looked like: what does not fit at the end of an extent is lost, and the head that
/// it rolled stays behind. The next one would probably be the same again, so it waits until something has died. Not for
/// ever: a segment that is closed only now may hold garbage that died long ago.
void Cleaner::judgePass() {
  uint64_t given_up = 0;
  bool freed_small_head = false;
  for (const Segment* candidate : candidates_) {
    const bool is_small = candidate->kind() == SegmentKind::SmallHead;
    freed_small_head |= is_small;
    if (!is_small) given_up += candidate->memoryBytes();
  }
  uint64_t kept = log_.config().extentBytesMin();
  for (const Segment* survivor : survivors_) kept += survivor->memoryBytes();
  const bool merged = log_.pool().isShortOfSlots() && candidates_.size() > survivors_.size() + 1;
  const bool gained = given_up > kept || freed_small_head || merged;
  constexpr uint32_t kSkipsMax = 64;
  skips_ = gained ? 0 : std::clamp<uint32_t>(skips_ * 2, 1, kSkipsMax);
  skips_left_ = skips_;
  deaths_wanted_ = deathsBytes() + int64_t{log_.config().extentBytesMin()};
}

Cleaner::Progress Cleaner::awaitRoll() {
  if (!log_.isRolled(roll_)) return Progress::Waiting;
  log_.stats().segments_cleaned.fetch_add(candidates_.size(), std::memory_order_relaxed);
  log_.stats().cleaner_passes.fetch_add(1, std::memory_order_relaxed);
  // The candidates are the log's now, and may be others' already.
  candidates_.clear();
  survivors_.clear();
  endPass();
  return Progress::Worked;
}

/// Back to the beginning. Segments that are still listed here were not touched.
void Cleaner::endPass() {
  for (Segment* survivor : survivors_) log_.dropPrivate(*survivor);
  survivors_.clear();
  candidates_.clear();
  candidate_index_ = 0;
  candidate_offset_ = 0;
  survivor_index_ = 0;
  phase_ = Phase::Idle;
  log_.setPassRunning(false);
}

}  // namespace ramcore::log
