#include "log/log.h"

#include <algorithm>

#include "base/check.h"

namespace ramcore::log {

Log::Log(const LogConfig& config, LogIdentity identity, const LogMemory& memory, Environment environment)
    : memory_(memory),
      environment_(environment),
      pool_(config, memory),
      durability_(pool_, environment.replicator, lock_),
      limit_(pool_, stats_),
      counts_(pool_, stats_, integrity_, lock_),
      settling_(environment.rcu),
      own_entries_(identity, memory),
      joining_(pool_.slotCount()),
      reclaimer_(pool_, stats_, counts_, settling_, environment.pins, lock_),
      members_(pool_, counts_, settling_, joining_, reclaimer_, lock_),
      heads_({.owner = environment.owner,
              .replicator = environment.replicator,
              .pool = pool_,
              .stats = stats_,
              .durability = durability_,
              .settling = settling_,
              .joining = joining_,
              .members = members_,
              .own_entries = own_entries_,
              .lock = lock_}),
      appender_(pool_, stats_, environment.replicator, durability_, limit_, counts_, heads_, lock_),
      private_segments_({.replicator = environment.replicator,
                         .pool = pool_,
                         .stats = stats_,
                         .heads = heads_,
                         .members = members_,
                         .settling = settling_,
                         .own_entries = own_entries_,
                         .lock = lock_}),
      copies_({.replicator = environment.replicator,
               .pool = pool_,
               .stats = stats_,
               .members = members_,
               .own_entries = own_entries_,
               .lock = lock_}) {
  RC_CHECK(config.validate().ok());
  environment_.replicator.attach(*this);
  maintain();
}

Log::~Log() { fail(Status::Shutdown); }

size_t Log::reclaim(uint64_t now_ns) {
  const SegmentReclaimer::Reclaimed reclaimed = reclaimer_.reclaim(now_ns);
  if (reclaimed.has_released) maintain();
  return reclaimed.waiting_count;
}

/// A segment of a side log that is still joining may be cleaned at once: in a full memory the head with which it joins
/// may be waiting for memory. While the replicator is short of places, that head may find none; then the segment is not
/// listed before the head is there. The reason is that the side log may have to be taken back, which is too late once a
/// pass may have the segment (`SegmentMembership::stays`). The slots are looked at in slices, because appends wait for
/// the lock; each segment is judged by itself.
void Log::listCleanable(std::vector<Segment*>& segments) {
  constexpr uint32_t kSlotsPerHold = 64;
  const bool is_short = environment_.replicator.isShortOfPlaces();
  segments.reserve(pool_.slotCount() - pool_.freeSlotCount());
  for (uint32_t first = 0; first < pool_.slotCount(); first += kSlotsPerHold) {
    LogGuard guard(lock_);
    for (uint32_t i = first; i < std::min(first + kSlotsPerHold, pool_.slotCount()); ++i) {
      Segment& segment = pool_.slot(i);
      SegmentMembership& membership = segment.membership();
      if (!membership.is_listed || segment.state() != SegmentState::Closed || segment.isDamaged()) continue;
      const bool joins = membership.joins_with && headId() < membership.joins_with;
      const bool is_over = settling_.isKnownToOwner(segment);
      if ((joins && is_short && !membership.stays) || !is_over) continue;
      membership.stays = membership.stays || joins;
      segments.push_back(&segment);
    }
  }
}

// What replication reports.

void Log::segmentOpened(SegmentId id) {
  if (Segment* const segment = pool_.find(id); segment != nullptr) segment->replication().has_places = true;
  heads_.noteOpened(id);
}

void Log::segmentLacksPlaces(SegmentId id, bool lacks) {
  if (Segment* const segment = pool_.find(id); segment != nullptr) segment->replication().lacks_places = lacks;
}

void Log::segmentClosed(SegmentId id) {
  Segment* const segment = pool_.find(id);
  if (segment != nullptr) heads_.noteClosed(*segment);  // else it was private and was dropped meanwhile
}

void Log::segmentUnsound(const Segment& segment, uint32_t offset_bytes) {
  Segment& own = pool_.slot(segment.slot());
  uint32_t next = 0;
  // If the segment was replaced or given up meanwhile there is nothing to restore.
  if (own.state() == SegmentState::Closed) static_cast<void>(integrity_.isSound(own, offset_bytes, next));
}

/// No replica has the right bytes of a segment that is still open, so nothing but zeros between entries can be mended.
bool Log::segmentSpoilt(const Segment& segment, uint32_t offset_bytes) {
  return integrity_.mendPadding(pool_.slot(segment.slot()), offset_bytes);
}

}  // namespace ramcore::log
