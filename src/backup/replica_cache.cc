#include "backup/replica_cache.h"

#include <algorithm>

namespace ramcore::backup {

std::list<ReplicaCache::Entry>::iterator ReplicaCache::find(ServerId master, SegmentId segment) {
  return std::find_if(entries_.begin(), entries_.end(), [master, segment](const Entry& entry) {
    return entry.master == master && entry.segment == segment;
  });
}

bool ReplicaCache::makeRoom() {
  if (entries_.size() < kReplicasMax) return true;
  const auto oldest = std::find_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return !entry.loading; });
  if (oldest == entries_.end()) return false;
  entries_.erase(oldest);
  return true;
}

runtime::Task<std::shared_ptr<const ReplicaCache::Replica>> ReplicaCache::get(ServerId master, SegmentId segment,
                                                                              runtime::Executor& reader) {
  for (;;) {
    const auto found = find(master, segment);
    if (found != entries_.end() && !found->loading) {
      entries_.splice(entries_.end(), entries_, found);
      co_return found->replica;
    }
    if (found == entries_.end() && makeRoom()) break;
    [[maybe_unused]] const Status loaded = co_await loaded_.wait();
  }
  const auto entry =
      entries_.insert(entries_.end(), {.master = master, .segment = segment, .loading = true, .replica = nullptr});
  auto replica = std::make_shared<Replica>();
  const Result<log::Certificate> certificate = co_await store_.load(master, segment, reader, replica->bytes);
  entry->loading = false;
  loaded_.notifyAll();
  if (!certificate.ok()) {
    entries_.erase(entry);
    co_return nullptr;
  }
  replica->certificate = *certificate;
  entry->replica = replica;
  co_return replica;
}

void ReplicaCache::forget(ServerId master) {
  std::erase_if(entries_, [master](const Entry& entry) { return entry.master == master && !entry.loading; });
}

}  // namespace ramcore::backup
