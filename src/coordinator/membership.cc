#include "coordinator/membership.h"

#include <algorithm>

#include "base/check.h"
#include "coordinator/stored_state.h"
#include "transport/locator.h"

namespace ramcore::coordinator {
namespace {

constexpr size_t kLocatorsMax = 16;
constexpr size_t kLocatorBytesMax = 512;
constexpr size_t kNameBytesMax = 255;
constexpr size_t kServersMax = 4'096;

}  // namespace

Membership::Membership(Journal& journal, Trace& trace, const MembershipOptions& options)
    : journal_(journal),
      trace_(trace),
      options_(options),
      ids_(journal, "server"),
      lock_(journal.executor()),
      changed_(journal.executor()) {
  RC_CHECK(options.lease_ns > 0 && options.verdict_after_ns >= options.lease_ns);
}

runtime::Task<Status> Membership::load() {
  int64_t former_lease_ns = 0;
  Result<std::vector<KeyValue>> config = co_await journal_.readPrefix(std::string(kConfigKey));
  if (!config.ok()) co_return config.error();
  for (const KeyValue& entry : *config) {
    if (entry.key == kConfigKey && !decodeConfig(entry.value, former_lease_ns)) {
      co_return journal_.corrupt(entry.key, kNonsense);
    }
  }
  const Status ids = co_await ids_.load();
  if (ids != Status::Ok) co_return ids;
  Result<std::vector<KeyValue>> stored = co_await journal_.readPrefix(std::string(kServerPrefix));
  if (!stored.ok()) co_return stored.error();

  // A lease may have been granted a moment before the predecessor ended, for the length it ran with.
  const int64_t now_ns = journal_.nowNs();
  const int64_t granted_until_ns = now_ns + std::max(former_lease_ns, options_.lease_ns);
  no_verdict_before_ns_ = granted_until_ns;
  for (const KeyValue& entry : *stored) {
    Member member;
    if (!decode(entry.value, member.server) || entry.key != keyOf(member.server.id)) {
      co_return journal_.corrupt(entry.key, kNonsense);
    }
    if (member.server.id.value >= ids_.end()) co_return journal_.corrupt(entry.key, "has an id that is still to come");
    if (check(member.server) != Status::Ok)
      co_return journal_.corrupt(entry.key, "is of no server that can be reached");
    member.lease_end_ns = granted_until_ns;
    member.last_heard_ns = now_ns;
    const ServerId id = member.server.id;
    members_.emplace(id, std::move(member));
  }
  if (former_lease_ns == options_.lease_ns) co_return Status::Ok;
  Batch batch;
  batch.put(std::string(kConfigKey), encodeConfig(options_.lease_ns));
  co_return co_await journal_.commit(std::move(batch));
}

void Membership::start() { watch().detach(); }

void Membership::stop() { changed_.failAll(Status::Shutdown); }

Status Membership::check(const Server& server) const {
  if (server.nonce == 0 || server.name.size() > kNameBytesMax) return Status::BadRequest;
  if (server.locators.empty() || server.locators.size() > kLocatorsMax) return Status::BadRequest;
  for (const std::string& text : server.locators) {
    if (text.size() > kLocatorBytesMax || !transport::Locator::parse(text).ok()) return Status::BadRequest;
  }
  return Status::Ok;
}

runtime::Task<Membership::Enlistment> Membership::enlist(Server server, ServerId former) {
  const Status checked = check(server);
  if (checked != Status::Ok) co_return Enlistment{checked, {}};
  auto guard = co_await lock_.lock();
  size_t alive = 0;
  for (const auto& [id, member] : members_) {
    if (member.server.nonce == server.nonce) {
      const Status again = renew(id);
      co_return Enlistment{again, id};
    }
    if (!member.server.alive) continue;
    ++alive;
    // Servers fetch log entries from each other as they stand, so all must agree on the format.
    if (id != former && member.server.format_version != server.format_version) {
      co_return Enlistment{Status::WrongFormat, {}};
    }
  }
  if (alive >= kServersMax) co_return Enlistment{Status::NoSpace, {}};
  if (isAlive(former)) {
    // Whoever holds the lock of a directory proves that the one who had it is gone.
    const Status dead = co_await declareDead(former, true);
    if (dead != Status::Ok) co_return Enlistment{dead, {}};
  }
  const Result<uint64_t> id = co_await ids_.take();
  if (!id.ok()) co_return Enlistment{id.error(), {}};
  server.id = ServerId(*id);
  server.alive = true;
  Batch batch;
  batch.put(keyOf(server.id), encode(server));
  const Status stored = co_await journal_.commit(std::move(batch));
  if (stored != Status::Ok) co_return Enlistment{stored, {}};
  Member member;
  member.server = std::move(server);
  const ServerId given = member.server.id;
  trace_.info("server " + std::to_string(given.value) + " (" + member.server.name + ") joins");
  members_.emplace(given, std::move(member));
  const Status granted = renew(given);
  changed_.notifyAll();
  co_return Enlistment{granted, given};
}

Status Membership::renew(ServerId id) {
  const auto found = members_.find(id);
  if (found == members_.end() || !found->second.server.alive) return Status::Fenced;
  if (found->second.verdict_under_way) return Status::RetryLater;
  const int64_t now_ns = journal_.nowNs();
  found->second.last_heard_ns = now_ns;
  // The answer leaves a little later than now. The server counts from before its question, which is earlier than now,
  // so this count is on the safe side; and a shorter lease never shortens one granted before.
  found->second.lease_end_ns = std::max(found->second.lease_end_ns, now_ns + options_.lease_ns);
  return Status::Ok;
}

runtime::Task<Status> Membership::goodbye(ServerId id) {
  auto guard = co_await lock_.lock();
  if (!isAlive(id)) co_return Status::Ok;
  co_return co_await declareDead(id, true);
}

// Under lock_. Stored first; what follows from it is for those who ask isAlive() and leaseIsOver().
runtime::Task<Status> Membership::declareDead(ServerId id, bool stopped_itself) {
  Member& member = members_.at(id);  // members are removed under lock_ only
  member.verdict_under_way = true;
  Server dead = member.server;
  dead.alive = false;
  Batch batch;
  batch.put(keyOf(id), encode(dead));
  // Late messages of the dead ones are answered by their records; the oldest of many may go.
  std::vector<ServerId> forgotten;
  size_t dead_count = 0;
  for (auto at = members_.rbegin(); at != members_.rend(); ++at) {
    if (!at->second.server.alive && ++dead_count >= kDeadKeptMax && forgotten.size() < Batch::kChangesMax - 1) {
      forgotten.push_back(at->first);
    }
  }
  for (const ServerId old : forgotten) batch.remove(keyOf(old));
  const Status stored = co_await journal_.commit(std::move(batch));
  member.verdict_under_way = false;
  if (stored != Status::Ok) co_return stored;
  member.server.alive = false;
  member.stopped_itself = stopped_itself;
  for (const ServerId old : forgotten) members_.erase(old);
  trace_.warning("server " + std::to_string(id.value) + " (" + dead.name +
                 (stopped_itself ? ") has left" : ") is declared dead: it did not renew its lease"));
  co_return Status::Ok;
}

int64_t Membership::nextVerdictNs() const {
  int64_t next_ns = runtime::kNever;
  for (const auto& [id, member] : members_) {
    if (!member.server.alive) continue;
    next_ns = std::min(next_ns, member.last_heard_ns + options_.verdict_after_ns);
  }
  return next_ns == runtime::kNever ? next_ns : std::max(next_ns, no_verdict_before_ns_);
}

runtime::Task<void> Membership::watch() {
  Journal::Running running(journal_);
  const int64_t pace_ns = options_.lease_ns / 2;
  while (!journal_.stopping()) {
    // With nobody to watch there is nothing to wake up for; an enlistment or the stop ends the wait.
    const int64_t next_ns = nextVerdictNs();
    const int64_t wake_ns = next_ns == runtime::kNever ? next_ns : std::min(next_ns, journal_.nowNs() + pace_ns);
    const Status woken = co_await changed_.wait(wake_ns);
    if (woken != Status::DeadlineExceeded) continue;
    const int64_t now_ns = journal_.nowNs();
    if (now_ns > wake_ns + options_.lease_ns / 2) {
      // This process stood still, and renewals wait unread: silence proves nothing before they had their turn.
      no_verdict_before_ns_ = std::max(no_verdict_before_ns_, now_ns + options_.lease_ns);
      trace_.warning("the coordinator stood still for " + std::to_string((now_ns - wake_ns) / runtime::kNanosPerMilli) +
                     " ms; it waits with verdicts");
      continue;
    }
    if (now_ns < nextVerdictNs()) continue;
    auto guard = co_await lock_.lock();
    std::vector<ServerId> silent;
    for (const auto& [id, member] : members_) {
      if (member.server.alive &&
          journal_.nowNs() >= std::max(member.last_heard_ns + options_.verdict_after_ns, no_verdict_before_ns_)) {
        silent.push_back(id);
      }
    }
    for (const ServerId id : silent) {
      if (!isAlive(id) || journal_.nowNs() < members_.at(id).last_heard_ns + options_.verdict_after_ns) continue;
      const Status declared = co_await declareDead(id, false);
      if (declared != Status::Ok) break;
    }
  }
}

const Server* Membership::find(ServerId id) const {
  const auto found = members_.find(id);
  return found == members_.end() ? nullptr : &found->second.server;
}

bool Membership::isAlive(ServerId id) const {
  const Server* server = find(id);
  return server != nullptr && server->alive;
}

bool Membership::isHeard(ServerId id) const {
  const auto found = members_.find(id);
  return found != members_.end() && found->second.server.alive && !found->second.verdict_under_way &&
         journal_.nowNs() < found->second.last_heard_ns + options_.lease_ns;
}

bool Membership::leaseIsOver(ServerId id) const {
  const auto found = members_.find(id);
  if (found == members_.end()) return true;  // dead so long that its record is gone
  const Member& member = found->second;
  return !member.server.alive && (member.stopped_itself || journal_.nowNs() >= member.lease_end_ns);
}

std::vector<ServerId> Membership::heardServers() const {
  std::vector<ServerId> heard;
  for (const auto& [id, member] : members_) {
    if (isHeard(id)) heard.push_back(id);
  }
  return heard;
}

std::vector<const Server*> Membership::servers() const {
  std::vector<const Server*> all;
  for (const auto& [id, member] : members_) all.push_back(&member.server);
  return all;
}

}  // namespace ramcore::coordinator
