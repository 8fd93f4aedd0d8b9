#include "sim/cluster/sim_replicator.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "log/format/log_reader.h"
#include "sim/workload/values.h"

namespace ramcore::sim {

SimReplicator::SimReplicator(runtime::SimScheduler& scheduler, runtime::Executor& executor, runtime::Random random,
                             DurableLedger* ledger, const Options& options)
    : scheduler_(scheduler),
      executor_(executor),
      random_(random),
      ledger_(ledger),
      options_(options),
      storage_percent_(!options.at_once && random_.below(3) == 0 ? 80 : 0) {}

bool SimReplicator::lacksPlace(const log::Segment& segment) const {
  if (segment.isHeadKind()) return lacking_ == Lacking::Heads;
  const bool awaits_all = segment.copiesAwaited() == log::CopiesAwaited::All;
  return lacking_ == Lacking::Sides || (lacking_ == Lacking::Further && awaits_all);
}

void SimReplicator::open(const log::Segment& segment) {
  segments_[segment.id()] = false;
  if (lacksPlace(segment)) {
    if (segment.isHeadKind()) {
      lacking_heads_[segment.id()] = &segment;
      is_short_ = true;
    } else {
      lacking_sides_[segment.id()] = &segment;
      events_->segmentLacksPlaces(segment.id(), true);
    }
    return;
  }
  if (segment.isHeadKind()) heads_[segment.id()].segment = &segment;
  is_short_ = is_short_ && segment.kind() != log::SegmentKind::Head;
  schedule(Kind::Opened, segment);
}

void SimReplicator::advance(const log::Segment& segment) {
  if (!lacking_sides_.contains(segment.id())) schedule(Kind::Durable, segment);
}

void SimReplicator::close(const log::Segment& segment) {
  segments_[segment.id()] = true;
  if (segment.isHeadKind() && lacking_ == Lacking::FormerHeads) {
    unclosed_heads_[segment.id()] = &segment;
    return;
  }
  if (!lacking_sides_.contains(segment.id())) schedule(Kind::Closed, segment);
}

void SimReplicator::withdraw(SegmentId head) {
  if (lacking_heads_.erase(head) == 0) return;
  segments_.erase(head);
  events_->segmentWithdrawn(head);
}

void SimReplicator::free(SegmentId segment) {
  segments_.erase(segment);
  lacking_sides_.erase(segment);
}

void SimReplicator::lackPlaces(Lacking what) {
  lacking_ = what;
  if (what != Lacking::Nothing) return;
  for (const auto& [id, segment] : std::exchange(lacking_heads_, {})) open(*segment);
  for (const auto& [id, segment] : std::exchange(lacking_sides_, {})) findPlaces(*segment);
  for (const auto& [id, segment] : std::exchange(unclosed_heads_, {})) close(*segment);
}

void SimReplicator::awaitLeast(SegmentId segment) {
  const auto lacking = lacking_sides_.find(segment);
  if (lacking_ != Lacking::Further || lacking == lacking_sides_.end()) return;
  const log::Segment& side = *lacking->second;
  lacking_sides_.erase(lacking);
  findPlaces(side);
}

void SimReplicator::findPlaces(const log::Segment& side) {
  events_->segmentLacksPlaces(side.id(), false);
  schedule(Kind::Opened, side);
  advance(side);
  if (segments_[side.id()]) close(side);
}

void SimReplicator::schedule(Kind kind, const log::Segment& segment) {
  if (options_.at_once) {
    Report now(*this, kind, segment.id(), segment.committedBytes());
    if (kind == Kind::Opened) events_->segmentOpened(now.segment);
    if (kind == Kind::Durable) events_->segmentDurable(now.segment, now.bytes);
    if (kind == Kind::Closed) events_->segmentClosed(now.segment);
    return;
  }
  delay(kind, segment.id(), segment.committedBytes());
}

void SimReplicator::holdFlushes(bool hold) {
  holds_flushes_ = hold;
  if (hold) return;
  for (const LogPosition position : std::exchange(held_flushes_, {})) requestFlush(position);
}

void SimReplicator::requestFlush(LogPosition position) {
  if (holds_flushes_) {
    held_flushes_.push_back(position);
    return;
  }
  const auto head = heads_.find(position.segment);
  const bool is_known = ledger_ != nullptr && head != heads_.end();
  delay(Kind::Flushed, position.segment,
        is_known ? groupEnd(head->second, position.offset_bytes) : position.offset_bytes);
}

// The end of the group in which the offset lies: only whole groups are flushed. A caller that asks in the middle of a
// job for a flush of what it has put into the index so far may name an offset in the middle of a group.
uint32_t SimReplicator::groupEnd(const Head& head, uint32_t offset_bytes) {
  const uint32_t from = head.noted_flushed_bytes;
  const uint32_t to = head.segment->committedBytes();
  if (offset_bytes <= from || offset_bytes >= to) return offset_bytes;
  std::vector<std::byte> bytes(to - from);
  head.segment->copyOut(from, to, bytes.data());
  log::SegmentReader reader(bytes);
  while (from + reader.offset() < offset_bytes && !reader.nextGroup().empty()) {
  }
  return std::max(offset_bytes, from + reader.offset());
}

void SimReplicator::delay(Kind kind, SegmentId segment, uint32_t bytes) {
  const bool slow = random_.below(1000) < options_.slow_permille;
  const int64_t bound_ns = slow ? options_.slow_ns_max : options_.delay_ns_max;
  Report& report = reports_.emplace_back(*this, kind, segment, bytes);
  report.self = std::prev(reports_.end());
  scheduler_.after(report, static_cast<int64_t>(random_.below(static_cast<uint64_t>(bound_ns))));
}

void SimReplicator::deliver(Report& report) {
  const Kind kind = report.kind;
  const SegmentId segment = report.segment;
  const uint32_t bytes = report.bytes;
  note(report);
  reports_.erase(report.self);
  // The last thing: it may call back.
  switch (kind) {
    case Kind::Opened:
      return events_->segmentOpened(segment);
    case Kind::Durable:
      return events_->segmentDurable(segment, bytes);
    case Kind::Flushed:
      return deliverFlushed(segment, bytes);
    case Kind::Closed:
      return events_->segmentClosed(segment);
  }
}

// All heads before it are closed as well, so all of it was noted.
void SimReplicator::moved(const log::Segment& segment) { RC_CHECK(options_.at_once || !heads_.contains(segment.id())); }

// Only of what is durable; the rest takes its time again. What is closed is flushed.
void SimReplicator::deliverFlushed(SegmentId segment, uint32_t bytes) {
  const auto head = heads_.find(segment);
  if (head == heads_.end() || head->second.closed) return;
  if (head->second.durable_bytes < bytes) return delay(Kind::Flushed, segment, bytes);
  events_->segmentFlushed(segment, bytes);
}

void SimReplicator::note(const Report& report) {
  const auto found = heads_.find(report.segment);
  if (found == heads_.end()) return;
  Head& head = found->second;
  const bool is_flushed = report.kind != Kind::Durable;
  // Of a flush as much as is durable already.
  if (report.kind == Kind::Flushed && head.durable_bytes < report.bytes) return;
  head.durable_bytes = std::max(head.durable_bytes, report.bytes);
  if (is_flushed) head.flushed_bytes = std::max(head.flushed_bytes, report.bytes);
  if (report.kind == Kind::Closed) head.closed = true;
  while (!heads_.empty()) {
    Head& oldest = heads_.begin()->second;
    noteEntries(oldest, oldest.noted_durable_bytes, oldest.durable_bytes, false);
    noteEntries(oldest, oldest.noted_flushed_bytes, oldest.flushed_bytes, true);
    if (!oldest.closed) break;
    heads_.erase(heads_.begin());
  }
}

// Notes the entries of sync tables, or those of other tables, up to `end_bytes` as durable.
void SimReplicator::noteEntries(Head& head, uint32_t& noted_bytes, uint32_t end_bytes, bool is_sync) {
  if (ledger_ == nullptr || noted_bytes >= end_bytes) return;
  std::vector<std::byte> bytes(end_bytes - noted_bytes);
  head.segment->copyOut(noted_bytes, end_bytes, bytes.data());
  log::SegmentReader reader(bytes);
  for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
    for (const log::EntryView& entry : group) {
      const bool is_object = entry.type() == log::EntryType::Object;
      if (!is_object && entry.type() != log::EntryType::Tombstone) continue;
      const auto key = keyOfBytes(asText(entry.key()));
      // Of tables that are created to be dropped nobody is told anything.
      if (!key || ledger_->isSync(*key) != is_sync) continue;
      is_object ? ledger_->addObject(*key, entry.version()) : ledger_->addRemoval(*key, entry.version());
    }
  }
  RC_CHECK_MSG(reader.end() == log::WalkEnd::Clean, "what is committed is whole groups");
  noted_bytes = end_bytes;
}

}  // namespace ramcore::sim
