#include "master/recovery/recovery_target.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/mutation.h"
#include "runtime/await.h"
#include "store/foreign_entry.h"

namespace ramcore::master {
namespace {

constexpr size_t kEntriesPerTurn = store::TabletIntake::kEntriesPerTurn;
// Segments that are fetched, or being fetched, while another one is replayed.
constexpr size_t kSegmentsAhead = 3;
// If replay has found no room for this long, the side log joins the log, so that the cleaner may work on it.
constexpr int64_t kJoinEarlyNs = 200 * runtime::kNanosPerMilli;

}  // namespace

bool RecoveryPlan::Log::validate() {
  if (!dead || (segments.empty() && !is_salvage)) return false;
  std::ranges::sort(segments, std::greater(), [](const Segment& segment) { return segment.id; });
  // Each segment comes once: notes that wait for a segment are forgotten when it has been replayed (DeadVersions).
  if (std::ranges::adjacent_find(segments, {}, [](const Segment& one) { return one.id; }) != segments.end())
    return false;
  return std::ranges::all_of(segments, [this](const Segment& segment) {
    return segment.id && !segment.holders.empty() && segment.replicas.size() == segment.holders.size() &&
           std::ranges::all_of(segment.holders, [this](uint32_t index) { return index < holders.size(); });
  });
}

bool RecoveryPlan::validate() {
  if (parts.empty() || logs.empty() || logs.size() > 2 || (is_survivor && logs.size() != 1)) return false;
  if (!std::ranges::all_of(logs, [](Log& log) { return log.validate(); })) return false;
  if (logs.front().dead == logs.back().dead && logs.size() == 2) return false;
  std::ranges::sort(parts, {}, [](const Part& part) { return std::tuple(part.tablet.table, part.tablet.range.first); });
  for (size_t i = 0; i < parts.size(); ++i) {
    const store::Tablet& tablet = parts[i].tablet;
    if (!tablet.id || !tablet.table || !tablet.epoch || tablet.range.first > tablet.range.last) return false;
    const bool is_in_all = std::ranges::all_of(parts[i].first_segments, [](SegmentId first) { return bool{first}; });
    if (parts[i].first_segments.size() != logs.size() || !is_in_all) return false;
    const bool overlaps =
        i != 0 && parts[i - 1].tablet.table == tablet.table && parts[i - 1].tablet.range.last >= tablet.range.first;
    if (overlaps) return false;
  }
  std::vector<TabletId> ids;
  for (const Part& part : parts) ids.push_back(part.tablet.id);
  std::ranges::sort(ids);
  return std::ranges::adjacent_find(ids) == ids.end();
}

struct RecoveryTarget::Recovery : store::IntakeAttempt {
  /// @param seed  of the notes about what is dead
  Recovery(RecoveryPlan wanted, const std::atomic<bool>& stopping, uint64_t seed)
      : store::IntakeAttempt(stopping), plan(std::move(wanted)), dead_versions(replayOrder(plan), seed) {
    for (size_t i = 0; i < plan.logs.size(); ++i) {
      const RecoveryPlan::Log& log = plan.logs[i];
      Source& source = sources.emplace_back();
      for (const rpc::PeerAddress& address : log.holders) source.holders.push_back({.address = address});
      for (const RecoveryPlan::Part& part : plan.parts) {
        source.ranges.push_back(
            {.table = part.tablet.table, .hashes = part.tablet.range, .first_segment = part.first_segments[i]});
      }
      for (const RecoveryPlan::Segment& segment : log.segments) segments.push_back({i, &segment});
    }
    for (const RecoveryPlan::Part& part : plan.parts) parts.emplace_back().tablet = part.tablet;
  }
  /// The order that notes may rely on. It is empty for a salvage: some segments are missing, and with them perhaps
  /// entries that say what is dead, so no note is forgotten before the end. It is also empty for two logs: what one
  /// says of its own segments says nothing about those of the other.
  static std::vector<SegmentId> replayOrder(const RecoveryPlan& plan) {
    std::vector<SegmentId> order;
    if (plan.isSalvage() || plan.logs.size() != 1) return order;
    for (const RecoveryPlan::Segment& segment : plan.logs.front().segments) order.push_back(segment.id);
    return order;
  }
  bool isSame(const RecoveryPlan& other) const {
    const auto isSameLog = [](const RecoveryPlan::Log& a, const RecoveryPlan::Log& b) { return a.dead == b.dead; };
    const auto isSamePart = [](const RecoveryPlan::Part& a, const RecoveryPlan::Part& b) {
      return a.tablet.id == b.tablet.id && a.tablet.epoch == b.tablet.epoch;
    };
    return std::ranges::equal(plan.logs, other.logs, isSameLog) &&
           std::ranges::equal(plan.parts, other.parts, isSamePart);
  }

  const RecoveryPlan plan;

  // Only for the background executor.
  struct Source {
    std::vector<ReplicaReader::Holder> holders;
    std::vector<wire::ReadReplica::Range> ranges;  // that backups are asked for; in the order of the plan, as `parts`
  };
  std::vector<Source> sources;  // one for each log of the plan
  struct Numbered {
    size_t log;
    const RecoveryPlan::Segment* segment;
  };
  std::vector<Numbered> segments;                  // in the order in which they are replayed
  std::vector<std::shared_ptr<Recovery>> earlier;  // attempts that have to end before this one begins
  // What each of `parts` has already, if this server is a survivor; that is served, and is not replayed.
  std::vector<std::shared_ptr<const store::ArrivingRange>> arrived;
  std::optional<log::SideLog> side;
  bool side_has_entries = false;
  store::DeadVersions dead_versions;
  uint64_t notes_bytes_counted = 0;  // bytes of dead_versions that stats() counts
  Version highest_version = 0;       // the highest version that was found
};

/// A segment that is fetched while others are replayed.
struct RecoveryTarget::Fetch {
  ReplicaReader::Segment segment;
  SegmentContents contents;
  std::optional<runtime::Task<Status>> task;
};

RecoveryTarget::~RecoveryTarget() { RC_CHECK(idle()); }

Status RecoveryTarget::start(RecoveryPlan plan) {
  const auto seed = static_cast<uint64_t>(parts_.background.clock().nowNs());
  auto recovery = std::make_shared<Recovery>(std::move(plan), attempts_.stopping(), seed);
  const store::IntakeAttempts::Claim claim = attempts_.claim(recovery, true);
  if (claim.same != nullptr) {
    return static_cast<const Recovery&>(*claim.same).isSame(recovery->plan) ? Status::Ok : Status::StaleEpoch;
  }
  if (claim.begins()) {
    if (recovery->plan.is_survivor) awaitEarlier(recovery);
    run(std::move(recovery));
  }
  return claim.status;
}

// A survivor purges nothing, so what an earlier attempt has brought, which was given up, counts for this one: its side
// log has to be in the log before this one is done.
void RecoveryTarget::awaitEarlier(const std::shared_ptr<Recovery>& recovery) {
  SpinGuard guard(lock_);
  std::erase_if(at_survivor_, [](const std::weak_ptr<Recovery>& one) { return one.expired(); });
  for (const std::weak_ptr<Recovery>& one : at_survivor_) {
    if (std::shared_ptr<Recovery> earlier = one.lock()) recovery->earlier.push_back(std::move(earlier));
  }
  at_survivor_.push_back(recovery);
}

bool RecoveryTarget::knows(const RecoveryPlan& plan) const {
  return std::ranges::any_of(plan.parts, [&](const RecoveryPlan::Part& part) {
    const auto known = attempts_.find(part.tablet.id);
    return known != nullptr && static_cast<const Recovery&>(*known).isSame(plan);
  });
}

runtime::Detached RecoveryTarget::run(std::shared_ptr<Recovery> recovery) {
  co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
  for (const std::shared_ptr<Recovery>& one : std::exchange(recovery->earlier, {})) {
    co_await store::IntakeAttempts::awaitEnd(*one, *recovery, parts_.background);
  }
  Status status = co_await prepare(*recovery);
  if (status == Status::Ok) status = co_await replayLog(*recovery);
  recovery->dead_versions.clear();
  countNotes(*recovery);
  attempts_.end(*recovery, status,
                "recovering " + std::to_string(recovery->parts.size()) + " tablets of server " +
                    std::to_string(recovery->plan.logs.front().dead.value));
}

/// A survivor keeps what it has: it is a part of the contents.
Status RecoveryTarget::prepareSurvivor(Recovery& recovery) {
  SegmentId first_segment;
  for (const Part& part : recovery.parts) {
    const auto here = parts_.tablets.get(part.tablet.id);
    if (!here) return Status::NotFound;
    recovery.arrived.push_back(here->arriving);
    first_segment = here->first_segment;
  }
  recovery.first_segment.store(first_segment);
  return Status::Ok;
}

/// Older attempts were given up when this one was started. They run on this executor, so they bring nothing into the
/// ranges any more. What they have brought is purged here, and lies before the head that is rolled.
runtime::Task<Status> RecoveryTarget::prepare(Recovery& recovery) {
  if (recovery.plan.is_survivor) co_return prepareSurvivor(recovery);
  for (Part& part : recovery.parts) {
    if (part.cancelled) continue;
    intake_.evict(part.tablet);
    const Status purged = co_await intake_.purge(part.tablet, part.cancelled);
    if (purged != Status::Ok && !part.cancelled) co_return purged;
    if (recovery.ended) co_return Status::Cancelled;
  }
  SegmentId head;
  const Status rolled = co_await intake_.roll(recovery.ended, head, &recovery.patience);
  if (rolled != Status::Ok) co_return rolled;
  recovery.first_segment.store(head);
  for (Part& part : recovery.parts) {
    if (part.cancelled) continue;
    const Status added = intake_.add(part.tablet, head, part.cancelled);
    if (added != Status::Ok && !part.cancelled) co_return added;
  }
  co_return Status::Ok;
}

void RecoveryTarget::openSide(Recovery& recovery) {
  recovery.side.emplace(parts_.log, parts_.log.replicator(), log::CopiesAwaited::All);
  // What was to arrive from the dead server comes from its log now.
  if (recovery.plan.is_survivor) recovery.side->useHeldRoom();
}

/// The side log joins the log even if the replay has failed: until the ranges are purged, the index refers to its
/// entries. If it finds no places it is given up instead.
runtime::Task<Status> RecoveryTarget::replayLog(Recovery& recovery) {
  openSide(recovery);
  Status status = co_await replaySegments(recovery);
  if (status == Status::Ok && recovery.plan.isSalvage()) status = co_await renewVersions(recovery);
  if (recovery.plan.is_survivor) {
    // What was replayed lies over the survivor's own entries, which may be gone by now: it is not given up.
    const Status joined = co_await intake_.join(*recovery.side, attempts_.stopping(), &recovery.patience, true);
    recovery.side.reset();
    co_return status == Status::Ok ? joined : status;
  }
  std::vector<store::Tablet> tablets;
  for (const Part& part : recovery.parts) tablets.push_back(part.tablet);
  // If an early join has found no places, there is no use in another one. What was replayed can be had from the dead
  // server's log again, and its places are of more use to other recoveries, which may be able to end with them.
  const bool finds_none = status == Status::TooFewReplicas;
  const Status joined = co_await intake_.joinOrForsake(*recovery.side, tablets, finds_none, recovery.patience);
  if (status == Status::Ok) status = joined;
  recovery.side.reset();
  co_return status;
}

runtime::Task<Status> RecoveryTarget::replaySegments(Recovery& recovery) {
  const size_t count = recovery.segments.size();
  std::deque<Fetch> ahead;  // a fetch stays where it is until it has ended
  Status status = Status::Ok;
  size_t started = 0;
  for (size_t replayed = 0; replayed < count && status == Status::Ok; ++replayed) {
    for (; started < count && ahead.size() <= kSegmentsAhead; ++started) {
      startFetch(recovery, started, ahead.emplace_back());
    }
    Fetch& fetch = ahead.front();
    status = co_await *fetch.task;
    if (status == Status::Ok && isCut(recovery, replayed)) fetch.contents.entries.clear();
    if (status == Status::Ok) status = co_await replaySegment(recovery, fetch.contents);
    ahead.pop_front();
    recovery.dead_versions.segmentDone();
    recovery.fraction.store(static_cast<double>(replayed + 1) / static_cast<double>(count));
  }
  // After a failure the other fetches end soon.
  if (status != Status::Ok) recovery.ended.store(true);
  for (Fetch& fetch : ahead) {
    [[maybe_unused]] const Status ended = co_await *fetch.task;
  }
  co_return status;
}

bool RecoveryTarget::isCut(const Recovery& recovery, size_t number) {
  return recovery.segments[number].segment->is_cut && !RC_MUTATION("replay-what-is-cut");
}

void RecoveryTarget::startFetch(Recovery& recovery, size_t number, Fetch& fetch) {
  const RecoveryPlan::Segment& segment = *recovery.segments[number].segment;
  Recovery::Source& source = recovery.sources[recovery.segments[number].log];
  fetch.segment = {.dead = recovery.plan.logs[recovery.segments[number].log].dead,
                   .id = segment.id,
                   .sources = {},
                   .ranges = source.ranges};
  // Each segment begins with another holder, and each recovery master somewhere else: all of them read the whole log.
  const size_t first = number + parts_.log.identity().server.value;
  for (size_t i = 0; i < segment.holders.size(); ++i) {
    const size_t at = (first + i) % segment.holders.size();
    fetch.segment.sources.push_back({&source.holders[segment.holders[at]], segment.replicas[at]});
  }
  fetch.task.emplace(reader_.read(fetch.segment, recovery.ended, fetch.contents));
}

runtime::Task<Status> RecoveryTarget::replaySegment(Recovery& recovery, const SegmentContents& contents) {
  parts_.store.raiseSafeVersion(contents.safe_version);
  Version& highest = recovery.highest_version;
  highest = std::max(highest, contents.safe_version);
  for (const RecoveredEntry& found : contents.entries) {
    if (found.entry.type() != log::EntryType::ResultRecord) highest = std::max(highest, found.entry.version());
  }
  int64_t last_progress_ns = parts_.background.clock().nowNs();
  for (size_t next = 0; next < contents.entries.size();) {
    if (recovery.ended) co_return Status::Cancelled;
    const size_t before = next;
    Status status = replayTurn(recovery, contents, next);
    status = co_await giveWay(recovery, status, next != before, last_progress_ns);
    if (status != Status::Ok) co_return status;
  }
  co_return Status::Ok;
}

/// Called between two turns, of which the first has ended with `status`: lets others run, or waits until there is room
/// for the entry that did not fit. Not Ok: there is no use in another turn.
runtime::Task<Status> RecoveryTarget::giveWay(Recovery& recovery, Status status, bool has_progressed,
                                              int64_t& last_progress_ns) {
  const int64_t now_ns = parts_.background.clock().nowNs();
  if (has_progressed) last_progress_ns = now_ns;
  if (status == Status::Ok) {
    co_await intake_.giveWay();
    co_return Status::Ok;
  }
  const int64_t stuck_ns = now_ns - last_progress_ns;
  if (!store::TabletIntake::isWorthWaiting(status) || stuck_ns >= store::TabletIntake::kPatienceNs) co_return status;
  co_return co_await makeRoom(recovery, stuck_ns);
}

/// Replays some entries from `next` on, without giving way: so their tablets cannot be given up, and fetched again by
/// another intake, in between.
Status RecoveryTarget::replayTurn(Recovery& recovery, const SegmentContents& contents, size_t& next) {
  std::array<log::EntryView, kEntriesPerTurn> batch;
  std::array<size_t, kEntriesPerTurn> places;
  size_t count = 0;
  size_t end = next;
  for (; end < contents.entries.size() && count < kEntriesPerTurn; ++end) {
    if (recovery.parts[contents.entries[end].range].cancelled || hasArrived(recovery, contents.entries[end])) continue;
    places[count] = end;
    batch[count++] = contents.entries[end].entry;
  }
  size_t taken = 0;
  const Status status =
      parts_.store.replay().replayBatch(std::span(batch).first(count), *recovery.side, taken, &recovery.dead_versions);
  if (taken != 0) recovery.side_has_entries = true;
  countNotes(recovery);
  for (size_t i = 0; i < taken; ++i) {
    Part& part = recovery.parts[contents.entries[places[i]].range];
    if (batch[i].type() == log::EntryType::Object) part.objects.fetch_add(1, std::memory_order_relaxed);
    part.bytes.fetch_add(batch[i].alignedBytes(), std::memory_order_relaxed);
    stats_.replayed_bytes.fetch_add(batch[i].alignedBytes(), std::memory_order_relaxed);
  }
  next = taken == count ? end : places[taken];
  return status;
}

/// Whether an entry is of a key that this server serves already: a replay passes through old states.
bool RecoveryTarget::hasArrived(const Recovery& recovery, const RecoveredEntry& found) {
  if (recovery.arrived.empty() || recovery.arrived[found.range] == nullptr) return false;
  if (found.entry.type() == log::EntryType::ResultRecord || RC_MUTATION("replay-what-is-served")) return false;
  return recovery.arrived[found.range]->has(hashKey(found.entry.table(), found.entry.key()));
}

void RecoveryTarget::countNotes(Recovery& recovery) {
  const uint64_t bytes = recovery.dead_versions.bytes();
  const uint64_t all = stats_.notes_bytes.load(std::memory_order_relaxed) - recovery.notes_bytes_counted + bytes;
  recovery.notes_bytes_counted = bytes;
  // Only the background executor writes them.
  stats_.notes_bytes.store(all, std::memory_order_relaxed);
  if (all > stats_.notes_bytes_max.load(std::memory_order_relaxed)) {
    stats_.notes_bytes_max.store(all, std::memory_order_relaxed);
  }
}

/// The lost part of the log may have given these keys higher versions, and the next version of a key follows on its
/// present one. So the present versions are made higher than the lost ones can be. To be called before the side log
/// joins: the head with whose digest it joins stores the safe version.
runtime::Task<Status> RecoveryTarget::renewVersions(Recovery& recovery) {
  // A server that this one has handed tablets over to has begun above the versions here.
  Version highest = recovery.highest_version;
  if (recovery.plan.is_survivor) highest = std::max(highest, parts_.store.versionCeiling());
  const Version version = highest + kSalvageVersionStep;
  if (version > store::kForeignVersionMax) co_return Status::TooLarge;  // no server would take such entries from us
  parts_.store.raiseSafeVersion(version);
  int64_t last_progress_ns = parts_.background.clock().nowNs();
  for (const Part& part : recovery.parts) {
    std::optional<KeyHash> cursor = part.tablet.range.first;
    while (cursor && !part.cancelled) {
      if (recovery.ended) co_return Status::Cancelled;
      log::SideLog* const side = recovery.plan.is_survivor ? nullptr : &*recovery.side;
      Status status = parts_.store.replay().renewSlice(part.tablet.table, part.tablet.range, version, cursor, side);
      if (side != nullptr) recovery.side_has_entries = true;
      status = co_await giveWay(recovery, status, status == Status::Ok, last_progress_ns);
      if (status != Status::Ok) co_return status;
    }
  }
  co_return Status::Ok;
}

/// Much of a log is dead. Entries that are replayed before their death is known take room in the side log, where they
/// cannot be cleaned. So if the cleaner makes no room elsewhere, the side log joins the log and another one begins.
runtime::Task<Status> RecoveryTarget::makeRoom(Recovery& recovery, int64_t stuck_ns) {
  if (stuck_ns >= kJoinEarlyNs && recovery.side_has_entries) {
    const Status joined =
        co_await intake_.join(*recovery.side, attempts_.stopping(), &recovery.patience, recovery.plan.is_survivor);
    if (joined != Status::Ok) co_return joined;
    openSide(recovery);
    recovery.side_has_entries = false;
    stats_.early_joins.fetch_add(1, std::memory_order_relaxed);
  }
  stats_.waits_for_room.fetch_add(1, std::memory_order_relaxed);
  co_await intake_.awaitRoom();
  co_return Status::Ok;
}

}  // namespace ramcore::master
