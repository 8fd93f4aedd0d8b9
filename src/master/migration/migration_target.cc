#include "master/migration/migration_target.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/mutation.h"
#include "master/migration/pull.h"
#include "master/migration/pulled_slice.h"
#include "runtime/await.h"

namespace ramcore::master {
namespace {

// Questions for a thousand clients each. Clients beyond them are confirmed one by one.
constexpr size_t kClientQuestionsMax = 64;
constexpr int64_t kResultsWaitNs = 2 * runtime::kNanosPerSecond;
/// More side logs would each hold a segment that is not full, and the processors are needed for clients as well.
constexpr size_t kLanesMax = 4;
// Between two questions for keys that the source has lost.
constexpr int64_t kLostPauseNs = 200 * runtime::kNanosPerMilli;
// The pauses between looks for the next command of a coordinator, which comes soon.
constexpr int64_t kOrderPauseNs = 200 * runtime::kNanosPerMicro;
constexpr int64_t kOrderPauseNsMax = 2 * runtime::kNanosPerMilli;

}  // namespace

MigrationTarget::~MigrationTarget() { RC_CHECK(idle()); }

// ---- commands

std::shared_ptr<MigrationTarget::Pull> MigrationTarget::find(TabletId tablet) const {
  return std::static_pointer_cast<Pull>(attempts_.find(tablet));
}

Status MigrationTarget::start(const store::Tablet& tablet, TabletEpoch source_epoch, const rpc::PeerAddress& source,
                              bool returns) {
  auto pull = std::make_shared<Pull>(
      tablet, SourceCalls::Tablet{.id = tablet.id, .epoch = source_epoch, .source = source}, *this, returns);
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
  return pull.state.phase.load() < least ? Status::RetryLater : Status::Ok;
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
  return pull->state.phase.load() >= Phase::Adopted ? Status::Ok : Status::RetryLater;
}

Status MigrationTarget::arrive(TabletId tablet, TabletEpoch epoch) {
  const std::shared_ptr<Pull> pull = find(tablet);
  if (pull == nullptr) return Status::NotFound;
  if (pull->state.is_interrupted) return Status::RetryLater;
  const Status ready = check(*pull, epoch, Phase::Adopted);
  if (ready != Status::Ok || pull->ordered.load() >= Phase::Arriving) return ready;
  // Calls may wait as soon as the tablet answers, and the pull that ends their waiting begins last.
  priority_pulls_.open(tablet);
  const Status arriving = parts_.tablets.arrive(tablet, epoch, pull->state.arriving);
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

void MigrationTarget::cancelReturn(TabletId tablet, TabletEpoch epoch) {
  const std::shared_ptr<Pull> pull = find(tablet);
  // A recovery's attempt is given up with the same command, and its epoch is another one.
  if (pull != nullptr && pull->returns && pull->tablet().epoch == epoch) attempts_.cancel(tablet, epoch);
}

bool MigrationTarget::interrupt(TabletId tablet) {
  const std::shared_ptr<Pull> pull = find(tablet);
  if (pull == nullptr) return true;
  if (pull->state.phase.load() >= Phase::Prepared) pull->state.arriving->close();
  pull->state.is_interrupted.store(true);
  return pull->is_quiet || pull->done;
}

void MigrationTarget::setRate(TabletId tablet, uint64_t rate_max) {
  const std::shared_ptr<Pull> pull = find(tablet);
  if (pull == nullptr || pull->done) return;
  pace_.set(tablet, rate_max);
  if (pull->done) pace_.forget(tablet);  // it has ended meanwhile
}

Result<MigrationTarget::Progress> MigrationTarget::progress(TabletId tablet) const {
  const Result<store::IntakeProgress> known = attempts_.progress(tablet);
  if (!known.ok()) return known.error();
  Progress progress;
  static_cast<store::IntakeProgress&>(progress) = *known;
  const std::shared_ptr<Pull> pull = find(tablet);
  if (pull == nullptr) return Status::NotFound;
  progress.phase = pull->state.phase.load();
  if (progress.phase == Phase::Arriving || progress.phase == Phase::Arrived) {
    progress.fraction = pull->state.arriving->fraction();
  }
  if (progress.phase >= Phase::Prepared) progress.problem = pull->state.problem();
  progress.shortage = {.wanted_bytes = pull->room_wanted_bytes.load(), .left_bytes = pull->room_left_bytes.load()};
  return progress;
}

// ---- the steps

runtime::Detached MigrationTarget::run(std::shared_ptr<Pull> pull) {
  co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
  const Status status = co_await runSteps(*pull);
  attempts_.end(*pull, status, "pulling tablet " + std::to_string(pull->tablet().id.value));
  pace_.forget(pull->tablet().id);
  if (status == Status::Ok) attempts_.cancel(pull->tablet().id, pull->tablet().epoch);
}

runtime::Task<Status> MigrationTarget::runSteps(Pull& pull) {
  Status status = co_await prepare(pull);
  if (status == Status::Ok) {
    pull.state.phase.store(Phase::Prepared);
    status = co_await awaitOrder(pull, Phase::Adopting);
  }
  if (status == Status::Ok) status = co_await adoptResults(pull);
  if (status == Status::Ok) {
    pull.state.phase.store(Phase::Adopted);
    status = co_await awaitOrder(pull, Phase::Arriving);
  }
  if (status == Status::Ok) status = co_await takeArrival(pull);
  priority_pulls_.close(pull.tablet().id, Status::RetryLater);
  co_await giveUpLanes(pull);
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
  if (!pull.returns) intake_.evict(pull.tablet());
  pull.room.emplace(parts_.log, pull.calls, pull.tablet().range, parts_.background, pull.ended);
  // The source measures while this server purges. What is here of a tablet that is handed back is a part of it.
  runtime::Task<Status> measuring = pull.room->measure();
  Status status = pull.returns ? keepOwn(pull) : co_await clear(pull);
  if (status != Status::Ok) pull.room->giveUp();
  const Status measured = co_await measuring;
  if (status == Status::Ok) status = measured;
  // The last segment of each lane but one is besides what is always there.
  const uint64_t lanes = lanesFor(pull.room->measuredBytes());
  if (status == Status::Ok) status = pull.room->claim((lanes - 1) * parts_.log.config().segment_bytes);
  if (status != Status::Ok) co_return status;
  status = co_await openAnchor(pull);
  if (status != Status::Ok) co_return status;
  co_await confirmClients(pull);
  pull.state.arriving = std::make_shared<store::ArrivingRange>(pull.tablet().range, pull.anchor->id(),
                                                               partitionsFor(pull.room->objectBytes()));
  // Tombstones of removals that were under way when the tablet was lent are in the index.
  if (pull.returns) pull.state.arriving->noteTombstone();
  if (pull.returns) co_return Status::Ok;
  co_return intake_.add(pull.tablet(), pull.first_segment.load(), pull.ended);
}

/// The contents begin where they did before the tablet was lent.
Status MigrationTarget::keepOwn(Pull& pull) {
  const store::Tablet& wanted = pull.tablet();
  const auto lent = parts_.tablets.get(wanted.id);
  const bool is_it =
      lent && lent->state == store::TabletState::Lent && lent->table == wanted.table && lent->range == wanted.range;
  if (!is_it) return Status::NotFound;
  // What is damaged here may be older than what was changed there. It cannot be told which keys that is about.
  if (parts_.log.stats().damaged_now.load(std::memory_order_relaxed) != 0) return Status::Corrupt;
  pull.first_segment.store(lent->first_segment);
  return Status::Ok;
}

// Forgets what is here of an earlier ownership, in the index and in the log.
runtime::Task<Status> MigrationTarget::clear(Pull& pull) {
  const Status purged = co_await intake_.purge(pull.tablet(), pull.ended);
  if (purged != Status::Ok) co_return purged;
  SegmentId head;
  const Status rolled = co_await intake_.roll(pull.ended, head, &pull.patience);
  if (rolled == Status::Ok) pull.first_segment.store(head);
  co_return rolled;
}

runtime::Task<Status> MigrationTarget::openAnchor(Pull& pull) {
  const int64_t give_up_ns = parts_.background.clock().nowNs() + store::TabletIntake::kPatienceNs;
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
  co_await store::IntakeAttempts::awaitEnd(*pull.former, pull, parts_.background);
  pull.former.reset();
}

// Waits for a command. If the source has died, only the last one follows.
runtime::Task<Status> MigrationTarget::awaitOrder(Pull& pull, Phase wanted) {
  runtime::GrowingPause pause(kOrderPauseNs, kOrderPauseNsMax);
  while (pull.ordered.load() < wanted) {
    if (pull.ended) co_return Status::Cancelled;
    if (pull.state.is_interrupted && wanted != Phase::Settling) co_return Status::Ok;
    co_await runtime::sleepFor(parts_.background, pause.nextNs());
  }
  co_return Status::Ok;
}

runtime::Task<Status> MigrationTarget::adoptResults(Pull& pull) {
  pull.state.phase.store(Phase::Adopting);
  store::CrowdedHashes::List crowded;
  Status status = co_await pull.room->claimGrowth(crowded);
  if (status != Status::Ok && !pull.state.is_interrupted) co_return status;
  pull.state.arriving->nameCrowded(std::move(crowded));
  const Version ceiling = pull.version_ceiling.load();
  const bool keeps_old = pull.returns && !RC_MUTATION("take-the-kept-for-new");
  pull.state.arriving->setCeiling(ceiling, keeps_old ? ceiling : 0);
  // The versions that are handed out here are above all that the source has handed out: or a new object would lose to
  // an older one that is pulled after it.
  parts_.store.raiseSafeVersion(ceiling);
  openLanes(pull);
  if (pull.state.is_interrupted || RC_MUTATION("leave-the-results-behind")) co_return Status::Ok;
  status = co_await pullResults(pull);
  pull.room->releaseResults();
  co_return pull.state.is_interrupted ? Status::Ok : status;
}

// Brings the contents, until all are in the log or the source is dead.
runtime::Task<Status> MigrationTarget::takeArrival(Pull& pull) {
  for (ArrivalLane& lane : pull.lanes) lane.replay().useHeldRoom();
  if (pull.state.is_interrupted) {
    priority_pulls_.close(pull.tablet().id, Status::RetryLater);
  } else {
    pull.hashes.begin(pull.lanes.front());
    pull.state.phase.store(Phase::Arriving);
    const int64_t begin_ns = parts_.background.clock().nowNs();
    const Status status = co_await pullContents(pull);
    priority_pulls_.close(pull.tablet().id, status == Status::Ok ? Status::Ok : Status::RetryLater);
    co_await pull.hashes.end();
    if (pull.ended) co_return Status::Cancelled;
    if (status == Status::Ok) {
      pull.state.phase.store(Phase::Arrived);
      pull.state.traceArrived(parts_.background.clock().nowNs() - begin_ns);
      pull.room->releaseObjects();
    }
  }
  const Status joined = co_await joinLanes(pull);
  if (joined != Status::Ok) co_return joined;
  // A reader that has asked before the end what has arrived looks at the index no more: a replay may begin.
  if (pull.state.is_interrupted && !co_await awaitGrace(pull)) co_return Status::Cancelled;
  pull.is_quiet.store(true);
  if (pull.state.phase.load() == Phase::Arrived) {
    pull.state.phase.store(Phase::Joined);
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
    co_await runtime::sleepFor(parts_.background, store::TabletIntake::kPauseNs);
  }
  co_return true;
}

// Gives back what the arrival has needed: the tombstones of removed keys in the index, and the anchor.
runtime::Task<void> MigrationTarget::release(Pull& pull) {
  if (pull.anchor == nullptr) co_return;
  // No thread acts on the tablet any more as one that is Arriving.
  if (!co_await awaitGrace(pull)) co_return;
  std::optional<KeyHash> cursor;
  if (pull.state.arriving->keepsTombstones()) cursor = pull.tablet().range.first;
  while (cursor && !pull.ended) {
    cursor = parts_.store.tombstones().retireSlice(pull.tablet(), *cursor);
    co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
  }
  stats_.early_writes.fetch_add(pull.state.arriving->earlyWrites(), std::memory_order_relaxed);
  parts_.log.privateSegments().dropAnchor(*std::exchange(pull.anchor, nullptr));
  parts_.maintenance.wake();
}

// ---- pulling

size_t MigrationTarget::partitionsFor(uint64_t bytes) const {
  const uint64_t wanted = bytes / std::max<uint64_t>(slices_.partition_bytes, 1);
  return std::bit_floor(std::clamp<uint64_t>(wanted, 1, store::ArrivingRange::kPartitionsMax));
}

size_t MigrationTarget::lanesFor(uint64_t bytes) const {
  const size_t most = std::min({kLanesMax, partitionsFor(bytes), parts_.others.size() + 1});
  return std::clamp<uint64_t>(bytes / std::max<uint64_t>(slices_.lane_bytes, 1), 1, most);
}

void MigrationTarget::openLanes(Pull& pull) {
  const auto open = [&](runtime::Executor& executor) {
    pull.lanes.emplace_back(executor, parts_.log, intake_, pull.state,
                            SliceReplay::Parts{parts_.store.replay(), *pull.room, pull.tablet(), *pull.state.arriving,
                                               pull.version_ceiling.load(), pull.returns});
  };
  open(parts_.background);
  const size_t others = lanesFor(pull.room->objectBytes()) - 1;
  for (runtime::Executor* const other : parts_.others.first(others)) open(*other);
}

// Writes of the tablet are refused until the results have come.
runtime::Task<Status> MigrationTarget::pullResults(Pull& pull) {
  const HashRange range = pull.tablet().range;
  const int64_t give_up_ns = parts_.background.clock().nowNs() + store::TabletIntake::kPatienceNs;
  KeyHash cursor = range.first;
  uint64_t bytes = 0;
  for (;;) {
    if (pull.state.isOver()) co_return Status::Cancelled;
    PulledSlice slice;
    Status status = co_await pull.calls.slice(
        parts_.background, wire::Opcode::PullResults, range, cursor,
        {.bytes = slices_.bytes, .wait_ns = kResultsWaitNs, .priority = runtime::Priority::Waited}, slice);
    if (SourceCalls::mayPass(status) && status != Status::Ok && parts_.background.clock().nowNs() < give_up_ns) {
      co_await runtime::sleepFor(parts_.background, store::TabletIntake::kPauseNs);
      continue;
    }
    bytes += slice.entries.size();
    if (status == Status::Ok && bytes > pull.room->resultBytes()) status = Status::BadRequest;
    if (status == Status::Ok) {
      status =
          co_await pull.lanes.front().take(slice, ArrivalLane::Patience::UntilThereIsRoom, ArrivalState::kForCalls);
    }
    if (pull.state.isOver()) co_return Status::Cancelled;
    if (status != Status::Ok) co_return status;
    pull.state.addBytes(slice.entries.size());
    if (slice.is_last) break;
    cursor = slice.next_cursor;
  }
  pull.state.note(ArrivalState::kForCalls, Status::Ok);
  co_return Status::Ok;
}

// Brings all partitions, and waits until no key is lost any more: each is overwritten here, or restored at the source.
// Ok; Cancelled: nothing is pulled any more.
runtime::Task<Status> MigrationTarget::pullContents(Pull& pull) {
  const size_t partitions = pull.state.arriving->partitionCount();
  const size_t lanes = pull.lanes.size();
  pull.partitions_left = partitions;
  for (size_t i = 0; i < lanes; ++i) pull.lanes[i].expect((partitions - i + lanes - 1) / lanes);
  for (size_t i = 0; i < partitions; ++i) pullPartition(pull, i);
  std::optional<KeyHash> lost_after;
  while (pull.partitions_left != 0 || !(pull.state.isOver() || pull.state.arriving->lost().isEmpty())) {
    const int64_t look_ns = parts_.background.clock().nowNs() + kLostPauseNs;
    const Status woken = co_await pull.partition_over.wait(look_ns);
    // What calls wait for comes here, too: nobody else closes it while a partition waits for what is damaged in it.
    pull.lanes.front().side().closeDamaged();
    if (woken == Status::DeadlineExceeded && !pull.state.isOver()) co_await pull.hashes.askForLost(lost_after);
  }
  co_return pull.state.isOver() ? Status::Cancelled : Status::Ok;
}

runtime::Detached MigrationTarget::pullPartition(Pull& pull, size_t index) {
  ArrivalLane& lane = pull.lanes[index % pull.lanes.size()];
  co_await runtime::resumeOn(lane.executor(), runtime::Priority::Background);
  PartitionPull partition({pull.calls, pull.state, lane, activity_, pace_, slices_}, index);
  static_cast<void>(co_await partition.run());
  // A segment that is not full takes memory. The first lane goes on with what calls wait for.
  if (lane.endPartition() && &lane != &pull.lanes.front()) lane.side().close();
  co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
  --pull.partitions_left;
  pull.partition_over.notifyAll();
}

// However long the replicas find no places, what has arrived is not given up.
runtime::Task<Status> MigrationTarget::joinLanes(Pull& pull) {
  std::vector<runtime::Task<Status>> joins;
  joins.reserve(pull.lanes.size());
  for (ArrivalLane& lane : pull.lanes) {
    joins.push_back(intake_.join(lane.side(), pull.patience.stopping, &pull.patience, true));
  }
  Status all = Status::Ok;
  for (runtime::Task<Status>& join : joins) {
    const Status joined = co_await join;
    if (joined != Status::Ok) all = joined;
  }
  co_return all;
}

// What a pull that is given up has brought can be had from the source again. If its tablet is lent, the range is not
// purged: what has come joins the log, and harms nothing there.
runtime::Task<void> MigrationTarget::giveUpLanes(Pull& pull) {
  for (ArrivalLane& lane : pull.lanes) {
    if (lane.side().isJoining()) continue;
    if (pull.returns) {
      static_cast<void>(co_await intake_.join(lane.side(), pull.patience.stopping, &pull.patience, true));
      continue;
    }
    static_cast<void>(co_await intake_.joinOrForsake(lane.side(), std::span(&pull.tablet(), 1), false, pull.patience));
  }
}

// ---- the hashes for which calls wait

void MigrationTarget::onWanted(TabletId tablet) {
  if (std::shared_ptr<Pull> pull = find(tablet)) runHashPull(std::move(pull));
}

runtime::Detached MigrationTarget::runHashPull(std::shared_ptr<Pull> pull) {
  co_await runtime::resumeOn(parts_.background, runtime::Priority::Waited);
  // A call may come before the first slice is asked for.
  while (!pull->hashes.isOpen() && pull->state.phase.load() < Phase::Arriving && !pull->state.isOver()) {
    co_await runtime::sleepFor(parts_.background, kOrderPauseNs);
  }
  co_await pull->hashes.run();
}

}  // namespace ramcore::master
