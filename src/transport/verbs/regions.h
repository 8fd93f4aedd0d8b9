#pragma once

#include <vector>

#include "transport/message.h"
#include "transport/verbs/device.h"

namespace ramcore::transport::verbs {

/// Memory that messages are sent from where they stand, by region id. Filled before there are endpoints, and then read
/// by any thread.
class Regions {
 public:
  /// Returns the id that the region gets.
  RegionId add(const std::byte* base, size_t bytes, MemoryRegion region) {
    all_.push_back(Entry{base, bytes, std::move(region)});
    return static_cast<RegionId>(all_.size());
  }
  /// Uses up the id of memory that cannot be registered: chunks in it have no key.
  void addUnregistered() { all_.push_back(Entry{.base = nullptr, .bytes = 0, .region = {}}); }
  size_t count() const { return all_.size(); }
  /// Finds the key by which the adapter reads the chunk; false if the chunk does not lie in the region that it names.
  bool findKey(const Chunk& chunk, uint32_t& key) const {
    if (chunk.region == 0 || chunk.region > all_.size()) return false;
    const Entry& entry = all_[chunk.region - 1u];
    if (chunk.address < entry.base || chunk.address + chunk.bytes > entry.base + entry.bytes) return false;
    key = entry.region->lkey;
    return true;
  }

 private:
  struct Entry {
    const std::byte* base;
    size_t bytes;
    MemoryRegion region;
  };
  std::vector<Entry> all_;
};

}  // namespace ramcore::transport::verbs
