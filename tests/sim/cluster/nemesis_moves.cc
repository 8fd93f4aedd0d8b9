// What operators do with tablets, and the deaths of those who take part: the nemesis waits for a step of a move, and
// strikes there.

#include <algorithm>
#include <iterator>
#include <utility>

#include "coordinator/state/stored_state.h"
#include "runtime/growing_pause.h"
#include "sim/cluster/nemesis.h"

namespace ramcore::sim {
namespace {

constexpr int64_t kLookNsMin = 10 * runtime::kNanosPerMicro;
constexpr int64_t kLookNsMax = 80 * runtime::kNanosPerMicro;
constexpr int64_t kAwaitNs = 3 * kSecond;

}  // namespace

int64_t Nemesis::soon() { return admin_.dispatch().clock().nowNs() + 5 * kSecond; }

size_t Nemesis::otherServer(size_t index) {
  for (;;) {
    const size_t other = random_.below(cluster_.servers.size());
    if (other != index && other != retired_) return other;
  }
}

std::optional<size_t> Nemesis::indexOf(ServerId server) {
  for (size_t index = 0; index < cluster_.servers.size(); ++index) {
    if (idOf(index) == server) return index;
  }
  return std::nullopt;
}

runtime::Task<void> Nemesis::operate() {
  const bool retires = options_.retires_server && !retired_ && retire_attempts_ < 3 && random_.below(4) == 0;
  if (!retires && options_.faults && random_.below(16) == 0) {
    co_await dropWhileMoving();
  } else if (retires) {
    ++retire_attempts_;
    co_await retireServer();
    cutting_off_ = false;
  } else {
    co_await moveOrSplit();
  }
  operating_ = false;
}

runtime::Task<void> Nemesis::moveOrSplit() {
  client::CoordinatorStub& coordinator = admin_.core().coordinator();
  auto tables = co_await coordinator.allTablets(soon());
  if (!tables.ok() || tables->empty()) co_return;
  const client::TableMap& table = tables->size() == 1 ? tables->front() : (*tables)[random_.below(tables->size())];
  if (table.tablets.empty()) co_return;
  const client::TabletInfo tablet = table.tablets[random_.below(table.tablets.size())];
  const bool may_split = table.tablets.size() < options_.tablets_max;
  if (may_split && random_.below(4) == 0) {
    co_await split(table.table, tablet.range, false);
    co_return;
  }
  // Refused as long as the tablet moves; the client asks again.
  if (may_split && random_.below(8) == 0) split(table.table, tablet.range, true).detach();
  const bool stalls = options_.faults && random_.below(4) == 0;
  if (stalls) stallClients(tablet.owner);
  co_await moveOn(tablet, stalls);
  if (stalls) cluster_.network.unstall();
}

runtime::Task<void> Nemesis::split(TableId table, HashRange range, bool moves) {
  ++splitting_;
  const KeyHash at = random_.between(range.first, range.last);
  auto halves = co_await admin_.core().coordinator().splitTable(table, at, soon());
  if (halves.ok()) ++(moves ? counts_.moves_then_split : counts_.splits_done);
  --splitting_;
}

runtime::Task<void> Nemesis::moveOn(client::TabletInfo tablet, bool stalls) {
  const ServerId second = idOf(otherServer(cluster_.servers.size()));
  const bool moved = co_await move(tablet.id, tablet.owner, second);
  if (!moved || (!stalls && random_.below(2) == 0)) co_return;
  // Clients that wait for the first owner give up, and hear from the second that their calls are done.
  if (stalls) co_await runtime::sleepFor(admin_.dispatch(), draw(random_, 100 * kMilli, 1'000 * kMilli));
  // Back at once: whatever is still on its way to the first owner finds the tablet there again. Or to a third one,
  // which gets what the second one has just got.
  const bool returns = random_.below(4) != 0;
  const ServerId third = returns ? tablet.owner : idOf(otherServer(indexOf(second).value_or(cluster_.servers.size())));
  const bool moved_again = co_await move(tablet.id, second, third);
  if (moved_again && third == tablet.owner) ++counts_.moves_back;
  if (moved_again && third != tablet.owner) ++counts_.moves_on;
}

// From now on requests of some clients reach the server late.
void Nemesis::stallClients(ServerId server) {
  const std::optional<size_t> index = indexOf(server);
  if (!index) return;
  for (SimClient* client : clients_) {
    if (random_.below(2) == 0) cluster_.network.stall(client->node().name(), nodeOf(*index));
  }
}

runtime::Task<bool> Nemesis::move(TabletId tablet, ServerId source, ServerId destination) {
  auto migration = co_await admin_.core().coordinator().moveTablet(tablet, destination, soon());
  if (!migration.ok()) {
    ++counts_.moves_failed;
    co_return false;
  }
  if (options_.faults && random_.below(4) == 0) awaitMoveStep(*migration, tablet, source, destination);
  co_return co_await awaitMigration(*migration, true);
}

runtime::Task<bool> Nemesis::awaitMigration(uint64_t migration, bool may_cancel) {
  client::CoordinatorStub& coordinator = admin_.core().coordinator();
  using State = client::MigrationStatus::State;
  runtime::GrowingPause pause(5 * kMilli, 100 * kMilli);
  for (;;) {
    auto status = co_await coordinator.migrationStatus(migration, soon());
    if (status.ok() && status->state != State::Running) {
      ++(status->state == State::Done ? counts_.moves_done : counts_.moves_failed);
      counts_.moves_taken_back += wasTakenBack(cluster_.disk, coordinator::MigrationId(migration)) ? 1 : 0;
      co_return status->state == State::Done;
    }
    if (!status.ok() && status.error() == Status::Shutdown) co_return false;
    if (may_cancel && random_.below(30) == 0) co_await cancelMove(migration);
    co_await runtime::sleepFor(admin_.dispatch(), pause.nextNs());
  }
}

runtime::Task<void> Nemesis::cancelMove(uint64_t migration) {
  ++cancelling_;
  [[maybe_unused]] const Status cancelled = co_await admin_.core().coordinator().cancelMigration(migration, soon());
  --cancelling_;
}

// ---- deaths at a step of a move

// A random step: those that take long would come much oftener than the others if servers just died at some moment.
void Nemesis::awaitMoveStep(uint64_t migration, TabletId tablet, ServerId source, ServerId destination) {
  const std::optional<size_t> from = indexOf(source);
  const std::optional<size_t> to = indexOf(destination);
  if (!from || !to || from == to) return;
  const auto step = static_cast<MoveStep>(random_.below(kMoveStepCount));
  const bool spoils = random_.below(3) == 0;
  auto victims = static_cast<MoveVictims>(random_.below(kMoveVictimsCount - 1));
  if (!options_.crashes) victims = MoveVictims::Coordinator;
  if (spoils) {
    victims = MoveVictims::Objects;
    // What is in an open log head is not spoiled.
    if (!cluster_.isDown(*from) && cluster_.servers[*from]->isServing()) {
      static_cast<void>(cluster_.servers[*from]->master().log()->requestRoll());
    }
  }
  lookAtMove(
      {coordinator::MigrationId(migration), tablet, *from, *to, step, victims, cluster_.scheduler.nowNs() + kAwaitNs});
}

void Nemesis::lookAtMove(AwaitedMove awaited) {
  const master::Master* const destination =
      cluster_.isDown(awaited.destination) ? nullptr : &cluster_.servers[awaited.destination]->master();
  const std::optional<MoveStep> step = stepOfMove(cluster_.disk, awaited.move, awaited.tablet, destination);
  if (!step || stopped_ || cluster_.scheduler.nowNs() >= awaited.until_ns) return;
  if (step == awaited.step) return strikeMove(awaited);
  if (isOfReturn(awaited.step) && canBeTakenBack(*step) && !std::exchange(awaited.is_asked_back, true)) {
    cancelMove(awaited.move.value).detach();
  }
  later(cluster_.scheduler.nowNs() + draw(random_, kLookNsMin, kLookNsMax), [this, awaited] { lookAtMove(awaited); });
}

// What the disks hold is judged before and after.
void Nemesis::strikeMove(const AwaitedMove& awaited) {
  const MoveVictims victims = awaited.victims;
  if (victims == MoveVictims::Objects) return loseObjects(awaited);
  std::vector<size_t> servers;
  const bool kills_source =
      victims == MoveVictims::Source || victims == MoveVictims::Both || victims == MoveVictims::SourceAndCoordinator;
  const bool kills_destination = victims == MoveVictims::Destination || victims == MoveVictims::Both ||
                                 victims == MoveVictims::DestinationAndCoordinator;
  if (kills_source) servers.push_back(awaited.source);
  if (kills_destination) servers.push_back(awaited.destination);
  if (victims == MoveVictims::Backup) {
    const size_t other = random_.below(cluster_.servers.size());
    if (other != awaited.source && other != awaited.destination) servers.push_back(other);
    if (servers.empty()) return;
  }
  if (victims == MoveVictims::Stopped && !mayDieNow(awaited.source)) return;
  for (const size_t index : servers) {
    if (!mayDieNow(index)) return;
  }
  const bool restarts = victims == MoveVictims::Coordinator || victims == MoveVictims::SourceAndCoordinator ||
                        victims == MoveVictims::DestinationAndCoordinator;
  if (restarts && !mayRestartCoordinator()) return;
  const auto step = static_cast<size_t>(awaited.step);
  const std::string at = std::string(name(awaited.step)) + ", " + std::string(name(victims));
  const bool judges = options_.crashes && options_.judge != nullptr;
  if (judges) options_.judge(("before a death in a move, " + at).c_str());
  if (victims == MoveVictims::Stopped && !stopInOrder(awaited.source)) return;
  ++counts_.move_victims[static_cast<size_t>(victims)];
  counts_.move_deaths[step] += restarts && servers.empty() ? 0 : 1;
  for (const size_t index : servers) counts_.move_power_losses[step] += dieMoving(index) ? 1 : 0;
  if (restarts) {
    ++counts_.move_restarts[step];
    restartCoordinator();
  }
  if (judges) options_.judge(("after a death in a move, " + at).c_str());
}

// Its process, or its machine loses its power where that may be. True: the power.
bool Nemesis::dieMoving(size_t index) {
  const bool loses_power = random_.below(2) != 0 && power_watch_.mayLose(index);
  if (!loses_power) {
    kill(index);
    return false;
  }
  ++counts_.power_losses;
  losePower(index);
  return true;
}

// Whether each segment has a replica from which it can be restored, or somebody does that without one. No other message
// borrows what is spoiled, and no thread stands still while it reads that.
bool Nemesis::mayLoseObjects(size_t index) {
  SimServer& server = *cluster_.servers[index];
  if (cluster_.isDown(index) || !server.isServing() || server.slowReader().isReading()) return false;
  return !options_.crashes || (isWhole(index) && power_watch_.mayVanish(rotten_));
}

// With replicas the server restores them itself.
void Nemesis::loseObjects(const AwaitedMove& awaited) {
  const size_t index = random_.below(6) == 0 ? awaited.destination : awaited.source;
  const auto stored = cluster_.disk.contents().find(coordinator::keyOf(awaited.tablet));
  coordinator::Tablet tablet;
  const bool is_there =
      stored != cluster_.disk.contents().end() && coordinator::decode(stored->second, tablet) && mayLoseObjects(index);
  if (!is_there) return;
  SimServer& server = *cluster_.servers[index];
  const size_t objects = memory_damage_.spoil(server.master(), tablet.table, tablet.range, random_);
  if (objects == 0) return;
  counts_.objects_spoiled += objects;
  ++counts_.move_losses[static_cast<size_t>(awaited.step)];
  ++counts_.move_victims[static_cast<size_t>(MoveVictims::Objects)];
  if (server.master().replicas() != nullptr) return;
  ++spoiled_;
  later(cluster_.scheduler.nowNs() + draw(random_, 1 * kMilli, 3 * kSecond),
        [this, &server, index] { restoreObjects(&server, index); });
}

void Nemesis::restoreObjects(const SimServer* server, size_t index) {
  const bool is_there = cluster_.servers[index].get() == server && !cluster_.isDown(index);
  if (is_there && !memory_damage_.restore(cluster_.servers[index]->master())) {
    return later(cluster_.scheduler.nowNs() + 10 * kMilli, [this, server, index] { restoreObjects(server, index); });
  }
  --spoiled_;
}

// ---- the end of a server

// All of its last tablet has arrived at the new owner when the coordinator loses sight of it. It still has what it has
// lent, and a lease. Clients reach both. Some of them stand still all the while and come back believing that the tablet
// is where it was.
runtime::Task<void> Nemesis::retireServer() {
  const size_t index = otherServer(cluster_.servers.size());
  const std::optional<client::TabletInfo> last = co_await emptyServer(index);
  if (!last) co_return;
  cutting_off_ = true;
  healAll();
  const size_t heir = otherServer(index);
  auto migration = co_await admin_.core().coordinator().moveTablet(last->id, idOf(heir), soon());
  if (!migration.ok()) co_return;
  const bool pulled = co_await awaitPull(*migration, last->id, cluster_.servers[heir]->master());
  if (!pulled) co_return;
  cluster_.network.partition(nodeOf(index), SimCluster::kCoordinatorNode);
  retired_ = index;
  ++counts_.servers_retired;
  std::vector<SimClient*> stopped;
  for (SimClient* client : clients_) {
    // A client that stands still already is resumed by the fault that has stopped it.
    if (random_.below(2) != 0 || client->node().isPaused()) continue;
    client->node().pause();
    stopped.push_back(client);
  }
  [[maybe_unused]] const bool done = co_await awaitMigration(*migration, false);
  // The others get some time to change what the server still has.
  co_await runtime::sleepFor(admin_.dispatch(), draw(random_, 50 * kMilli, 2 * kSecond));
  for (SimClient* client : stopped) client->node().resume();
}

/// Moves all tablets but one away. Nothing if that did not work, or if there was none.
runtime::Task<std::optional<client::TabletInfo>> Nemesis::emptyServer(size_t index) {
  constexpr int kMovesMax = 20;
  for (int moves = 0; moves < kMovesMax; ++moves) {
    auto tables = co_await admin_.core().coordinator().allTablets(soon());
    if (!tables.ok() || tables->empty()) co_return std::nullopt;
    std::vector<client::TabletInfo> owned;
    for (const client::TableMap& table : *tables) {
      std::ranges::copy_if(table.tablets, std::back_inserter(owned),
                           [&](const client::TabletInfo& tablet) { return tablet.owner == idOf(index); });
    }
    if (owned.empty()) co_return std::nullopt;
    if (owned.size() == 1) co_return owned.front();
    [[maybe_unused]] const bool moved = co_await move(owned.front().id, idOf(index), idOf(otherServer(index)));
  }
  co_return std::nullopt;
}

/// Waits until everything has arrived. False if the move ended before that was seen.
runtime::Task<bool> Nemesis::awaitPull(uint64_t migration, TabletId tablet, const master::Master& destination) {
  constexpr int kLooksPerQuestion = 100;
  for (;;) {
    for (int look = 0; look < kLooksPerQuestion; ++look) {
      const auto progress = destination.migrationTarget()->progress(tablet);
      if (progress.ok() && progress->phase >= master::MigrationTarget::Phase::Joined) co_return true;
      if (progress.ok() && progress->done) co_return false;
      co_await runtime::sleepFor(admin_.dispatch(), kMilli / 5);
    }
    auto status = co_await admin_.core().coordinator().migrationStatus(migration, soon());
    const bool is_over = status.ok() && status->state != client::MigrationStatus::State::Running;
    if (is_over || (!status.ok() && status.error() == Status::Shutdown)) co_return false;
  }
}

}  // namespace ramcore::sim
