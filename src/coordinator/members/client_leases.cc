#include "coordinator/members/client_leases.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutation.h"
#include "coordinator/state/stored_state.h"

namespace ramcore::coordinator {

ClientLeases::ClientLeases(Journal& journal, int64_t lease_ns)
    : journal_(journal),
      lease_ns_(lease_ns),
      ids_(journal, "client"),
      lock_(journal.executor()),
      changed_(journal.executor()) {
  RC_CHECK(lease_ns > 0);
}

runtime::Task<Status> ClientLeases::load() {
  const Status ids = co_await ids_.load();
  if (ids != Status::Ok) co_return ids;
  const Status longest = co_await loadLongest();
  if (longest != Status::Ok) co_return longest;
  Result<std::vector<KeyValue>> stored = co_await journal_.readPrefix(std::string(kClientPrefix));
  if (!stored.ok()) co_return stored.error();
  for (const KeyValue& entry : *stored) {
    StoredClient client;
    if (!decode(entry.value, client) || entry.key != keyOf(client.id)) {
      co_return journal_.corrupt(entry.key, kNonsense);
    }
    if (client.id.value >= ids_.end()) co_return journal_.corrupt(entry.key, "has an id that is still to come");
    clients_[client.id] = {.nonce = client.nonce, .end_ns = longest_end_ns_};
    by_nonce_[client.nonce] = client.id;
  }
  co_return Status::Ok;
}

runtime::Task<Status> ClientLeases::loadLongest() {
  Result<std::vector<KeyValue>> stored = co_await journal_.readPrefix(std::string(kClientConfigKey));
  if (!stored.ok()) co_return stored.error();
  int64_t stored_ns = 0;
  for (const KeyValue& entry : *stored) {
    if (entry.key == kClientConfigKey && !decodeClientConfig(entry.value, stored_ns)) {
      co_return journal_.corrupt(entry.key, kNonsense);
    }
  }
  longest_ns_ = std::max(RC_MUTATION("forget-the-longer-client-lease") ? 0 : stored_ns, lease_ns_);
  longest_end_ns_ = journal_.nowNs() + longest_ns_;
  if (longest_ns_ == stored_ns) co_return Status::Ok;
  Batch batch;
  batch.put(std::string(kClientConfigKey), encodeClientConfig(longest_ns_));
  batch.is_unnumbered = true;
  co_return co_await journal_.commit(std::move(batch));
}

// Stores the length of this coordinator's leases when all longer ones are over. If it were stored earlier, a start in
// between would not know of the longer ones.
runtime::Task<void> ClientLeases::storeShorterLease() {
  Journal::Running running(journal_);
  const bool is_over = co_await journal_.sleepUntil(longest_end_ns_);
  if (!is_over) co_return;
  Batch batch;
  batch.put(std::string(kClientConfigKey), encodeClientConfig(lease_ns_));
  batch.is_unnumbered = true;
  [[maybe_unused]] const bool stored = co_await journal_.commitUntilStored(std::move(batch));
}

void ClientLeases::start() {
  watch().detach();
  if (longest_ns_ > lease_ns_) storeShorterLease().detach();
}

void ClientLeases::stop() { changed_.failAll(Status::Shutdown); }

runtime::Task<ClientLeases::Opened> ClientLeases::open(uint64_t nonce) {
  if (nonce == 0) co_return Opened{Status::BadRequest, {}};
  const auto known = by_nonce_.find(nonce);
  if (known != by_nonce_.end()) {
    const ClientId id = known->second;
    co_return Opened{renew(id), id};
  }
  if (clients_.size() >= kClientsMax) co_return Opened{Status::LimitReached, {}};
  const Result<uint64_t> id = co_await ids_.take();
  if (!id.ok()) co_return Opened{id.error(), {}};
  const ClientId given(*id);
  Batch batch;
  batch.put(keyOf(given), encode(StoredClient{given, nonce}));
  const Status stored = co_await journal_.commit(std::move(batch));
  if (stored != Status::Ok) co_return Opened{stored, {}};
  clients_[given] = {.nonce = nonce, .end_ns = journal_.nowNs() + lease_ns_};
  // If the request was repeated during this commit, the other attempt has got an identity of its own, which runs out
  // unused.
  by_nonce_[nonce] = given;
  watch_until_ns_ = std::min(watch_until_ns_, journal_.nowNs() + lease_ns_ / 4);  // watch() is about to see it
  changed_.notifyAll();
  co_return Opened{Status::Ok, given};
}

Status ClientLeases::renew(ClientId id, Sequence acknowledged) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return Status::LeaseExpired;
  if (found->second.ending) return Status::RetryLater;
  // A renewal never makes the end earlier: its answer may not reach the client.
  found->second.end_ns = std::max(found->second.end_ns, journal_.nowNs() + lease_ns_);
  found->second.acknowledged = std::max(found->second.acknowledged, acknowledged);
  return Status::Ok;
}

runtime::Task<Status> ClientLeases::close(ClientId id) {
  auto guard = co_await lock_.lock();
  if (!clients_.contains(id)) co_return Status::Ok;
  std::vector<ClientId> ids{id};
  co_return co_await endStored(std::move(ids));
}

runtime::Task<ClientLeases::Checked> ClientLeases::check(std::vector<ClientId> ids) {
  Checked checked;
  if (ids.size() > kCheckedMax) {
    checked.status = Status::BadRequest;
    co_return checked;
  }
  // Leases that are over by the clock are ended in the store first.
  forgiveStandstill();
  checked.status = co_await endExpired();
  if (checked.status != Status::Ok) co_return checked;
  const int64_t now_ns = journal_.nowNs();
  int64_t left_ns = lease_ns_;
  for (const ClientId id : ids) {
    const auto found = clients_.find(id);
    checked.valid.push_back(found != clients_.end());
    checked.acknowledged.push_back(found != clients_.end() ? found->second.acknowledged : Sequence());
    if (found == clients_.end()) continue;
    // A lease whose end is being stored is not over yet, but nobody may rely on that.
    left_ns = std::min(left_ns, found->second.ending ? 0 : std::max<int64_t>(0, found->second.end_ns - now_ns));
  }
  // The asker's clock may run slower than ours by some percent.
  checked.checked_for_ns = left_ns / 10 * 9;
  co_return checked;
}

// After a standstill of this process, renewals wait unread: every lease begins anew.
void ClientLeases::forgiveStandstill() {
  const int64_t now_ns = journal_.nowNs();
  if (watch_until_ns_ == runtime::kNever || now_ns <= watch_until_ns_ + lease_ns_ / 4) return;
  watch_until_ns_ = now_ns;
  for (auto& [id, client] : clients_) client.end_ns = std::max(client.end_ns, now_ns + lease_ns_);
}

runtime::Task<Status> ClientLeases::endExpired() {
  if (journal_.nowNs() < nextEndNs()) co_return Status::Ok;
  auto guard = co_await lock_.lock();
  while (true) {
    std::vector<ClientId> over;
    for (const auto& [id, client] : clients_) {
      if (client.end_ns <= journal_.nowNs() && over.size() < Batch::kChangesMax) over.push_back(id);
    }
    if (over.empty()) co_return Status::Ok;
    const Status stored = co_await endStored(std::move(over));
    if (stored != Status::Ok) co_return stored;
  }
}

// Under lock_.
runtime::Task<Status> ClientLeases::endStored(std::vector<ClientId> ids) {
  Batch batch;
  for (const ClientId id : ids) {
    clients_.at(id).ending = true;
    batch.remove(keyOf(id));
  }
  const Status stored = co_await journal_.commit(std::move(batch));
  for (const ClientId id : ids) {
    const auto found = clients_.find(id);
    if (stored != Status::Ok) {
      found->second.ending = false;
      continue;
    }
    const auto named = by_nonce_.find(found->second.nonce);
    if (named != by_nonce_.end() && named->second == id) by_nonce_.erase(named);
    clients_.erase(found);
  }
  co_return stored;
}

int64_t ClientLeases::nextEndNs() const {
  int64_t next_ns = runtime::kNever;
  for (const auto& [id, client] : clients_) {
    if (!client.ending) next_ns = std::min(next_ns, client.end_ns);
  }
  return next_ns;
}

runtime::Task<void> ClientLeases::watch() {
  Journal::Running running(journal_);
  while (!journal_.stopping()) {
    forgiveStandstill();
    // Wakes up often enough to notice a standstill before leases are judged, and not at all without clients.
    const int64_t now_ns = journal_.nowNs();
    watch_until_ns_ =
        clients_.empty() ? runtime::kNever : std::min(std::max(nextEndNs(), now_ns), now_ns + lease_ns_ / 4);
    const Status woken = co_await changed_.wait(watch_until_ns_);
    forgiveStandstill();
    if (woken != Status::DeadlineExceeded) continue;
    const Status ended = co_await endExpired();
    // The ends could not be stored (the disk is full), so the leases go on for a while.
    if (ended != Status::Ok && !journal_.stopping()) {
      const bool awake = co_await journal_.sleepFor(lease_ns_ / 4);
      watch_until_ns_ = journal_.nowNs();
      if (!awake) break;
    }
  }
}

}  // namespace ramcore::coordinator
