#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/clock.h"
#include "runtime/random.h"
#include "sim/cluster/cleaning_steps.h"
#include "sim/cluster/memory_damage.h"
#include "sim/cluster/move_steps.h"
#include "sim/cluster/power_watch.h"
#include "sim/cluster/sim_client.h"
#include "sim/cluster/sim_cluster.h"
#include "sim/cluster/sim_run.h"

namespace ramcore::sim {

/// A time from the seed, `first` and `last` among them.
inline int64_t draw(runtime::Random& random, int64_t first, int64_t last) {
  return static_cast<int64_t>(random.between(static_cast<uint64_t>(first), static_cast<uint64_t>(last)));
}

/// Brings about what goes wrong, and does what operators do: faults of the network, pauses, restarts of the
/// coordinator, moves and splits of tablets, deaths at certain steps of them, and the end of a server that is cut off
/// while its last tablet is handed over. One step at a time, at times drawn from the seed. Everything is healed at the
/// end.
class Nemesis {
 public:
  struct Options {
    bool faults = true;
    /// No splits beyond this. Few tablets: a server often holds none, and hears little of clients.
    size_t tablets_max = 12;
    /// One server is emptied and cut off from the coordinator in the middle of the last move, for ever.
    bool retires_server = false;
    /// Servers are killed, one or all, and started again on their disks.
    bool crashes = false;
    /// All tables are sync: what was acknowledged survives the loss of all power.
    bool all_sync = false;
    /// Storages have hardly more frames than the servers that live need.
    bool small_storage = false;
    /// Clients stand still now and then, for less than their lease or for more.
    bool pauses_clients = false;
    /// Processes are started again with other options.
    bool changes_options = false;
    /// Called right before and after a server is killed at a step of cleaning.
    std::function<void(const char* what)> judge;
  };
  /// @param admin  a client of its own, through which tablets are moved and split.
  /// @param clients  some are stopped while a server is declared dead, so that they come back with old knowledge.
  Nemesis(SimCluster& cluster, SimClient& admin, std::vector<SimClient*> clients, RunCounts& counts,
          const Options& options);

  /// Schedules steps until stop().
  void start();
  /// No more steps; everything is healed. settled() when the last move or split has ended.
  void stop();
  /// To be called after every event: some servers are paused at the very moment at which they have written what they
  /// have not sent to any backup yet, and some die at a certain step of cleaning.
  void afterEvent() {
    if (pauses_at_write_ && hasUnsentWrites(*pauses_at_write_)) pauseNow(*pauses_at_write_);
    if (dies_at_ || reads_at_) watchCleaning();
  }
  /// The faults that readers which stood still for a while have found.
  const std::vector<std::string>& failures() const { return failures_; }
  /// The machine whose disk flips bits.
  size_t rottenMachine() const { return rotten_; }
  /// The machine may go for good: what was acknowledged is on others as well.
  bool mayVanish(size_t index) { return power_watch_.mayVanish(index); }
  bool settled() {
    const bool is_calm =
        !operating_ && splitting_ == 0 && cancelling_ == 0 && starting_ == 0 && spoiled_ == 0 && !stopping_ && !silent_;
    return is_calm && !alone();
  }
  /// The server, if any, whose memory alone has what it has acknowledged last: no disk has it.
  std::optional<ServerId> alone();
  /// The server that was declared dead, if any: nothing is asked of it any more.
  std::optional<size_t> retired() const { return retired_; }

 private:
  /// The first server that is seen at one of these steps of cleaning before `until_ns` is meant.
  struct Awaited {
    std::array<CleaningStep, 2> steps{};  ///< one of a pass, one of a compaction
    int64_t until_ns = 0;
  };

  /// When this move comes to that step before `until_ns`, they die.
  struct AwaitedMove {
    coordinator::MigrationId move;
    TabletId tablet;
    size_t source;
    size_t destination;
    MoveStep step;
    MoveVictims victims;
    int64_t until_ns;
    bool is_asked_back = false;
  };

  void step();
  void scheduleNext();
  /// Unless this is gone by then: processes are unwound in simulated time, too.
  void later(int64_t at_ns, std::function<void()> action);
  void partitionSome();
  void pauseServer();
  void pauseNow(size_t index);
  void resume(size_t index, runtime::SimNode& node);
  void silence(size_t index);
  void endSilence(const SimServer* server, bool is_stopped, int64_t until_ns);
  void resumeSpared(size_t index, runtime::SimNode& node, int64_t until_ns);
  bool isDeclaredDead(size_t index) const;
  bool hasUnsentWrites(size_t index) const;
  bool isCrowded() const;
  void killSome();
  void killAll();
  void kill(size_t index);
  void take(size_t index, bool power);
  void awaitCleaning();
  void awaitToRead();
  void watchCleaning();
  bool isOver(const Awaited& awaited) const { return stopped_ || cluster_.scheduler.nowNs() >= awaited.until_ns; }
  bool mayDieNow(size_t index) const;
  void dieCleaning(size_t index, CleaningStep step);
  void beginSlowRead(size_t index);
  void laterReading(SimServer& server, size_t index, std::function<void()> action);
  void endSlowRead(SimServer& server);
  void losePower();
  void losePower(size_t index);
  void loseAllPower();
  void losePowerButOne();
  bool isWhole() const;
  bool isWhole(size_t index) const;
  void spoilDisk();
  void failFlush(size_t index);
  void slowDisk(size_t index);
  void flipBit(size_t index);
  void deceive(size_t index);
  void endLie(size_t index, int64_t until_ns);
  bool stopInOrder(size_t index);
  void awaitStopped(size_t index, const SimServer& server, int64_t until_ns);
  void replaceRejected();
  std::string nodeOf(size_t index) const { return cluster_.servers[index]->networkNode(); }
  bool mayRestartCoordinator() const;
  void restartCoordinator();
  void cutCoordinator();
  struct Cut;
  void judgeCut(const std::shared_ptr<Cut>& cut);
  void endCut(const std::shared_ptr<Cut>& cut);
  void replaceCoordinator();
  void copyState();
  void pauseClientLater();
  void pauseClient();
  void changeCoordinator(int64_t lease_ns);
  void changeServers();
  void lowerLease();
  void restartSoon(uint32_t times);
  void endLowering(size_t index, const SimServer* server, int64_t until_ns);
  bool haveAllHeardMore() const;
  bool isCutOff(size_t index) const { return retired_ == index || cut_off_.contains(index); }
  void cutSome();
  void changeRates();
  void healAll();
  void healNetwork();
  runtime::Task<void> operate();
  runtime::Task<void> moveOrSplit();
  runtime::Task<void> split(TableId table, HashRange range, bool moves);
  runtime::Task<void> moveOn(client::TabletInfo tablet, bool stalls);
  void stallClients(ServerId server);
  runtime::Task<bool> move(TabletId tablet, ServerId source, ServerId destination);
  runtime::Task<bool> awaitMigration(uint64_t migration, bool may_cancel);
  runtime::Task<void> cancelMove(uint64_t migration);
  runtime::Task<void> retireServer();
  runtime::Task<std::optional<client::TabletInfo>> emptyServer(size_t index);
  runtime::Task<bool> awaitPull(uint64_t migration, TabletId tablet, const master::Master& destination);
  void awaitMoveStep(uint64_t migration, TabletId tablet, ServerId source, ServerId destination);
  void lookAtMove(AwaitedMove awaited);
  void strikeMove(const AwaitedMove& awaited);
  bool dieMoving(size_t index);
  bool mayLoseObjects(size_t index);
  void loseObjects(const AwaitedMove& awaited);
  void restoreObjects(const SimServer* server, size_t index);
  runtime::Task<void> dropWhileMoving();
  runtime::Task<std::optional<client::TabletInfo>> createToDrop(const std::string& name);
  runtime::Task<void> awaitToDrop(uint64_t migration, TabletId tablet, ServerId destination);
  /// The server that has this id now.
  std::optional<size_t> indexOf(ServerId server);
  ServerId idOf(size_t index) { return cluster_.servers[index]->master().id(); }
  /// A server other than `index` and than the retired one.
  size_t otherServer(size_t index);
  int64_t soon();

  struct Operate : runtime::Job {
    explicit Operate(Nemesis& owner)
        : Job([](runtime::Job& job) { static_cast<Operate&>(job).owner.operate().detach(); }), owner(owner) {}
    Nemesis& owner;
  };

  SimCluster& cluster_;
  SimClient& admin_;
  const std::vector<SimClient*> clients_;
  RunCounts& counts_;
  const Options options_;
  runtime::Random random_;
  runtime::Random options_random_;  ///< for what depends on the settings of a run
  Operate operate_;
  bool operating_ = false;
  uint32_t splitting_ = 0;   ///< splits that were asked for
  uint32_t cancelling_ = 0;  ///< moves that are to be cancelled
  bool stopped_ = false;
  bool coordinator_down_ = false;
  std::set<size_t> cut_off_;                       ///< servers that do not reach the coordinator
  std::unique_ptr<coordinator::MemoryDisk> copy_;  ///< of the coordinator's state, older than that
  bool cutting_off_ = false;                       ///< what else would keep the coordinator from the others waits
  uint32_t retire_attempts_ = 0;
  std::optional<size_t> retired_;
  uint32_t paused_ = 0;
  std::optional<size_t> pauses_at_write_;  ///< a server that stands still as soon as it has an unsent write
  std::optional<Awaited> dies_at_;
  std::optional<Awaited> reads_at_;  ///< a reader begins there, and stands still
  size_t looked_at_ = 0;
  std::vector<std::string> failures_;
  std::optional<size_t> spared_;     ///< one that does: its sessions stay, and so do those who wait for it
  std::optional<size_t> silent_;     ///< one that says nothing any more, whose peers' sessions stay
  std::optional<size_t> alone_;      ///< on the only machine that kept its power; no fault happens meanwhile
  std::vector<SimClient*> stalled_;  ///< clients that stand still while the lease is lowered
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  size_t rotten_ = 0;
  PowerWatch power_watch_;
  MemoryDamage memory_damage_;
  uint32_t spoiled_ = 0;             ///< servers whose memory lacks objects until somebody restores them
  uint32_t dropped_tables_ = 0;      ///< that were created to be dropped
  uint64_t power_rarity_;            ///< of the run
  const bool lies_;                  ///< disks do, in this run
  const bool watches_cleaning_;      ///< in this run: it takes time
  std::optional<size_t> liar_;       ///< its flushes do nothing
  std::optional<size_t> condemned_;  ///< its flushes fail: it is restarted soon
  bool stopping_ = false;            ///< a server is, in order
  uint32_t starting_ = 0;            ///< servers that were killed and will be started again
};

}  // namespace ramcore::sim
