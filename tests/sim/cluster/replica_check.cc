#include "sim/cluster/replica_check.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "log/format/log_reader.h"

namespace ramcore::sim {
namespace {

bool isLive(const SimCluster& cluster, size_t index, ServerId id) {
  return !cluster.isDown(index) && cluster.servers[index]->isServing() && cluster.servers[index]->rejected().empty() &&
         cluster.servers[index]->master().id() == id;
}

// Whether the master still counts on that replica.
bool isKnown(const master::Master& master, SegmentId segment, ServerId backup) {
  const std::vector<master::ReplicaManager::Known> all = master.replicas()->replicas();
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& known) { return known.segment == segment && known.backup == backup; });
}

// All entries of what claims to be a segment; nothing if it does not end where it should.
std::optional<std::vector<log::EntryView>> entriesOf(std::span<const std::byte> bytes) {
  std::vector<log::EntryView> entries;
  log::SegmentReader reader(bytes);
  for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
    entries.insert(entries.end(), group.begin(), group.end());
  }
  if (reader.end() != log::WalkEnd::Clean) return std::nullopt;
  return entries;
}

// Whether memory has the same: but for what a group makes of it, and for a name that means nothing any more; or the
// tombstone of what a dead object names.
bool isSame(const log::EntryView& kept, const log::EntryView& stored) {
  if (kept.table() != stored.table() || !std::ranges::equal(kept.key(), stored.key())) return false;
  if (kept.type() == log::EntryType::Tombstone && stored.type() == log::EntryType::Object) {
    return stored.namesSegment() && stored.namedSegment() == kept.namedSegment() &&
           stored.version() == kept.version() + 1;
  }
  // A remove while the tablet arrives logs two tombstones, which differ only in what they name.
  const bool is_other = kept.type() == log::EntryType::Tombstone && kept.namedSegment() != stored.namedSegment();
  return kept.type() == stored.type() && kept.version() == stored.version() && !is_other &&
         std::ranges::equal(kept.payload(), stored.payload());
}

// Whether something that a replica holds and memory does not would be missed by a recovery.
bool isMissed(const master::Master& master, SegmentId segment, const log::EntryView& entry) {
  const log::Log& log = *master.log();
  // A dead object that names a segment keeps an older object dead, too: a tombstone has to have taken its place in
  // memory.
  const log::Segment* const named = entry.namesSegment() ? log.pool().find(entry.namedSegment()) : nullptr;
  if (named != nullptr && named->state() != log::SegmentState::Unlinked) return true;
  if (entry.type() != log::EntryType::Object) return false;
  const store::Found found = master.store().lookup(entry.table(), hashKey(entry.table(), entry.key()), entry.key());
  return found.ref && found.entry.type() == log::EntryType::Object && found.entry.version() == entry.version() &&
         log.pool().segmentOf(found.ref)->id() == segment;
}

}  // namespace

std::string compareCompacted(const master::Master& master, const log::Segment& segment,
                             std::span<const std::byte> bytes, bool is_closed) {
  std::vector<std::byte> own(segment.committedBytes());
  segment.copyOut(0, segment.committedBytes(), own.data());
  const auto kept = entriesOf(own);
  const auto stored = entriesOf(bytes);
  if (!kept) return "is broken in memory";
  if (!stored) return "holds no whole entries";
  size_t next = 0;
  for (const log::EntryView& entry : *stored) {
    if (next < kept->size() && isSame((*kept)[next], entry)) {
      ++next;
    } else if (isMissed(master, segment.id(), entry)) {
      return "holds version " + std::to_string(entry.version()) + " of something that memory has lost";
    }
  }
  return next == kept->size() || !is_closed ? "" : "holds less than memory";
}

// Starts on the backup's dispatch, and goes then.
struct ReplicaCheck::Begin : runtime::Job {
  Begin(ReplicaCheck& owner, SimCluster& of, SimServer& on, std::vector<Wanted> all)
      : Job([](runtime::Job& job) {
          const std::unique_ptr<Begin> self(static_cast<Begin*>(&job));
          self->check.check(self->cluster, self->server, std::move(self->wanted)).detach();
        }),
        check(owner),
        cluster(of),
        server(on),
        wanted(std::move(all)) {}
  ReplicaCheck& check;
  SimCluster& cluster;
  SimServer& server;
  std::vector<Wanted> wanted;
};

void ReplicaCheck::start(SimCluster& cluster, size_t rotten) {
  std::vector<std::vector<Wanted>> of_backup(cluster.servers.size());
  for (size_t m = 0; m < cluster.servers.size(); ++m) {
    const master::Master& master = cluster.servers[m]->master();
    if (!isLive(cluster, m, master.id()) || master.replicas() == nullptr) continue;
    for (const auto& known : master.replicas()->replicas()) {
      if (known.certified_bytes == 0) continue;
      for (size_t b = 0; b < cluster.servers.size(); ++b) {
        if (b == rotten || !isLive(cluster, b, known.backup)) continue;
        of_backup[b].push_back({m, b, master.id(), known.backup, known.segment, known.certified_bytes, known.is_closed,
                                master.replicas()->stats().replicas_lost.load()});
      }
    }
  }
  for (size_t b = 0; b < of_backup.size(); ++b) {
    if (of_backup[b].empty()) continue;
    ++running_[cluster.servers[b].get()];
    rpc::Dispatch& dispatch = cluster.servers[b]->dispatch();
    dispatch.post(*std::make_unique<Begin>(*this, cluster, *cluster.servers[b], std::move(of_backup[b])).release(),
                  runtime::Priority::Background);
    cluster.servers[b]->wake();
  }
}

bool ReplicaCheck::isIdle(const SimCluster& cluster) const {
  for (size_t i = 0; i < cluster.servers.size(); ++i) {
    const auto found = running_.find(cluster.servers[i].get());
    if (!cluster.isDown(i) && found != running_.end() && found->second != 0) return false;
  }
  return true;
}

runtime::Task<void> ReplicaCheck::check(SimCluster& cluster, SimServer& server, std::vector<Wanted> wanted) {
  std::vector<std::byte> bytes;
  for (const Wanted& one : wanted) {
    if (stopped_) break;
    // A process that is dead or dying looks at nothing any more: it is unwound.
    if (!isLive(cluster, one.backup, one.backup_id) || &server != cluster.servers[one.backup].get()) break;
    if (server.backup()->store().isCondemned()) break;
    const Result<log::Certificate> loaded =
        co_await server.backup()->store().load(one.master_id, one.segment, server.dispatch(), bytes);
    if (!stopped_) compare(cluster, one, loaded, bytes);
  }
  --running_[&server];
}

void ReplicaCheck::compare(SimCluster& cluster, const Wanted& wanted, const Result<log::Certificate>& loaded,
                           std::span<const std::byte> bytes) {
  // A replica that was freed, lost or fenced while it was read is not compared.
  if (!isLive(cluster, wanted.backup, wanted.backup_id) || !isLive(cluster, wanted.master, wanted.master_id)) return;
  const master::Master& master = cluster.servers[wanted.master]->master();
  const log::Segment* const segment = master.log()->pool().find(wanted.segment);
  if (segment == nullptr || !isKnown(master, wanted.segment, wanted.backup_id)) return;
  // What is known now may have been made on that backup after the one that was asked for was lost.
  if (master.replicas()->stats().replicas_lost.load() != wanted.replicas_lost) return;
  // What is damaged in memory is compared when it has been restored.
  if (segment->isDamaged()) return;
  const backup::Backup& backup = *cluster.servers[wanted.backup]->backup();
  if (backup.store().isCondemned()) return;
  // A master that stood still may not know yet that it is dead, and all that it had recovered and given up.
  if (backup.service().isFenced(wanted.master_id)) return;
  ++compared_;
  const auto fail = [&](const std::string& what) {
    failures_.push_back("segment " + std::to_string(wanted.segment.value) + " of server " +
                        std::to_string(wanted.master_id.value) + " on server " +
                        std::to_string(wanted.backup_id.value) + ": " + what);
  };
  if (!loaded.ok()) return fail("cannot be loaded: " + std::string(name(loaded.error())));
  if (loaded->length_bytes < wanted.certified_bytes) return fail("is shorter than its master knows");
  if (wanted.is_closed && !loaded->closed) return fail("is not closed");
  if (segment->compactionCount() != 0) {
    ++compacted_compared_;
    const std::string difference =
        compareCompacted(master, *segment, bytes.first(loaded->length_bytes), loaded->closed);
    if (!difference.empty()) fail("compacted: " + difference);
    return;
  }
  if (segment->committedBytes() < loaded->length_bytes) return fail("is longer than the segment");
  std::vector<std::byte> own(loaded->length_bytes);
  segment->copyOut(0, loaded->length_bytes, own.data());
  if (bytes.size() < own.size() || std::memcmp(own.data(), bytes.data(), own.size()) != 0) fail("holds other bytes");
}

}  // namespace ramcore::sim
