#include "sim/cluster/memory_damage.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"

namespace ramcore::sim {
namespace {

constexpr size_t kObjectsMax = 4;

// A bit of the header or of the key. The state has no checksum.
uint32_t bitOf(const log::EntryView& entry, runtime::Random& random) {
  const auto bytes = static_cast<uint64_t>(log::kEntryHeaderBytes + entry.keyBytes());
  uint64_t byte = random.below(bytes);
  if (byte == offsetof(log::EntryHeader, state)) byte = offsetof(log::EntryHeader, crc);
  return static_cast<uint32_t>(byte * 8 + random.below(8));
}

// Has the log look at an entry.
void find(log::Log& log, log::EntryRef ref) {
  log::Segment& segment = *log.pool().segmentOf(ref);
  uint32_t next = 0;
  RC_CHECK_MSG(!log.integrity().isSound(segment, segment.offsetOf(ref), next), "a flipped bit was not found");
}

}  // namespace

std::vector<log::EntryRef> MemoryDamage::soundEntries(log::Log& log) {
  std::vector<log::EntryRef> refs;
  for (uint32_t slot = 0; slot < log.pool().slotCount(); ++slot) {
    const log::Segment& segment = log.pool().slot(slot);
    const bool is_sound = segment.state() == log::SegmentState::Closed && !segment.isDamaged();
    if (!is_sound || !log.members().isListed(segment)) continue;
    for (uint32_t at = 0; at < segment.committedBytes();) {
      refs.push_back(segment.refAt(at));
      at += log.view(refs.back()).alignedBytes();
    }
  }
  return refs;
}

void MemoryDamage::flip(log::Log& log, Place place) {
  log.pool().memory().at(place.ref)[place.bit / 8] ^= static_cast<std::byte>(1u << (place.bit % 8));
}

bool MemoryDamage::isIn(const master::Master& master) {
  return master.log() != nullptr && master.log()->stats().damaged_now.load() != 0;
}

size_t MemoryDamage::spoil(master::Master& master, TableId table, const HashRange& range, runtime::Random& random) {
  log::Log& log = *master.log();
  // Replicators may still read what is behind this.
  const SegmentId read_up_to = log.durability().flushedUpTo().segment;
  std::vector<Place> places;
  for (const log::EntryRef ref : soundEntries(log)) {
    const log::EntryView entry = log.view(ref);
    if (entry.type() != log::EntryType::Object || entry.table() != table) continue;
    if (log.pool().segmentOf(ref)->id() >= read_up_to) continue;
    const KeyHash hash = hashKey(table, entry.key());
    const bool is_alive = range.contains(hash) && master.store().lookup(table, hash, entry.key()).ref == ref;
    if (is_alive) places.push_back({ref, bitOf(entry, random)});
  }
  for (size_t i = 0; i < places.size(); ++i) std::swap(places[i], places[random.between(i, places.size() - 1)]);
  places.resize(std::min<size_t>(places.size(), 1 + random.below(kObjectsMax)));
  if (places.empty()) return 0;
  for (const Place& place : places) {
    flip(log, place);
    find(log, place.ref);
  }
  if (master.replicas() == nullptr) {
    std::vector<Place>& all = flipped_[master.id()];
    all.insert(all.end(), places.begin(), places.end());
  }
  return places.size();
}

bool MemoryDamage::restore(master::Master& master) {
  const auto flipped = flipped_.find(master.id());
  if (flipped == flipped_.end() || master.log() == nullptr) return true;
  log::Log& log = *master.log();
  for (const Place& place : flipped->second) flip(log, place);
  flipped->second.clear();
  for (const log::Damage& damage : log.integrity().damages()) {
    if (master.store().damages().reconcile(damage) == Status::Ok) static_cast<void>(log.release(damage));
  }
  if (isIn(master)) return false;
  flipped_.erase(flipped);
  return true;
}

}  // namespace ramcore::sim
