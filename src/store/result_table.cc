#include "store/result_table.h"

#include <algorithm>
#include <tuple>

#include "base/mutation.h"

namespace ramcore::store {

void ResultTable::markDead(const Stored& stored) {
  stored.is_carried ? log_->markAcknowledged(stored.record) : log_->markDead(stored.record);
}

void ResultTable::acknowledge(Client& client, Sequence acknowledged) {
  if (acknowledged <= client.acknowledged) return;
  client.acknowledged = acknowledged;
  client.results.eraseUpTo(acknowledged, [this](const Stored& stored) { markDead(stored); });
}

ResultTable::Lookup ResultTable::find(const wire::CallIdentity& identity, LockWait wait) {
  Shard& shard = shardOf(identity.client);
  if (!shard.lock.lock(wait)) return {Verdict::Busy, {}, {}};
  const Lookup found = find(shard, identity);
  shard.lock.unlock();
  return found;
}

ResultTable::Lookup ResultTable::find(Shard& shard, const wire::CallIdentity& identity) {
  const auto found = shard.clients.find(identity.client);
  if (found == shard.clients.end()) {
    if (!RC_MUTATION("admit-the-unknown")) return {Verdict::UnknownClient, {}, {}};
    shard.clients[identity.client].is_admitted = true;
    return {Verdict::New, {}, {}};
  }
  Client& client = found->second;
  acknowledge(client, identity.acknowledged);
  const bool is_stale = identity.sequence <= client.acknowledged;
  if (is_stale && !RC_MUTATION("run-what-was-acknowledged")) return {Verdict::Stale, {}, {}};
  const Stored* const stored = client.results.find(identity.sequence);
  if (stored == nullptr || RC_MUTATION("run-duplicate-again")) {
    if (!client.is_admitted && !RC_MUTATION("admit-the-unconfirmed")) return {Verdict::UnknownClient, {}, {}};
    if (client.results.size() >= kResultsPerClientMax) return {Verdict::TooMany, {}, {}};
    return {Verdict::New, {}, {}};
  }
  return {Verdict::Duplicate, stored->result, stored->record};
}

void ResultTable::insert(const wire::CallIdentity& identity, const MutationResult& result, log::EntryRef record,
                         bool is_carried) {
  Shard& shard = shardOf(identity.client);
  SpinGuard guard(shard.lock);
  const auto found = shard.clients.find(identity.client);
  if (found == shard.clients.end()) return markDead({result, record, is_carried});
  store(found->second, identity, {result, record, is_carried});
}

void ResultTable::take(const wire::CallIdentity& identity, const MutationResult& result, log::EntryRef record) {
  Shard& shard = shardOf(identity.client);
  SpinGuard guard(shard.lock);
  store(shard.clients[identity.client], identity, {result, record, false});
}

bool ResultTable::isAwaited(const wire::CallIdentity& identity) {
  Shard& shard = shardOf(identity.client);
  SpinGuard guard(shard.lock);
  Client& client = shard.clients[identity.client];
  acknowledge(client, identity.acknowledged);
  return identity.sequence > client.acknowledged;
}

bool ResultTable::has(ClientId client, Sequence sequence) const {
  const Shard& shard = shardOf(client);
  SpinGuard guard(shard.lock);
  const auto found = shard.clients.find(client);
  return found != shard.clients.end() && found->second.results.find(sequence) != nullptr;
}

void ResultTable::store(Client& client, const wire::CallIdentity& identity, const Stored& stored) {
  acknowledge(client, identity.acknowledged);
  if (identity.sequence <= client.acknowledged) return markDead(stored);
  const auto [kept, is_new] = client.results.emplace(identity.sequence, stored);
  if (!is_new) {
    // A move or a recovery brings a record that is here already (an attempt was given up, or the log held two copies),
    // or a mutation of the code runs a call twice. The newer copy lies where a later recovery looks.
    markDead(*kept);
    *kept = stored;
  }
}

bool ResultTable::admit(ClientId client, int64_t asked_ns, Sequence acknowledged) {
  Shard& shard = shardOf(client);
  SpinGuard guard(shard.lock);
  if (asked_ns <= shard.over_asked_ns && !RC_MUTATION("admit-by-a-late-answer")) return false;
  Client& known = shard.clients[client];
  known.heard_ns = std::max(known.heard_ns, asked_ns);
  known.is_admitted = true;
  acknowledge(known, acknowledged);
  return true;
}

void ResultTable::heard(ClientId client, int64_t now_ns, Sequence acknowledged) {
  Shard& shard = shardOf(client);
  SpinGuard guard(shard.lock);
  const auto found = shard.clients.find(client);
  if (found == shard.clients.end() || now_ns <= shard.over_asked_ns) return;
  found->second.heard_ns = std::max(found->second.heard_ns, now_ns);
  found->second.is_admitted = true;
  acknowledge(found->second, acknowledged);
}

void ResultTable::forget(ClientId client, int64_t asked_ns) {
  Shard& shard = shardOf(client);
  SpinGuard guard(shard.lock);
  shard.over_asked_ns = std::max(shard.over_asked_ns, asked_ns);
  const auto found = shard.clients.find(client);
  if (found == shard.clients.end()) return;
  for (const auto& [sequence, stored] : found->second.results) markDead(stored);
  shard.clients.erase(found);
}

std::vector<ClientId> ResultTable::silentSince(int64_t before_ns, ClientId after, size_t count_max,
                                               bool with_results) const {
  std::vector<ClientId> silent;
  for (const Shard& shard : shards_) {
    SpinGuard guard(shard.lock);
    for (const auto& [id, client] : shard.clients) {
      if (id > after && client.heard_ns < before_ns && !(with_results && client.results.empty())) silent.push_back(id);
    }
  }
  std::sort(silent.begin(), silent.end());
  if (silent.size() > count_max) silent.resize(count_max);
  return silent;
}

bool ResultTable::isLive(ClientId client, Sequence sequence, log::EntryRef record) const {
  const Shard& shard = shardOf(client);
  SpinGuard guard(shard.lock);
  return find(shard, client, sequence, record) != nullptr;
}

bool ResultTable::relocated(ClientId client, Sequence sequence, log::EntryRef from, log::EntryRef to) {
  Shard& shard = shardOf(client);
  SpinGuard guard(shard.lock);
  Stored* const stored = find(shard, client, sequence, from);
  if (stored == nullptr) return false;
  stored->record = to;
  return true;
}

std::optional<ResultTable::Record> ResultTable::carriedBy(log::EntryRef object,
                                                          const log::CarriedResult& carried) const {
  const Shard& shard = shardOf(carried.client);
  SpinGuard guard(shard.lock);
  const Stored* const stored = find(shard, carried.client, carried.sequence, object);
  if (stored == nullptr) return std::nullopt;
  return Record{carried.client, carried.sequence, shard.clients.find(carried.client)->second.acknowledged,
                stored->result};
}

void ResultTable::moveOut(log::EntryRef object, ClientId client, Sequence sequence, log::EntryRef record) {
  Shard& shard = shardOf(client);
  SpinGuard guard(shard.lock);
  Stored* const stored = find(shard, client, sequence, object);
  if (stored == nullptr) return log_->markDead(record);  // acknowledged meanwhile
  stored->record = record;
  stored->is_carried = false;
}

bool ResultTable::drop(log::EntryRef object, const log::CarriedResult& carried) {
  Shard& shard = shardOf(carried.client);
  SpinGuard guard(shard.lock);
  const Stored* const stored = find(shard, carried.client, carried.sequence, object);
  if (stored == nullptr) return false;
  markDead(*stored);
  shard.clients.find(carried.client)->second.results.erase(carried.sequence);
  return true;
}

std::vector<ResultTable::Record> ResultTable::inRange(TableId table, const HashRange& range) const {
  std::vector<Record> records;
  for (const Shard& shard : shards_) {
    SpinGuard guard(shard.lock);
    for (const auto& [id, client] : shard.clients) {
      for (const auto& [sequence, stored] : client.results) {
        if (stored.result.table == table && range.contains(stored.result.key_hash)) {
          records.push_back({id, sequence, client.acknowledged, stored.result});
        }
      }
    }
  }
  std::sort(records.begin(), records.end(), [](const Record& a, const Record& b) {
    return std::tie(a.result.key_hash, a.client, a.sequence) < std::tie(b.result.key_hash, b.client, b.sequence);
  });
  return records;
}

void ResultTable::dropRange(TableId table, const HashRange& range, const std::function<bool(KeyHash)>& is_ours) {
  for (Shard& shard : shards_) {
    SpinGuard guard(shard.lock);
    for (auto& [id, client] : shard.clients) {
      client.results.eraseIf([&](const Stored& stored) {
        const MutationResult& result = stored.result;
        const bool gone = result.table == table && range.contains(result.key_hash) && !is_ours(result.key_hash);
        if (gone) markDead(stored);
        return gone;
      });
    }
  }
}

size_t ResultTable::recordCount() const {
  size_t count = 0;
  for (const Shard& shard : shards_) {
    SpinGuard guard(shard.lock);
    for (const auto& [id, client] : shard.clients) count += client.results.size();
  }
  return count;
}

size_t ResultTable::clientCount() const {
  size_t count = 0;
  for (const Shard& shard : shards_) {
    SpinGuard guard(shard.lock);
    count += shard.clients.size();
  }
  return count;
}

}  // namespace ramcore::store
