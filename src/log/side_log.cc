#include "log/side_log.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ramcore::log {

namespace {

// Memory is fetched for writing this far ahead of a copy: a few entries of usual size.
constexpr size_t kFetchAheadBytes = 768;

}  // namespace

SideLog::~SideLog() { RC_CHECK_MSG(joined_ || segments_.empty(), "a side log is joined or abandoned"); }

bool SideLog::hasSpaceFor(uint64_t bytes) const {
  return uses_held_room_ ? log_.limit().hasSpaceInHeld(bytes) : log_.limit().hasSpaceFor(bytes);
}

Result<Appended> SideLog::append(std::span<const EntryInput> group, AppendClass append_class) {
  RC_CHECK(!closed_ && !group.empty() && group.size() <= kGroupEntriesMax);
  uint64_t total_bytes = 0;
  for (const EntryInput& input : group) {
    const uint32_t bytes = input.alignedBytes();
    RC_CHECK(bytes <= log_.config().entry_bytes_max);
    total_bytes += bytes;
  }
  if (append_class == AppendClass::Write && !hasSpaceFor(total_bytes)) {
    log_.stats().refused_no_space.fetch_add(1, std::memory_order_relaxed);
    return Status::NoSpace;
  }
  Appended appended;
  for (int attempt = 0; attempt < 2; ++attempt) {
    Segment* const segment = attempt == 0 && has_open_ ? segments_.back() : openSegment();
    if (segment == nullptr) return Status::RetryLater;
    Segment::Cursor cursor = segment->cursor();
    bool placed = true;
    for (size_t i = 0; placed && i < group.size(); ++i) {
      placed = segment->place(cursor, group[i].alignedBytes(), appended.refs[i]);
    }
    if (!placed) continue;
    segment->adopt(cursor);
    for (size_t i = 0; i < group.size(); ++i) {
      std::byte* const at = log_.pool().memory().at(appended.refs[i]);
      writeEntry(at, group[i], i + 1 < group.size(), log_.counts().namedFor(group[i]));
      log_.counts().countLive(*segment, EntryView(at), group[i].dead);
    }
    segment->commit(cursor.offset);
    replicator_.advance(*segment);
    appended.end = {segment->id(), cursor.offset, 0};
    log_.stats().appended_entries.fetch_add(group.size(), std::memory_order_relaxed);
    log_.stats().appended_bytes.fetch_add(total_bytes, std::memory_order_relaxed);
    log_.stats().side_bytes.fetch_add(total_bytes, std::memory_order_relaxed);
    bytes_ += total_bytes;
    return appended;
  }
  return Status::RetryLater;
}

Result<EntryRef> SideLog::copy(const EntryView& entry, AppendClass append_class) {
  RC_DCHECK(!closed_);
  // The entry may name a segment of the log that it comes from, which means nothing in this log.
  constexpr Keep kKeep{.name = false, .result = false};
  const uint32_t bytes = entry.copyBytes(kKeep);
  RC_CHECK(bytes <= log_.config().entry_bytes_max);
  if (append_class == AppendClass::Write && !hasSpaceFor(copied_bytes_ + bytes)) {
    log_.stats().refused_no_space.fetch_add(1, std::memory_order_relaxed);
    return Status::NoSpace;
  }
  for (int attempt = 0; attempt < 2; ++attempt) {
    Segment* const segment = attempt == 0 && has_open_ ? segments_.back() : openSegment();
    if (segment == nullptr) return Status::RetryLater;
    Segment::Cursor cursor = segment->cursor();
    EntryRef ref;
    if (!segment->place(cursor, bytes, ref)) continue;
    segment->adopt(cursor);
    std::byte* const at = log_.pool().memory().at(ref);
    copyEntry(at, entry, kKeep);
    __builtin_prefetch(at + kFetchAheadBytes, 1);
    __builtin_prefetch(at + kFetchAheadBytes + 64, 1);
    segment->live().noteEntryBytes(bytes);
    segment->commit(cursor.offset);
    copied_bytes_ += bytes;
    bytes_ += bytes;
    if (entry.type() == EntryType::ResultRecord) copied_result_bytes_ += bytes;
    if (entry.type() == EntryType::Object && bytes > log_.config().smallEntryBytesMax()) copied_large_bytes_ += bytes;
    ++copied_entries_;
    return ref;
  }
  return Status::RetryLater;
}

void SideLog::settle() {
  if (copied_entries_ == 0) return;
  Segment& segment = *segments_.back();
  segment.live().add(static_cast<int64_t>(copied_bytes_));
  segment.live().addResults(static_cast<int64_t>(copied_result_bytes_));
  segment.live().addLarge(static_cast<int64_t>(copied_large_bytes_));
  LogStats& stats = log_.stats();
  stats.large_bytes.fetch_add(static_cast<int64_t>(copied_large_bytes_), std::memory_order_relaxed);
  stats.result_bytes.fetch_add(static_cast<int64_t>(copied_result_bytes_), std::memory_order_relaxed);
  stats.live_bytes.fetch_add(static_cast<int64_t>(copied_bytes_), std::memory_order_relaxed);
  stats.appended_entries.fetch_add(copied_entries_, std::memory_order_relaxed);
  stats.appended_bytes.fetch_add(copied_bytes_, std::memory_order_relaxed);
  stats.side_bytes.fetch_add(copied_bytes_, std::memory_order_relaxed);
  copied_bytes_ = 0;
  copied_result_bytes_ = 0;
  copied_large_bytes_ = 0;
  copied_entries_ = 0;
  replicator_.advance(segment);
}

Segment* SideLog::openSegment() {
  settle();
  Segment* const segment = log_.privateSegments().open(SegmentKind::Side, 0, copies_);
  if (segment == nullptr) return nullptr;
  // The present segment is closed only when there is a new one: otherwise the next append tries the present one again,
  // which has to be open.
  closeSegment();
  segments_.push_back(segment);
  has_open_ = true;
  return segment;
}

void SideLog::closeSegment() {
  if (std::exchange(has_open_, false)) log_.privateSegments().close(*segments_.back());
}

void SideLog::closeDamaged() {
  if (!has_open_ || !segments_.back()->isDamaged()) return;
  settle();
  closeSegment();
}

void SideLog::close() {
  RC_CHECK(!closed_);
  settle();
  closed_ = true;
  closeSegment();
}

bool SideLog::isClosed() const {
  return closed_ && std::all_of(segments_.begin(), segments_.end(),
                                [](const Segment* segment) { return segment->state() == SegmentState::Closed; });
}

bool SideLog::lacksPlaces() const {
  return std::any_of(segments_.begin(), segments_.end(), [](const Segment* segment) { return segment->lacksPlaces(); });
}

void SideLog::awaitLeast() {
  RC_CHECK(closed_);
  for (const Segment* segment : segments_) replicator_.awaitLeast(segment->id());
}

size_t SideLog::unclosedCount() const {
  return static_cast<size_t>(std::count_if(segments_.begin(), segments_.end(), [](const Segment* segment) {
    return segment->state() != SegmentState::Closed;
  }));
}

void SideLog::join() {
  RC_CHECK(isClosed() && !joined_);
  roll_ = log_.heads().addToJoin(segments_);
  joined_ = true;
}

bool SideLog::takeBack() {
  RC_CHECK(joined_);
  if (segments_.empty()) {
    log_.cancelHeadToJoin(roll_);
    joined_ = false;
  } else {
    joined_ = !log_.heads().takeBack(segments_, roll_);
  }
  return !joined_;
}

void SideLog::abandon() {
  RC_CHECK(!joined_);
  for (Segment* segment : segments_) log_.privateSegments().drop(*segment);
  leave();
}

void SideLog::leave() {
  RC_CHECK(!joined_);
  segments_.clear();
  has_open_ = false;
  copied_bytes_ = 0;
  copied_result_bytes_ = 0;
  copied_large_bytes_ = 0;
  copied_entries_ = 0;
  closed_ = true;
}

}  // namespace ramcore::log
