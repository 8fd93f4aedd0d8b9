#include "master/repair/memory_repair.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace ramcore::master {
namespace {

// 128 KB of small entries take about 25 us.
constexpr uint32_t kSliceBytes = 128 * 1024;
constexpr int64_t kGracePollNs = 1 * runtime::kNanosPerMilli;
constexpr int64_t kFetchDeadlineNs = 2 * runtime::kNanosPerSecond;
// The deadline for a whole replica.
constexpr int64_t kFetchWholeNs = 5 * runtime::kNanosPerSecond;
constexpr int64_t kFetchPauseNs = 10 * runtime::kNanosPerMilli;
// Requests for a damaged object are answered with RetryLater for this long, and with Corrupt from then on.
constexpr int64_t kPatienceNs = 5 * runtime::kNanosPerSecond;
constexpr int64_t kTryAgainNs = 100 * runtime::kNanosPerMilli;
// Segments that are restored at a time: one whose backups do not answer keeps its place for seconds.
constexpr uint32_t kAttendedMax = 4;
// A segment all of whose damaged entries are given up is begun only while fewer segments than this are restored.
constexpr uint32_t kHopelessMax = 1;
// Servers that one attempt asks for a replica of their former life, and the time after which it asks no more; the next
// attempt asks others.
constexpr size_t kOthersMax = 16;
constexpr int64_t kOthersNs = 2 * runtime::kNanosPerSecond;

std::string text(const log::Damage& damage) {
  return "segment " + std::to_string(damage.segment.value) + ", offset " + std::to_string(damage.offset_bytes);
}

}  // namespace

MemoryRepair::MemoryRepair(const Parts& parts, const MemoryScrubOptions& options)
    : Job([](runtime::Job& job) { static_cast<MemoryRepair&>(job).onWake(); }),
      parts_(parts),
      options_(options),
      scrubber_(parts.log),
      changed_(parts.background) {
  parts_.log.integrity().setObserver(this);
}

MemoryRepair::~MemoryRepair() {
  RC_CHECK_MSG(running_.load() == 0, "the memory's repair was destroyed before it had stopped");
}

void MemoryRepair::start() {
  if (options_.bytes_per_second == 0) return;
  wants_scrub_.store(true);
  wake();
}

void MemoryRepair::stop() {
  // Counted, so that stopped() is false until the job that ends the rest is posted.
  running_.fetch_add(1);
  stop_.store(true);
  wake();
  running_.fetch_sub(1);
}

void MemoryRepair::membersChanged() {
  members_have_changed_.store(true);
  running_.fetch_add(1);
  if (!stop_.load()) wake();
  running_.fetch_sub(1);
}

void MemoryRepair::onDamaged(const log::Damage& damage) {
  {
    SpinGuard guard(lock_);
    news_.push_back(damage);
  }
  // Counted until it is decided whether the job is posted. If stopped() was true before, stop_ is set and none is
  // posted. Otherwise it cannot become true in between.
  running_.fetch_add(1);
  if (!stop_.load()) wake();
  running_.fetch_sub(1);
}

void MemoryRepair::wake() {
  running_.fetch_add(1);
  if (is_posted_.exchange(true)) {
    running_.fetch_sub(1);
    return;
  }
  parts_.background.post(*this, runtime::Priority::Background);
}

void MemoryRepair::onWake() {
  is_posted_.store(false);
  changed_.notifyAll();
  if (!stop_.load()) {
    if (wants_scrub_.exchange(false)) scrub().detach();
    takeNews();
    if (members_have_changed_.exchange(false)) tryHopelessAgain();
    if (!works_.empty() && !restoring_) restoreAll().detach();
  }
  // Ends the count of wake(). Nothing of this object is used afterwards: it may be destroyed.
  running_.fetch_sub(1);
}

void MemoryRepair::takeNews() {
  std::vector<log::Damage> news;
  {
    SpinGuard guard(lock_);
    news = std::exchange(news_, {});
  }
  for (const log::Damage& damage : news) {
    report(damage);
    if (!canRestore()) continue;
    Work& work = works_[damage.segment];
    work.due_ns = nowNs();
    work.tasks.push_back({.damage = damage,
                          .marked = parts_.log.settling().graceTicket(),
                          .give_up_ns = nowNs() + kPatienceNs,
                          .is_given_up = false,
                          .restored_from = std::nullopt});
  }
}

/// A server that has come may have what nobody has given back.
void MemoryRepair::tryHopelessAgain() {
  for (auto& [segment, work] : works_) {
    work.others_at = 0;
    if (!work.isHopeless()) continue;
    work.hopeless_pause.restart();
    if (!work.is_running) work.due_ns = nowNs();
  }
}

/// One line for a person, who may want to look at the memory module.
void MemoryRepair::report(const log::Damage& damage) {
  const std::optional<store::DamageResolver::Identity> key =
      parts_.store.damages().identify(damage.ref, damage.segment);
  std::string what =
      "memory: the entry at " + text(damage) + " is not what was written (" + std::string(name(damage.error)) + "): ";
  if (damage.was_dead) {
    what += "garbage";
  } else if (key) {
    parts_.log.integrity().notePlaced(damage);
    what += "table " + std::to_string(key->table.value) + ", key hash " + std::to_string(key->hash);
  } else if (parts_.store.damages().isBookkeeping(damage.ref)) {
    parts_.log.integrity().notePlaced(damage);
    what += "no object";
  } else {
    what += "its key cannot be read";
  }
  parts_.trace.error(what + (canRestore() ? "; it is fetched from a replica" : "; there are no replicas"));
}

runtime::Task<void> MemoryRepair::scrub() {
  running_.fetch_add(1);
  while (!stop_.load()) {
    const int64_t next_pass_ns = nowNs() + options_.pass_ns;
    uint32_t seen = kSliceBytes;
    while (seen >= kSliceBytes && !stop_.load()) {
      co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
      seen = scrubber_.step(kSliceBytes);
      const double pause_ns = static_cast<double>(seen) / static_cast<double>(options_.bytes_per_second) *
                              static_cast<double>(runtime::kNanosPerSecond);
      const int64_t until_ns = nowNs() + static_cast<int64_t>(pause_ns);
      while (nowNs() < until_ns && !stop_.load()) {
        [[maybe_unused]] const Status woken = co_await changed_.wait(until_ns);
      }
    }
    while (nowNs() < next_pass_ns && !stop_.load()) {
      [[maybe_unused]] const Status woken = co_await changed_.wait(next_pass_ns);
    }
  }
  running_.fetch_sub(1);
}

// ---- when

runtime::Task<void> MemoryRepair::restoreAll() {
  running_.fetch_add(1);
  restoring_ = true;
  while (!works_.empty() && !stop_.load()) {
    giveUpOverdue();
    for (Work* work = nextWork(); work != nullptr; work = nextWork()) {
      attend(work->tasks.front().damage.segment).detach();
    }
    if (works_.empty()) break;
    [[maybe_unused]] const Status woken = co_await changed_.wait(nextNs());
  }
  restoring_ = false;
  running_.fetch_sub(1);
}

bool MemoryRepair::Work::isHopeless() const {
  return std::ranges::all_of(tasks, [](const RepairTask& one) { return one.isLost(); });
}

/// Gives up the entries that were not restored within kPatienceNs, even while a backup is still being asked.
void MemoryRepair::giveUpOverdue() {
  for (auto& [segment, work] : works_) {
    for (RepairTask& task : work.tasks) {
      if (task.is_given_up || task.restored_from || nowNs() < task.give_up_ns) continue;
      task.is_given_up = true;
      parts_.log.integrity().giveUp(task.damage);
      parts_.trace.error("memory: no replica gives back the entry at " + text(task.damage) +
                         "; it is answered as corrupt");
    }
  }
}

bool MemoryRepair::mayStart(const Work& work) const {
  return !work.is_running && attending_ < (work.isHopeless() ? kHopelessMax : kAttendedMax);
}

/// The work that has been due for longest; nullptr: none can begin now.
MemoryRepair::Work* MemoryRepair::nextWork() {
  Work* next = nullptr;
  for (auto& [segment, work] : works_) {
    if (!mayStart(work) || nowNs() < work.due_ns) continue;
    if (next == nullptr || work.due_ns < next->due_ns) next = &work;
  }
  return next;
}

/// The time at which there is something to do if nothing happens before.
int64_t MemoryRepair::nextNs() const {
  int64_t next_ns = runtime::kNever;
  for (const auto& [segment, work] : works_) {
    if (mayStart(work)) next_ns = std::min(next_ns, work.due_ns);
    for (const RepairTask& task : work.tasks) {
      if (!task.is_given_up && !task.restored_from) next_ns = std::min(next_ns, task.give_up_ns);
    }
  }
  return next_ns;
}

/// One try to restore what is known to be damaged in a segment.
runtime::Task<void> MemoryRepair::attend(SegmentId segment) {
  running_.fetch_add(1);
  ++attending_;
  Work& work = works_.at(segment);
  work.is_running = true;
  work.due_ns = runtime::kNever;  // until putOff(), or news of more damage
  const std::vector<RepairTask> tried = work.tasks;
  Damages damages;
  Damages restored;
  for (const RepairTask& task : tried) {
    (task.restored_from ? restored : damages).push_back(task.damage);
    co_await waitFor(task.marked);
  }
  if (!restored.empty() && !stop_.load()) co_await release(std::move(restored));
  if (!damages.empty() && !stop_.load()) co_await restore(segment, std::move(damages));
  if (!stop_.load()) putOff(segment);
  --attending_;
  changed_.notifyAll();
  running_.fetch_sub(1);
}

/// Ends a try: sets the time of the next one, or forgets the work if nothing is left to do.
void MemoryRepair::putOff(SegmentId segment) {
  Work& work = works_.at(segment);
  work.is_running = false;
  if (work.tasks.empty()) {
    works_.erase(segment);
    return;
  }
  int64_t pause_ns = kTryAgainNs;
  if (work.isHopeless()) {
    pause_ns = work.hopeless_pause.nextNs();
  } else {
    work.hopeless_pause.restart();
  }
  work.due_ns = std::min(work.due_ns, nowNs() + pause_ns);
}

// ---- from where

/// The first task for this entry. If the entry was found damaged once more since, there is another task behind it.
MemoryRepair::RepairTask& MemoryRepair::taskOf(const log::Damage& damage) {
  std::vector<RepairTask>& all = works_.at(damage.segment).tasks;
  return *std::ranges::find(all, damage.ref, [](const RepairTask& task) { return task.damage.ref; });
}

/// Forgets the task of a damage for which nothing is left to do.
void MemoryRepair::forget(const log::Damage& damage) {
  std::vector<RepairTask>& all = works_.at(damage.segment).tasks;
  all.erase(all.begin() + (&taskOf(damage) - all.data()));
}

/// @param damages  of one segment
runtime::Task<void> MemoryRepair::restore(SegmentId segment, Damages damages) {
  // Backups give away closed replicas only, so a head is closed first.
  if (segment == parts_.log.headId()) static_cast<void>(parts_.log.requestRoll());
  co_await restoreFromHolders(segment, damages);
  if (!damages.empty() && !stop_.load()) co_await restoreFromOthers(segment, damages);
  for (const log::Damage& damage : damages) {
    if (stop_.load() || parts_.log.integrity().segmentOf(damage) != nullptr) continue;
    forget(damage);
    parts_.log.integrity().forgetGone();
  }
}

runtime::Task<void> MemoryRepair::restoreFromHolders(SegmentId segment, Damages& damages) {
  co_await runtime::resumeOn(parts_.dispatch, runtime::Priority::Background);
  const std::vector<Holder> holders = parts_.replicas->closedHolders(segment);
  co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
  for (size_t i = 0; i < holders.size() && !damages.empty() && !stop_.load(); ++i) {
    const Status heard = co_await restoreFrom(holders[i].address, segment, damages);
    if (heard != Status::NotFound) continue;
    // The backup's disk has not kept the replica, which still counts here. No other server asks for it, so this one
    // reports the loss, and the replica is made again.
    co_await runtime::resumeOn(parts_.dispatch, runtime::Priority::Background);
    parts_.replicas->noteLostReplica(ServerId(holders[i].address.id), segment, holders[i].replica_epoch);
    co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
  }
}

/// Asks servers that may have kept a replica from their former life. Where the log has lost its replicas, they keep
/// such a replica: none is made of a damaged segment, so it stays needed (ReplicaManager::isNeeded).
runtime::Task<void> MemoryRepair::restoreFromOthers(SegmentId segment, Damages& damages) {
  co_await runtime::resumeOn(parts_.dispatch, runtime::Priority::Background);
  const std::vector<rpc::PeerAddress> others = parts_.replicas->otherBackups(segment);
  co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
  const int64_t end_ns = nowNs() + kOthersNs;
  const size_t first = works_.at(segment).others_at;
  size_t asked = 0;
  bool says_later = false;
  while (asked < std::min(others.size(), kOthersMax) && !damages.empty() && !stop_.load() && nowNs() < end_ns) {
    const Status heard = co_await restoreFrom(others[(first + asked++) % others.size()], segment, damages);
    says_later = says_later || heard == Status::RetryLater;
  }
  // A server that has just been started answers later.
  if (!says_later) works_.at(segment).others_at = first + asked;
}

/// @param damages  those that are restored are taken out
/// @return what the holder has said last
runtime::Task<Status> MemoryRepair::restoreFrom(rpc::PeerAddress holder, SegmentId segment, Damages& damages) {
  std::vector<std::byte> replica;  // the whole replica, if it was needed
  Damages restored;
  Status heard = Status::Ok;
  for (size_t i = 0; i < damages.size() && heard == Status::Ok && !stop_.load();) {
    // Others come in between: a whole replica takes milliseconds to look through.
    co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
    const Status status = co_await restoreOne(holder, damages[i], replica, heard);
    if (status == Status::Ok) {
      taskOf(damages[i]).restored_from = holder.id;
      restored.push_back(damages[i]);
      damages.erase(damages.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  if (!restored.empty()) co_await release(std::move(restored));
  co_return heard;
}

/// @param replica  the whole replica, if it is here already or is fetched now
/// @param heard    set to what the holder says
/// @return anything but Ok: the entry cannot be restored from this holder, or its segment has gone
runtime::Task<Status> MemoryRepair::restoreOne(rpc::PeerAddress holder, log::Damage damage,
                                               std::vector<std::byte>& replica, Status& heard) {
  log::Integrity& integrity = parts_.log.integrity();
  const log::Segment* segment = integrity.segmentOf(damage);
  if (segment == nullptr) co_return Status::NotFound;
  const uint32_t length = segment->committedBytes();
  if (replica.empty()) {
    const bool is_compacted = segment->compactionCount() != 0;
    Piece piece;
    const uint32_t bytes = std::min(parts_.log.config().entry_bytes_max, length - damage.offset_bytes);
    heard = co_await ask(holder, damage.segment, damage.offset_bytes, bytes, piece);
    if (heard == Status::Ok && piece.replica_bytes == length) co_return integrity.restore(damage, piece.bytes);
    // The replica was made before the segment was compacted: the entry lies elsewhere in it.
    if (!is_compacted || (heard != Status::Ok && heard != Status::BadRequest)) co_return Status::Corrupt;
    heard = co_await fetchWhole(holder, damage.segment, replica);
    if (heard != Status::Ok) co_return heard;
  }
  if (replica.size() == length) co_return integrity.restore(damage, ByteSpan(replica).subspan(damage.offset_bytes));
  co_return integrity.restoreFrom(damage, replica);
}

/// Takes the marks off restored entries, after a grace period: then a thread that sees no mark has compared keys with
/// the right bytes only.
runtime::Task<void> MemoryRepair::release(Damages damages) {
  co_await waitFor(parts_.log.settling().graceTicket());
  if (stop_.load()) co_return;
  for (const log::Damage& damage : damages) {
    if (parts_.log.integrity().segmentOf(damage) == nullptr) {
      // The segment has gone during the wait.
      forget(damage);
      parts_.log.integrity().forgetGone();
      continue;
    }
    RepairTask& task = taskOf(damage);
    if (!parts_.log.integrity().isRestored(damage)) {
      // The entry was damaged once more during the wait. A marked entry is not reported again, so the task begins anew.
      task.restored_from.reset();
      task.give_up_ns = nowNs() + kPatienceNs;
      continue;
    }
    if (parts_.store.damages().reconcile(damage) != Status::Ok) continue;  // tried again
    const uint64_t from = task.restored_from.value();
    forget(damage);
    parts_.log.release(damage);
    parts_.trace.warning("memory: the entry at " + text(damage) + " is restored from server " + std::to_string(from));
  }
}

runtime::Task<Status> MemoryRepair::fetchWhole(rpc::PeerAddress holder, SegmentId segment,
                                               std::vector<std::byte>& replica) {
  const int64_t deadline_ns = nowNs() + kFetchWholeNs;
  std::vector<std::byte> bytes;
  uint32_t length = 1;  // until it is known
  while (bytes.size() < length) {
    Piece piece;
    const auto offset = static_cast<uint32_t>(bytes.size());
    const Status status = co_await ask(holder, segment, offset, wire::FetchReplica::kBytesMax, piece);
    // The backup has others to answer. The bytes that are here already are not asked for again.
    if (status == Status::RetryLater && nowNs() < deadline_ns && !stop_.load()) {
      co_await runtime::sleepFor(parts_.background, kFetchPauseNs);
      continue;
    }
    if (status != Status::Ok) co_return status;
    if (offset != 0 && piece.replica_bytes != length) co_return Status::BadRequest;  // another replica
    if (nowNs() > deadline_ns) co_return Status::DeadlineExceeded;
    length = piece.replica_bytes;
    bytes.insert(bytes.end(), piece.bytes.begin(), piece.bytes.end());
  }
  replica = std::move(bytes);
  co_return Status::Ok;
}

/// Fetches a piece of a replica: as many of the bytes that were asked for as there are, and at least one.
runtime::Task<Status> MemoryRepair::ask(rpc::PeerAddress holder, SegmentId segment, uint32_t offset_bytes,
                                        uint32_t bytes_max, Piece& piece) {
  using Fetch = wire::FetchReplica;
  transport::TxMessage message = parts_.caller.allocate(sizeof(Fetch::Request));
  message.appendHead(Fetch::Request{.header = {.opcode = wire::Opcode::FetchReplica, .target = ServerId(holder.id)},
                                    .master = parts_.log.identity().server,
                                    .segment = segment,
                                    .offset_bytes = offset_bytes,
                                    .data_bytes = bytes_max});
  const rpc::CallResult result = co_await parts_.caller.call(
      parts_.background, holder, std::move(message),
      {.deadline_ns = nowNs() + kFetchDeadlineNs, .priority = runtime::Priority::Background});
  if (result.status != Status::Ok) co_return result.status;
  Fetch::Response header{.header = {.status = Status::Ok}, .length_bytes = 0, .data_bytes = 0};
  const bool is_answer = wire::decode(result.response.head(), header) && header.data_bytes != 0 &&
                         header.length_bytes <= parts_.log.config().segment_bytes &&
                         offset_bytes < header.length_bytes &&
                         header.data_bytes == std::min(bytes_max, header.length_bytes - offset_bytes) &&
                         result.response.messageBytes() == sizeof(header) + uint64_t{header.data_bytes};
  if (!is_answer) co_return Status::BadRequest;
  piece.replica_bytes = header.length_bytes;
  piece.bytes.reserve(header.data_bytes);
  const ByteSpan head = result.response.head().subspan(sizeof(header));
  piece.bytes.assign(head.begin(), head.end());
  for (const ByteSpan& span : result.response.tail()) piece.bytes.insert(piece.bytes.end(), span.begin(), span.end());
  co_return Status::Ok;
}

runtime::Task<void> MemoryRepair::waitFor(runtime::GraceTicket ticket) {
  while (!parts_.log.settling().isOver(ticket) && !stop_.load()) {
    parts_.maintenance.wake();  // the reclaimer
    co_await runtime::sleepFor(parts_.background, kGracePollNs);
  }
}

}  // namespace ramcore::master
