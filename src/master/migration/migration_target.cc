#include "master/migration/migration_target.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutation.h"
#include "master/migration/pull.h"
#include "master/migration/pulled_slice.h"
#include "runtime/await.h"

namespace ramcore::master {
namespace {

// Questions for a thousand clients each. Clients beyond them are confirmed one by one.
constexpr size_t kClientQuestionsMax = 64;
constexpr int64_t kSliceWaitNs = 2 * runtime::kNanosPerSecond;
// Between two questions for keys that the source has lost.
constexpr int64_t kLostPauseNs = 200 * runtime::kNanosPerMilli;
constexpr int64_t kPieceWaitNs = 250 * runtime::kNanosPerMilli;
constexpr int64_t kPatienceNs = store::TabletIntake::kPatienceNs;
constexpr int64_t kPauseNs = store::TabletIntake::kPauseNs;
// The pauses between looks for the next command of a coordinator, which comes soon.
constexpr int64_t kOrderPauseNs = 200 * runtime::kNanosPerMicro;
constexpr int64_t kOrderPauseNsMax = 2 * runtime::kNanosPerMilli;

}  // namespace

MigrationTarget::~MigrationTarget() { RC_CHECK(idle()); }

// ---- commands

std::shared_ptr<MigrationTarget::Pull> MigrationTarget::find(TabletId tablet) const {
  return std::static_pointer_cast<Pull>(attempts_.find(tablet));
}

Status MigrationTarget::start(const store::Tablet& tablet, TabletEpoch source_epoch, const rpc::PeerAddress& source) {
  auto pull =
      std::make_shared<Pull>(tablet, SourceCalls::Tablet{.id = tablet.id, .epoch = source_epoch, .source = source},
                             parts_, attempts_.stopping());
  store::IntakeAttempts::Claim claim = attempts_.claim(pull, false);
  if (!claim.begins()) return claim.status;
  pull->former = std::move(claim.former);
  run(std::move(pull));
  return Status::Ok;
}

// Whether the pull is one under this epoch, goes on, and has come as far as this. RetryLater always means that it goes
// on.
Status MigrationTarget::check(const Pull& pull, TabletEpoch epoch, Phase least) {
  if (pull.tablet().epoch != epoch) return Status::StaleEpoch;
  if (pull.done) {
    const Status status = pull.status.load();
    return status == Status::Ok || status == Status::RetryLater ? Status::NotFound : status;
  }
  return pull.phase.load() < least ? Status::RetryLater : Status::Ok;
}

Status MigrationTarget::adopt(TabletId tablet, TabletEpoch epoch, Version version_ceiling) {
  const std::shared_ptr<Pull> pull = find(tablet);
  if (pull == nullptr) return Status::NotFound;
  if (version_ceiling > store::kMovedVersionMax) return Status::BadRequest;
  const Status ready = check(*pull, epoch, Phase::Prepared);
  if (ready != Status::Ok) return ready;
  if (pull->ordered.load() < Phase::Adopting) {
    pull->version_ceiling.store(version_ceiling);
    pull->ordered.store(Phase::Adopting);
  }
  return pull->phase.load() >= Phase::Adopted ? Status::Ok : Status::RetryLater;
}

Status MigrationTarget::arrive(TabletId tablet, TabletEpoch epoch) {
  const std::shared_ptr<Pull> pull = find(tablet);
  if (pull == nullptr) return Status::NotFound;
  if (pull->is_interrupted) return Status::RetryLater;
  const Status ready = check(*pull, epoch, Phase::Adopted);
  if (ready != Status::Ok || pull->ordered.load() >= Phase::Arriving) return ready;
  // Calls may wait as soon as the tablet answers, and the pull that ends their waiting begins last.
  priority_pulls_.open(tablet);
  const Status arriving = parts_.tablets.arrive(tablet, pull->arriving);
  if (arriving == Status::Ok) {
    pull->ordered.store(Phase::Arriving);
  } else {
    priority_pulls_.close(tablet, Status::RetryLater);
  }
  return arriving;
}

void MigrationTarget::settle(TabletId tablet) {
  if (const std::shared_ptr<Pull> pull = find(tablet)) pull->ordered.store(Phase::Settling);
}

bool MigrationTarget::interrupt(TabletId tablet) {
  const std::shared_ptr<Pull> pull = find(tablet);
  if (pull == nullptr) return true;
  if (pull->phase.load() >= Phase::Prepared) pull->arriving->close();
  pull->is_interrupted.store(true);
  return pull->is_quiet || pull->done;
}

Result<MigrationTarget::Progress> MigrationTarget::progress(TabletId tablet) const {
  const Result<store::IntakeProgress> known = attempts_.progress(tablet);
  if (!known.ok()) return known.error();
  Progress progress;
  static_cast<store::IntakeProgress&>(progress) = *known;
  const std::shared_ptr<Pull> pull = find(tablet);
  if (pull == nullptr) return Status::NotFound;
  progress.phase = pull->phase.load();
  progress.problem = pull->problem.load();
  progress.shortage = {.wanted_bytes = pull->room_wanted_bytes.load(), .left_bytes = pull->room_left_bytes.load()};
  return progress;
}

// ---- the steps

runtime::Detached MigrationTarget::run(std::shared_ptr<Pull> pull) {
  co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
  const Status status = co_await runSteps(*pull);
  attempts_.end(*pull, status, "pulling tablet " + std::to_string(pull->tablet().id.value));
  if (status == Status::Ok) attempts_.cancel(pull->tablet().id, pull->tablet().epoch);
}

runtime::Task<Status> MigrationTarget::runSteps(Pull& pull) {
  Status status = co_await prepare(pull);
  if (status == Status::Ok) {
    pull.phase.store(Phase::Prepared);
    status = co_await awaitOrder(pull, Phase::Adopting);
  }
  if (status == Status::Ok) status = co_await adoptResults(pull);
  if (status == Status::Ok) {
    pull.phase.store(Phase::Adopted);
    status = co_await awaitOrder(pull, Phase::Arriving);
  }
  if (status == Status::Ok) status = co_await takeArrival(pull);
  priority_pulls_.close(pull.tablet().id, Status::RetryLater);
  // What a pull that is given up has brought can be had from the source again.
  if (pull.side && !pull.side->isJoining()) {
    (void)co_await intake_.joinOrForsake(*pull.side, std::span(&pull.tablet(), 1), false, pull.patience);
  }
  if (status == Status::Ok) status = co_await awaitOrder(pull, Phase::Settling);
  co_await release(pull);
  if (pull.room) {
    pull.room_wanted_bytes.store(pull.room->shortage().wanted_bytes);
    pull.room_left_bytes.store(pull.room->shortage().left_bytes);
    pull.room.reset();
  }
  co_return status;
}

runtime::Task<Status> MigrationTarget::prepare(Pull& pull) {
  co_await awaitFormer(pull);
  intake_.evict(pull.tablet());
  Status status = co_await intake_.purge(pull.tablet(), pull.ended);
  if (status != Status::Ok) co_return status;
  SegmentId head;
  status = co_await intake_.roll(pull.ended, head, &pull.patience);
  if (status != Status::Ok) co_return status;
  pull.first_segment.store(head);
  pull.room.emplace(parts_.log, pull.calls, pull.tablet().range, parts_.background, pull.ended);
  status = co_await pull.room->claim();
  if (status != Status::Ok) co_return status;
  status = co_await openAnchor(pull);
  if (status != Status::Ok) co_return status;
  co_await confirmClients(pull);
  pull.arriving = std::make_shared<store::ArrivingRange>(pull.tablet().range, pull.anchor->id());
  co_return intake_.add(pull.tablet(), head, pull.ended);
}

runtime::Task<Status> MigrationTarget::openAnchor(Pull& pull) {
  const int64_t give_up_ns = parts_.background.clock().nowNs() + kPatienceNs;
  while (true) {
    pull.anchor = parts_.log.privateSegments().openAnchor();
    if (pull.anchor != nullptr) co_return Status::Ok;
    if (pull.ended) co_return Status::Cancelled;
    if (parts_.background.clock().nowNs() >= give_up_ns) co_return Status::NoSpace;
    co_await intake_.awaitRoom();
  }
}

// Has the leases of the source's clients confirmed, so that their first calls here need not wait for that. A client
// that is missed is confirmed when it calls.
runtime::Task<void> MigrationTarget::confirmClients(Pull& pull) {
  ClientId after;
  for (size_t questions = 0; questions < kClientQuestionsMax && !pull.ended; ++questions) {
    std::vector<ClientId> clients;
    Status status = co_await pull.calls.clients(after, clients);
    if (status != Status::Ok || clients.empty()) co_return;
    after = clients.back();
    const bool may_be_more = clients.size() == wire::ListClients::kClientsMax;
    status = co_await parts_.admission.confirmAll(parts_.background, std::move(clients));
    if (status != Status::Ok || !may_be_more) co_return;
  }
}

runtime::Task<void> MigrationTarget::awaitFormer(Pull& pull) {
  if (pull.former == nullptr) co_return;
  // The former pull is waited for even if this one is given up as well: a pull that waits for this one relies on the
  // end of all before it.
  while (!pull.former->done.load(std::memory_order_acquire)) {
    co_await runtime::sleepFor(parts_.background, kPauseNs);
  }
  pull.former.reset();
}

// Waits for a command. If the source has died, only the last one follows.
runtime::Task<Status> MigrationTarget::awaitOrder(Pull& pull, Phase wanted) {
  runtime::GrowingPause pause(kOrderPauseNs, kOrderPauseNsMax);
  while (pull.ordered.load() < wanted) {
    if (pull.ended) co_return Status::Cancelled;
    if (pull.is_interrupted && wanted != Phase::Settling) co_return Status::Ok;
    co_await runtime::sleepFor(parts_.background, pause.nextNs());
  }
  co_return Status::Ok;
}

runtime::Task<Status> MigrationTarget::adoptResults(Pull& pull) {
  pull.phase.store(Phase::Adopting);
  store::CrowdedHashes::List crowded;
  Status status = co_await pull.room->claimGrowth(crowded);
  if (status != Status::Ok && !pull.is_interrupted) co_return status;
  pull.arriving->nameCrowded(std::move(crowded));
  pull.side.emplace(parts_.log, parts_.log.replicator(), log::CopiesAwaited::All);
  // The versions that are handed out here are above all that the source has handed out: or a new object would lose to
  // an older one that is pulled after it.
  parts_.store.raiseSafeVersion(pull.version_ceiling.load());
  pull.replay.emplace(SliceReplay::Parts{parts_.store.replay(), *pull.side, *pull.room, pull.tablet(), *pull.arriving,
                                         pull.version_ceiling.load()});
  if (pull.is_interrupted || RC_MUTATION("leave-the-results-behind")) co_return Status::Ok;
  status = co_await pullAll(pull, wire::Opcode::PullResults, pull.tablet().range.first);
  pull.room->releaseResults();
  co_return pull.is_interrupted ? Status::Ok : status;
}

// Brings the contents, until all are in the log or the source is dead.
runtime::Task<Status> MigrationTarget::takeArrival(Pull& pull) {
  pull.replay->useHeldRoom();
  pull.takes_hashes = !pull.is_interrupted;
  if (pull.is_interrupted) priority_pulls_.close(pull.tablet().id, Status::RetryLater);
  if (pull.takes_hashes) {
    pull.phase.store(Phase::Arriving);
    const Status status = co_await pullAll(pull, wire::Opcode::Pull, pull.tablet().range.first);
    if (status == Status::Ok) {
      pull.arriving->noteAll();
      co_await awaitLost(pull);
    }
    priority_pulls_.close(pull.tablet().id, status == Status::Ok ? Status::Ok : Status::RetryLater);
    pull.takes_hashes = false;
    while (pull.pulls_hashes) co_await runtime::sleepFor(parts_.background, kPauseNs);
    if (pull.ended) co_return Status::Cancelled;
    if (status == Status::Ok) {
      pull.phase.store(Phase::Arrived);
      pull.room->releaseObjects();
    }
  }
  // However long its replicas find no places, what has arrived is not given up.
  const Status joined = co_await intake_.join(*pull.side, pull.patience.stopping, &pull.patience, true);
  if (joined != Status::Ok) co_return joined;
  // A reader that has asked before the end what has arrived looks at the index no more: a replay may begin.
  if (pull.is_interrupted && !co_await awaitGrace(pull)) co_return Status::Cancelled;
  pull.is_quiet.store(true);
  if (pull.phase.load() == Phase::Arrived) {
    pull.phase.store(Phase::Joined);
    pull.fraction.store(1);
  }
  co_return Status::Ok;
}

// False if the server stops.
runtime::Task<bool> MigrationTarget::awaitGrace(Pull& pull) {
  const runtime::GraceTicket ticket = parts_.rcu.ticket();
  while (!parts_.rcu.elapsed(ticket)) {
    if (pull.patience.stopping) co_return false;
    parts_.maintenance.wake();
    co_await runtime::sleepFor(parts_.background, kPauseNs);
  }
  co_return true;
}

// Gives back what the arrival has needed: the tombstones of removed keys in the index, and the anchor.
runtime::Task<void> MigrationTarget::release(Pull& pull) {
  if (pull.anchor == nullptr) co_return;
  // No thread acts on the tablet any more as one that is Arriving.
  if (!co_await awaitGrace(pull)) co_return;
  std::optional<KeyHash> cursor = pull.tablet().range.first;
  while (cursor && !pull.ended) {
    cursor = parts_.store.tombstones().retireSlice(pull.tablet(), *cursor);
    co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
  }
  stats_.early_writes.fetch_add(pull.arriving->earlyWrites(), std::memory_order_relaxed);
  parts_.log.privateSegments().dropAnchor(*std::exchange(pull.anchor, nullptr));
  parts_.maintenance.wake();
}

// ---- pulling

runtime::Task<Status> MigrationTarget::pullAll(Pull& pull, wire::Opcode opcode, KeyHash cursor) {
  const bool is_arrival = opcode == wire::Opcode::Pull;
  std::optional<KeyHash> lost_after;
  uint64_t results_bytes = 0;
  for (;;) {
    PulledSlice slice;
    Status status = co_await pullSlice(pull, opcode, cursor, slice);
    if (!is_arrival) results_bytes += slice.entries.size();
    if (status == Status::Ok && results_bytes > pull.room->resultBytes()) status = Status::BadRequest;
    if (status == Status::Ok) status = co_await replayAll(pull, slice, Patience::UntilThereIsRoom);
    if (pull.isOver()) co_return Status::Cancelled;
    note(pull, status);
    if (status != Status::Ok && !is_arrival) co_return status;
    if (status != Status::Ok) {
      // Nobody else has the contents: the same slice is asked for again. If there are too many lost keys to note more,
      // some may have been restored.
      if (status == Status::NoSpace) co_await askForLost(pull, lost_after);
      co_await runtime::sleepFor(parts_.background, 10 * kPauseNs);
      continue;
    }
    pull.parts.front().bytes.fetch_add(slice.entries.size());
    if (slice.is_last) co_return Status::Ok;
    cursor = slice.next_cursor;
    if (!is_arrival) continue;
    pull.arriving->advance(cursor);
    pull.fraction.store(pull.arriving->fraction());
  }
}

// Asks again and again, until the source answers or there is no use in it.
runtime::Task<Status> MigrationTarget::pullSlice(Pull& pull, wire::Opcode opcode, KeyHash cursor, PulledSlice& slice) {
  const int64_t give_up_ns = parts_.background.clock().nowNs() + kPatienceNs;
  // Writes of the tablet are refused until the results have come.
  const bool is_waited = opcode == wire::Opcode::PullResults;
  const runtime::Priority priority = is_waited ? runtime::Priority::Waited : runtime::Priority::Background;
  for (;;) {
    if (pull.isOver()) co_return Status::Cancelled;
    const uint32_t bytes = activity_.hasChanged() && !is_waited ? slices_.bytes_busy : slices_.bytes;
    const Status status = co_await pull.calls.slice(
        opcode, pull.tablet().range, cursor, {.bytes = bytes, .wait_ns = kSliceWaitNs, .priority = priority}, slice);
    if (status == Status::Ok) co_return status;
    note(pull, status);
    if (!SourceCalls::mayPass(status) || parts_.background.clock().nowNs() >= give_up_ns) co_return status;
    co_await runtime::sleepFor(parts_.background, kPauseNs);
  }
}

runtime::Task<Status> MigrationTarget::replayAll(Pull& pull, PulledSlice& slice, Patience patience) {
  slice.lost.clear();
  ByteSpan rest = slice.entries;
  const int64_t give_up_ns = parts_.background.clock().nowNs() + kPatienceNs;
  while (!rest.empty()) {
    if (pull.isOver()) co_return Status::Cancelled;
    uint64_t objects = 0;
    const Status status = pull.replay->step(slice, rest, objects);
    pull.parts.front().objects.fetch_add(objects, std::memory_order_relaxed);
    stats_.objects_arrived.fetch_add(objects, std::memory_order_relaxed);
    if (status == Status::Ok) {
      co_await intake_.giveWay(pull.isTaken() ? runtime::Priority::Background : runtime::Priority::Waited);
      continue;
    }
    note(pull, status);
    // What is damaged in an open segment can be restored when that is closed.
    pull.side->closeDamaged();
    const bool waits = store::TabletIntake::isWorthWaiting(status) && patience == Patience::UntilThereIsRoom &&
                       (pull.isTaken() || parts_.background.clock().nowNs() < give_up_ns);
    if (!waits) co_return status;
    co_await intake_.awaitRoom();
  }
  co_return Status::Ok;
}

// Waits until no key is lost any more: each is overwritten here, or restored at the source.
runtime::Task<void> MigrationTarget::awaitLost(Pull& pull) {
  std::optional<KeyHash> after;
  while (!pull.isOver() && !pull.arriving->lost().isEmpty()) {
    co_await askForLost(pull, after);
    if (!pull.arriving->lost().isEmpty()) co_await runtime::sleepFor(parts_.background, kLostPauseNs);
  }
}

// Asks for the next few lost keys. @param after  the last one that was asked for; none: from the beginning
runtime::Task<void> MigrationTarget::askForLost(Pull& pull, std::optional<KeyHash>& after) {
  std::vector<KeyHash> hashes = pull.arriving->lost().hashesAfter(after, wire::PullHashes::kHashesMax);
  after.reset();
  if (hashes.empty()) co_return;
  after = hashes.back();
  (void)co_await pullHashes(pull, hashes);
}

// Keeps why some of the contents do not come, for status, and traces a reason that is not the one traced last.
void MigrationTarget::note(Pull& pull, Status problem) {
  const bool has_lost = pull.arriving != nullptr && !pull.arriving->lost().isEmpty();
  // To the coordinator, Corrupt says that the source has lost objects, and nothing else.
  if (problem == Status::Corrupt && !has_lost) problem = Status::BadRequest;
  if (problem == Status::Ok && has_lost) problem = Status::Corrupt;
  pull.problem.store(problem);
  if (problem == Status::Ok || !pull.isTaken() || pull.traced == problem) return;
  pull.traced = problem;
  parts_.trace.warning("tablet " + std::to_string(pull.tablet().id.value) + " waits for server " +
                       std::to_string(pull.calls.tablet().source.id) + ": " + std::string(name(problem)));
}

// ---- the hashes for which calls wait

void MigrationTarget::onWanted(TabletId tablet) {
  if (std::shared_ptr<Pull> pull = find(tablet)) runPriorityPulls(std::move(pull));
}

// One request to the source is under way; what is wanted meanwhile goes with the next.
runtime::Detached MigrationTarget::runPriorityPulls(std::shared_ptr<Pull> pull) {
  co_await runtime::resumeOn(parts_.background, runtime::Priority::Waited);
  const TabletId id = pull->tablet().id;
  // A call may come before the first slice is asked for.
  while (!pull->takes_hashes && pull->phase.load() < Phase::Arriving && !pull->isOver()) {
    co_await runtime::sleepFor(parts_.background, kOrderPauseNs);
  }
  if (!pull->takes_hashes || pull->pulls_hashes) co_return;
  pull->pulls_hashes = true;
  while (pull->takes_hashes) {
    const PriorityPulls::Batch wanted =
        priority_pulls_.takeWanted(id, wire::PullHashes::kHashesMax, parts_.background.clock().nowNs());
    if (wanted.isEmpty()) break;
    std::vector<KeyHash> here;
    std::vector<KeyHash> hashes;
    for (const KeyHash hash : wanted.hashes) (pull->arriving->has(hash) ? here : hashes).push_back(hash);
    priority_pulls_.release(id, here, Status::Ok);
    if (!hashes.empty()) {
      const Status status = co_await pullHashes(*pull, hashes);
      std::vector<KeyHash> lost;
      std::erase_if(hashes, [&](KeyHash hash) {
        const bool is_lost = status == Status::Ok && pull->arriving->lost().has(hash);
        if (is_lost) lost.push_back(hash);
        return is_lost;
      });
      // The objects of the first one are too long for an answer: they come with the bulk. The others are asked for
      // again.
      if (status == Status::TooLarge) hashes.resize(1);
      priority_pulls_.release(id, lost, Status::Corrupt);
      priority_pulls_.release(id, hashes, status == Status::Ok ? Status::Ok : Status::RetryLater);
    }
    if (wanted.piece) priority_pulls_.releasePiece(id, *wanted.piece, co_await pullPiece(*pull, *wanted.piece));
  }
  pull->pulls_hashes = false;
}

// A part of what a scan wants to see. It is pulled once more with the others: only the frontier says what has arrived.
runtime::Task<PriorityPulls::Piece> MigrationTarget::pullPiece(Pull& pull, KeyHash first) {
  if (pull.arriving->hasAll()) co_return PriorityPulls::Piece{Status::Ok, pull.tablet().range.last};
  if (first < pull.arriving->frontier()) co_return PriorityPulls::Piece{Status::Ok, pull.arriving->frontier() - 1};
  stats_.priority_pulls.fetch_add(1, std::memory_order_relaxed);
  PulledSlice slice;
  Status status = co_await pull.calls.slice(
      wire::Opcode::Pull, pull.tablet().range, first,
      {.bytes = slices_.bytes_busy, .wait_ns = kPieceWaitNs, .priority = runtime::Priority::Waited}, slice);
  if (status == Status::Ok) status = co_await replayAll(pull, slice, Patience::None);
  if (pull.isOver()) co_return PriorityPulls::Piece{Status::RetryLater, 0};
  note(pull, status);
  if (status != Status::Ok) co_return PriorityPulls::Piece{Status::RetryLater, 0};
  co_return PriorityPulls::Piece{Status::Ok, slice.is_last ? pull.tablet().range.last : slice.next_cursor - 1};
}

/// @param hashes  with Ok, cut to those that have arrived
runtime::Task<Status> MigrationTarget::pullHashes(Pull& pull, std::vector<KeyHash>& hashes) {
  stats_.priority_pulls.fetch_add(1, std::memory_order_relaxed);
  PulledSlice slice;
  Status status = co_await pull.calls.hashes(hashes, slice);
  if (status == Status::Ok) status = co_await replayAll(pull, slice, Patience::None);
  // An answer that comes when the source is dead is thrown away.
  if (pull.isOver()) co_return Status::Cancelled;
  if (status == Status::Ok) pull.arriving->lost().keep(hashes, slice.lost);
  note(pull, status);
  if (status != Status::Ok) co_return status;
  for (const KeyHash hash : hashes) pull.arriving->noteKnown(hash);
  co_return Status::Ok;
}

}  // namespace ramcore::master
