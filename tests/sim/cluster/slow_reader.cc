#include "sim/cluster/slow_reader.h"

#include <algorithm>
#include <vector>

#include "base/crc32c.h"

namespace ramcore::sim {
namespace {

/// Closed segments, those with least alive first.
std::vector<const log::Segment*> closedSegments(const log::Log& log) {
  std::vector<const log::Segment*> found;
  for (uint32_t i = 0; i < log.pool().slotCount(); ++i) {
    const log::Segment& segment = log.pool().slot(i);
    if (segment.state() == log::SegmentState::Closed && segment.isListed()) found.push_back(&segment);
  }
  std::sort(found.begin(), found.end(), [](const log::Segment* a, const log::Segment* b) {
    return a->live().bytes() != b->live().bytes() ? a->live().bytes() < b->live().bytes() : a->id() < b->id();
  });
  return found;
}

/// The objects of the segment that lookups find.
std::vector<log::EntryRef> objectsIn(const master::Master& master, const log::Segment& segment) {
  std::vector<log::EntryRef> objects;
  for (uint32_t offset = 0; offset < segment.committedBytes();) {
    const log::EntryRef ref = segment.refAt(offset);
    const log::EntryView entry = master.log()->view(ref);
    offset += entry.alignedBytes();
    if (entry.type() != log::EntryType::Object) continue;
    const KeyHash hash = hashKey(entry.table(), entry.key());
    if (master.store().lookup(entry.table(), hash, entry.key()).ref == ref) objects.push_back(ref);
  }
  return objects;
}

}  // namespace

uint64_t SlowReader::printOf(const log::EntryView& entry) {
  return (uint64_t{crc32c(entry.key())} << 32) ^ crc32c(entry.payload()) ^ (entry.version() << 16);
}

bool SlowReader::begin(const master::Master& master, runtime::Random& random) {
  if (reading_ || master.log() == nullptr) return false;
  for (const log::Segment* segment : closedSegments(*master.log())) {
    const std::vector<log::EntryRef> objects = objectsIn(master, *segment);
    if (objects.empty()) continue;
    const log::EntryRef ref = objects[random.below(objects.size())];
    const log::EntryView entry = master.log()->view(ref);
    reading_.emplace(rcu_.registerThread(), runtime::Pin(), ref, segment->id(), entry.alignedBytes(), printOf(entry));
    return true;
  }
  return false;
}

void SlowReader::pin(master::Master& master) {
  reading_->pin = master.pins().take(0);
  rcu_.unregisterThread(*reading_->self);
  reading_->self.reset();
}

std::string SlowReader::end(const master::Master& master) {
  const Reading& reading = *reading_;
  const log::Segment* const segment = master.log()->pool().segmentOf(reading.ref);
  std::string wrong;
  if (segment == nullptr || segment->id() != reading.segment) {
    wrong = "was given back under a reader";
  } else {
    const log::EntryView entry = master.log()->view(reading.ref);
    const bool is_it = entry.type() == log::EntryType::Object && entry.alignedBytes() == reading.bytes &&
                       printOf(entry) == reading.print;
    if (!is_it) wrong = "changed under a reader";
  }
  if (!wrong.empty()) {
    wrong = "an entry of segment " + std::to_string(reading.segment.value) + " of server " +
            std::to_string(master.id().value) + " " + wrong + (reading.self ? "" : " that held a pin");
  }
  abandon();
  return wrong;
}

void SlowReader::abandon() {
  if (!reading_) return;
  if (reading_->self) rcu_.unregisterThread(*reading_->self);
  reading_.reset();
}

}  // namespace ramcore::sim
