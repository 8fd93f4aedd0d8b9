#include "coordinator/members/membership.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutation.h"
#include "transport/locator.h"

namespace ramcore::coordinator {
namespace {

constexpr size_t kLocatorsMax = 16;
constexpr size_t kLocatorBytesMax = 512;
constexpr size_t kNameBytesMax = 255;  // also of a failure domain
constexpr size_t kServersMax = 4'096;
// Pause after a verdict that could not be stored.
constexpr int64_t kVerdictPauseNs = 200 * runtime::kNanosPerMilli;

}  // namespace

Membership::Membership(Journal& journal, Trace& trace, const MembershipOptions& options)
    : journal_(journal),
      trace_(trace),
      options_(options),
      ids_(journal, "server"),
      silences_(journal.executor().clock(), trace,
                {.heard_ns = options.lease_ns / 2,
                 .verdict_after_ns = options.verdict_after_ns,
                 .together_ns = options.together_ns},
                options.lease_ns),
      lock_(journal.executor()),
      changed_(journal.executor()) {
  RC_CHECK(options.lease_ns > 0 && options.verdict_after_ns >= options.lease_ns &&
           options.together_ns >= options.verdict_after_ns);
}

runtime::Task<Status> Membership::loadConfig(StoredConfig& config) {
  Result<std::vector<KeyValue>> stored = co_await journal_.readPrefix(std::string(kConfigKey));
  if (!stored.ok()) co_return stored.error();
  for (const KeyValue& entry : *stored) {
    if (entry.key == kConfigKey && !decodeConfig(entry.value, config)) {
      co_return journal_.corrupt(entry.key, kNonsense);
    }
  }
  co_return Status::Ok;
}

runtime::Task<Status> Membership::load() {
  StoredConfig config;
  const Status read = co_await loadConfig(config);
  if (read != Status::Ok) co_return read;
  const Status ids = co_await ids_.load();
  if (ids != Status::Ok) co_return ids;
  Result<std::vector<KeyValue>> stored = co_await journal_.readPrefix(std::string(kServerPrefix));
  if (!stored.ok()) co_return stored.error();

  // The coordinator before this one may have granted a lease of its own length a moment before it ended.
  const int64_t now_ns = journal_.nowNs();
  const int64_t granted_until_ns = now_ns + std::max(config.server_lease_ns, options_.lease_ns);
  no_verdict_before_ns_ = granted_until_ns;
  silences_.hearAnew();
  for (const KeyValue& entry : *stored) {
    Member member;
    if (!decode(entry.value, member.server) || entry.key != keyOf(member.server.id)) {
      co_return journal_.corrupt(entry.key, kNonsense);
    }
    if (member.server.id.value >= ids_.end()) co_return journal_.corrupt(entry.key, "has an id that is still to come");
    if (check(member.server) != Status::Ok)
      co_return journal_.corrupt(entry.key, "is of no server that can be reached");
    member.lease_end_ns = granted_until_ns;
    const ServerId id = member.server.id;
    silences_.add(members_.emplace(id, std::move(member)).first->second.server);
  }
  // Leases of the longer length may still run, so the longer one stays stored. storeShorterLease() stores ours when
  // they are over.
  const bool forgets = RC_MUTATION("forget-the-longer-lease");
  config_ = {.server_lease_ns = std::max(forgets ? 0 : config.server_lease_ns, options_.lease_ns),
             .starts = config.starts + 1};
  if (config_.starts == 0) config_.starts = 1;
  version_ = uint64_t{config_.starts} << 32;
  co_return co_await journal_.commit(batchOfConfig());
}

Batch Membership::batchOfConfig() const {
  Batch batch;
  batch.put(std::string(kConfigKey), encodeConfig(config_));
  batch.is_unnumbered = true;
  return batch;
}

runtime::Task<void> Membership::storeShorterLease(int64_t longer_end_ns) {
  Journal::Running running(journal_);
  const bool is_over = co_await journal_.sleepUntil(longer_end_ns);
  if (!is_over) co_return;
  config_.server_lease_ns = options_.lease_ns;
  [[maybe_unused]] const bool stored = co_await journal_.commitUntilStored(batchOfConfig());
}

void Membership::noteChange() {
  ++version_;
  if (listener_) listener_();
}

void Membership::start() {
  // No server could be heard while the state was read.
  settled_at_ns_ = journal_.nowNs() + options_.lease_ns;
  silences_.hearAnew();
  watch().detach();
  if (config_.server_lease_ns > options_.lease_ns) storeShorterLease(no_verdict_before_ns_).detach();
}

void Membership::stop() { changed_.failAll(Status::Shutdown); }

Status Membership::check(const Server& server) const {
  if (server.nonce == 0 || server.name.size() > kNameBytesMax) return Status::BadRequest;
  if (server.failure_domain.size() > kNameBytesMax) return Status::BadRequest;
  // A verdict waits until more servers than min_replicas are heard (silence.h), so a server that asks for more than can
  // be configured would never be declared dead.
  if (server.replicas > kReplicasMax || server.min_replicas > kReplicasMax) return Status::BadRequest;
  if (server.locators.empty() || server.locators.size() > kLocatorsMax) return Status::BadRequest;
  for (const std::string& text : server.locators) {
    if (text.size() > kLocatorBytesMax || !transport::Locator::parse(text).ok()) return Status::BadRequest;
  }
  return Status::Ok;
}

runtime::Task<Membership::Enlistment> Membership::enlist(Server server, ServerId former) {
  const Status checked = check(server);
  if (checked != Status::Ok) co_return Enlistment{checked, {}};
  // This state never gave that id, so the storage is newer than the state.
  if (former.value >= ids_.end()) co_return Enlistment{Status::BadRequest, {}};
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
  if (alive >= kServersMax) co_return Enlistment{Status::LimitReached, {}};
  if (isAlive(former)) {
    // A process that holds the lock of a storage proves that the server that had it before is gone.
    const Status dead = co_await declareDead(former, true);
    if (dead != Status::Ok) co_return Enlistment{dead, {}};
  }
  const auto before = members_.find(former);
  if (before != members_.end()) before->second.stopped_itself = true;
  warnOfCopies(server, former);
  const Status stored = co_await storeNew(server, former);
  if (stored != Status::Ok) co_return Enlistment{stored, {}};
  silences_.look();  // with a new server the silent ones may be less than half
  Member member;
  member.server = std::move(server);
  const ServerId given = member.server.id;
  trace_.info("server " + std::to_string(given.value) + " (" + member.server.name + ") joins");
  silences_.add(members_.emplace(given, std::move(member)).first->second.server);
  const Status granted = renew(given);
  changed_.notifyAll();
  noteChange();
  co_return Enlistment{granted, given};
}

// Warns of living servers that began with the same storage as the new one: these servers found the same former server
// in it, or none in a storage of the same name. Either such a server died before its own name was on the disk, or the
// storage was copied.
void Membership::warnOfCopies(const Server& server, ServerId former) {
  if (former == ServerId() && server.storage == 0) return;
  const std::string whose =
      former == ServerId() ? "in which no server had written yet" : "of server " + std::to_string(former.value);
  for (const auto& [id, member] : members_) {
    if (!member.server.alive || member.server.former != former) continue;
    if (former == ServerId() && member.server.storage != server.storage) continue;
    trace_.warning("server " + std::to_string(id.value) + " (" + member.server.name + ") and a new one (" +
                   server.name + ") began with the same storage, " + whose +
                   "; if it was copied, stop one of them and empty its storage: copies in use lose data");
  }
}

// Under lock_. Gives the server its id.
runtime::Task<Status> Membership::storeNew(Server& server, ServerId former) {
  const Result<uint64_t> id = co_await ids_.take();
  if (!id.ok()) co_return id.error();
  server.id = ServerId(*id);
  server.former = former;
  server.alive = true;
  Batch batch;
  batch.put(keyOf(server.id), encode(server));
  const auto before = members_.find(former);  // members are removed under lock_ only
  if (before != members_.end()) {
    Server returned = before->second.server;
    returned.returned = true;
    batch.put(keyOf(former), encode(returned));
  }
  const Status stored = co_await journal_.commit(std::move(batch));
  if (stored == Status::Ok && before != members_.end()) before->second.server.returned = true;
  co_return stored;
}

Status Membership::renew(ServerId id, std::optional<Renewal> renewal) {
  const auto found = members_.find(id);
  if (found == members_.end() || !found->second.server.alive) return Status::Fenced;
  if (renewal && renewal->nonce != found->second.server.nonce) return Status::Fenced;
  if (found->second.verdict_under_way) return Status::RetryLater;
  const int64_t now_ns = journal_.nowNs();
  silences_.noteHeard(id, now_ns, renewal);
  found->second.has_spoken = true;
  // The server counts from before it asked, which is earlier than now, so its lease ends before the end that is kept
  // here. A shorter lease never shortens one that was granted before.
  found->second.lease_end_ns = std::max(found->second.lease_end_ns, now_ns + options_.lease_ns);
  return Status::Ok;
}

runtime::Task<Status> Membership::goodbye(ServerId id) {
  auto guard = co_await lock_.lock();
  if (!isAlive(id)) co_return Status::Ok;
  co_return co_await declareDead(id, true);
}

Status Membership::mayAsk(ServerId id) const {
  const auto found = members_.find(id);
  if (found == members_.end() || !found->second.server.alive) return Status::Fenced;
  return found->second.verdict_under_way ? Status::RetryLater : Status::Ok;
}

// Floors and verdicts are stored one after the other: a floor is stored before the verdict, and counts in the recovery,
// or it is refused.
runtime::Task<Status> Membership::raiseFloor(ServerId id, ReplicaFloor floor) {
  if (floor.segment == SegmentId()) co_return Status::BadRequest;
  const bool asks_nobody = RC_MUTATION("raise-the-floor-of-the-condemned");
  Status allowed = mayAsk(id);
  if (allowed != Status::Ok && !asks_nobody) co_return allowed;
  auto guard = co_await lock_.lock();
  allowed = mayAsk(id);
  if (allowed != Status::Ok && !asks_nobody) co_return allowed;
  Member& member = members_.at(id);
  if (floor <= member.server.floor) co_return Status::Ok;
  Server server = member.server;
  server.floor = floor;
  Batch batch;
  batch.put(keyOf(id), encode(server));
  const Status stored = co_await journal_.commit(std::move(batch));
  if (stored == Status::Ok) member.server.floor = floor;
  co_return stored;
}

runtime::Task<Status> Membership::storeRecovered(ServerId id) {
  auto guard = co_await lock_.lock();
  const auto found = members_.find(id);
  if (found == members_.end() || found->second.server.recovered) co_return Status::Ok;
  RC_CHECK(!found->second.server.alive);
  Server server = found->second.server;
  server.recovered = true;
  Batch batch;
  batch.put(keyOf(id), encode(server));
  const Status stored = co_await journal_.commit(std::move(batch));
  if (stored == Status::Ok) found->second.server.recovered = true;
  co_return stored;
}

runtime::Task<Status> Membership::storeAcceptedLoss(ServerId id, AcceptedLoss loss) {
  return storeOfDead(id, [loss = std::move(loss)](Server& server) { server.accepted_loss = loss; });
}

runtime::Task<Status> Membership::storeRead(ServerId id, std::vector<ReadSegment> read) {
  return storeOfDead(id, [read = std::move(read)](Server& server) { server.read = read; });
}

runtime::Task<Status> Membership::storeOfDead(ServerId id, std::function<void(Server&)> change) {
  auto guard = co_await lock_.lock();
  const auto found = members_.find(id);
  if (found == members_.end() || found->second.server.recovered) co_return Status::Ok;
  RC_CHECK(!found->second.server.alive);
  Server server = found->second.server;
  change(server);
  Batch batch;
  batch.put(keyOf(id), encode(server));
  const Status stored = co_await journal_.commit(std::move(batch));
  if (stored == Status::Ok) change(found->second.server);
  co_return stored;
}

// Under lock_. Stores a verdict, then applies it. What follows from it is decided by the callers of isAlive() and
// leaseIsOver().
runtime::Task<Status> Membership::declareDead(ServerId id, bool stopped_itself) {
  Member& member = members_.at(id);  // members are removed under lock_ only
  silences_.look();
  member.verdict_under_way = true;
  Server dead = member.server;
  dead.alive = false;
  Batch batch;
  batch.put(keyOf(id), encode(dead));
  // Late messages of dead servers are answered by their records. The oldest of many recovered servers are forgotten.
  std::vector<ServerId> forgotten;
  size_t dead_count = 0;
  size_t missed_count = 0;
  for (auto at = members_.rbegin(); at != members_.rend(); ++at) {
    const Server& old = at->second.server;
    if (!old.recovered || forgotten.size() >= Batch::kChangesMax - 1) continue;
    // A recovery waits for a storage that may still come back only while there is a record of its server.
    const bool is_missed = old.keeps_replicas && !old.returned;
    const bool may_go = is_missed ? ++missed_count >= kMissedKeptMax : ++dead_count >= kDeadKeptMax;
    if (may_go) forgotten.push_back(at->first);
  }
  for (const ServerId old : forgotten) batch.remove(keyOf(old));
  const Status stored = co_await journal_.commit(std::move(batch));
  member.verdict_under_way = false;
  if (stored != Status::Ok) co_return stored;
  member.server.alive = false;
  member.stopped_itself = stopped_itself;
  for (const ServerId old : forgotten) {
    silences_.remove(old);
    members_.erase(old);
  }
  trace_.warning("server " + std::to_string(id.value) + " (" + dead.name +
                 (stopped_itself ? ") has left" : ") is declared dead: it did not renew its lease"));
  noteChange();
  co_return Status::Ok;
}

// Without living servers there is nothing to wake up for.
int64_t Membership::nextLookNs() const {
  int64_t next_ns = all_had_time_ ? runtime::kNever : settled_at_ns_;
  const int64_t now_ns = journal_.nowNs();
  for (const auto& [id, member] : members_) {
    if (!member.server.alive) continue;
    // A server whose verdict is put off (Together, Replacers, Room) has no time of its own: all are looked at every
    // half lease.
    const int64_t due_ns =
        std::max(now_ns + options_.verdict_after_ns - silences_.silenceNs(id), no_verdict_before_ns_);
    next_ns = std::min({next_ns, now_ns + options_.lease_ns / 2, due_ns > now_ns ? due_ns : runtime::kNever});
  }
  return next_ns;
}

runtime::Task<void> Membership::watch() {
  Journal::Running running(journal_);
  while (!journal_.stopping()) {
    const int64_t wake_ns = nextLookNs();
    const Status woken = co_await changed_.wait(wake_ns);
    // Checked whatever has woken this: after a standstill another event may come before the timer that is overdue.
    if (wake_ns != runtime::kNever && hasStoodStill(wake_ns)) continue;
    if (woken == Status::Shutdown) break;
    const int64_t now_ns = journal_.nowNs();
    all_had_time_ |= now_ns >= settled_at_ns_;
    // An enlistment wakes this, too. It must not put verdicts off: a server that enlists again and again would keep
    // dead ones in the list.
    if (now_ns < no_verdict_before_ns_ || journal_.stopping()) continue;
    co_await judgeSilent();
  }
}

// True if this process should have continued at `since_ns` and did so more than half a lease later: it was stopped, or
// its disk was slow. Renewals may wait unread, so silence proves nothing before they have been read.
bool Membership::hasStoodStill(int64_t since_ns) {
  const int64_t now_ns = journal_.nowNs();
  if (now_ns <= since_ns + options_.lease_ns / 2) return false;
  if (!all_had_time_) settled_at_ns_ = now_ns + options_.lease_ns;
  no_verdict_before_ns_ = std::max(no_verdict_before_ns_, now_ns + options_.lease_ns);
  silences_.hearAnew();
  trace_.warning("the coordinator stood still for " + std::to_string((now_ns - since_ns) / runtime::kNanosPerMilli) +
                 " ms; no server is declared dead for its silence before another lease has passed");
  return true;
}

// One verdict at a time: each changes what the silence of the others means.
runtime::Task<void> Membership::judgeSilent() {
  int64_t looked_ns = journal_.nowNs();
  auto guard = co_await lock_.lock();
  bool declared = true;
  while (declared && !journal_.stopping()) {
    declared = false;
    // The wait for the lock or for the disk may have been long.
    if (!RC_MUTATION("judge-after-a-standstill") && hasStoodStill(looked_ns)) co_return;
    silences_.look();
    const SilenceWatch::Judged judged = silences_.judge();
    silences_.tellOfTogether(judged);
    for (const auto& [id, means] : judged) {
      silences_.tell(id, means);
      if (means != SilenceMeans::Death) continue;
      const int64_t judged_ns = journal_.nowNs();
      const Status stored = co_await declareDead(id, false);
      if (stored != Status::Ok) {
        // A full disk would not store it sooner without a pause.
        no_verdict_before_ns_ = std::max(no_verdict_before_ns_, journal_.nowNs() + kVerdictPauseNs);
        co_return;
      }
      ++verdicts_by_silence_;
      looked_ns = judged_ns;
      declared = true;
      break;
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

void Membership::noteSpoken(ServerId id) {
  const auto found = members_.find(id);
  if (found != members_.end()) found->second.has_spoken = true;
}

bool Membership::hasSpoken(ServerId id) const {
  const auto found = members_.find(id);
  return found != members_.end() && found->second.has_spoken;
}

bool Membership::isSettled() const {
  // all_had_time_, not the clock, decides: if this process stood still until settled_at_ns_, what servers said is
  // unread.
  if (all_had_time_) return true;
  size_t alive = 0;
  size_t heard = 0;
  for (const auto& [id, member] : members_) {
    alive += member.server.alive ? 1 : 0;
    heard += member.server.alive && member.has_spoken ? 1 : 0;
  }
  // If no server is known to live, servers that come may know more, unless there never was one.
  return alive == 0 ? !hasHadServers() : heard * 2 >= alive;
}

bool Membership::hasReported(ServerId id) const {
  const auto found = members_.find(id);
  return found != members_.end() && found->second.server.alive && !found->second.verdict_under_way &&
         journal_.nowNs() < silences_.lastHeardNs(id) + options_.lease_ns;
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
    if (hasReported(id)) heard.push_back(id);
  }
  return heard;
}

std::vector<const Server*> Membership::servers() const {
  std::vector<const Server*> all;
  for (const auto& [id, member] : members_) all.push_back(&member.server);
  return all;
}

}  // namespace ramcore::coordinator
