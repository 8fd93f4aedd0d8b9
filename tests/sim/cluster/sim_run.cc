#include "sim/cluster/sim_run.h"

#include <algorithm>
#include <optional>
#include <span>

#include "base/hash.h"
#include "sim/checkers/exactly_once.h"
#include "sim/checkers/linearizability.h"
#include "sim/cluster/accounting_check.h"
#include "sim/cluster/durable_check.h"
#include "sim/cluster/interludes.h"
#include "sim/cluster/loss_trial.h"
#include "sim/cluster/memory_damage.h"
#include "sim/cluster/moves_left.h"
#include "sim/cluster/nemesis.h"
#include "sim/cluster/replay_check.h"
#include "sim/cluster/replica_check.h"
#include "sim/cluster/silence_trial.h"
#include "sim/cluster/sim_cluster.h"
#include "sim/workload/values.h"

namespace ramcore::sim {
namespace {

constexpr uint64_t kEventsMax = 10'000'000;
constexpr int64_t kSetupNsMax = 60 * runtime::kNanosPerSecond;
constexpr int64_t kRunNsMax = 1'800 * runtime::kNanosPerSecond;
// Most runs are over long before. If a coordinator lives for some seconds and each server for half a minute, a full
// cluster may have no time to recover one log of many. Faults end then, and whatever waits has to go on.
constexpr int64_t kFaultsNsMax = 600 * runtime::kNanosPerSecond;

/// What kind of run a seed is.
struct Variation {
  explicit Variation(uint64_t seed) {
    runtime::Random random = runtime::Random(seed).stream("variation");
    late_replication = random.below(2) == 0;
    slow_nic = random.below(3) == 0;
    hot_and_cold = random.below(2) == 0;
    few_tablets = random.below(2) == 0;
    retires_server = random.below(4) == 0;
    cleans_early = random.below(2) == 0;
    impatient = random.below(2) == 0;
    small_storage = random.below(3) == 0;
    levels = static_cast<Levels>(random.below(3));
    ends_with_loss = random.below(4) == 0;
    ends_with_silence = !ends_with_loss && !small_storage && random.below(2) == 0;
    tight_storage = small_storage && random.below(2) == 0;
  }
  enum class Levels : uint8_t { Buffered, Mixed, Sync };
  SimTables tables() const {
    const SimTable buffered{.name = "table", .durability = Durability::Buffered};
    const SimTable sync{.name = "sync table", .durability = Durability::Sync};
    if (levels == Levels::Mixed) return SimTables({buffered, sync});
    return SimTables({levels == Levels::Sync ? sync : buffered});
  }
  bool late_replication = false;  ///< durability takes its time, and no answer may come before it
  bool slow_nic = false;          ///< borrowed bytes are read late: pins are held for long
  bool hot_and_cold = false;      ///< a few keys change all the time, the others hold the bytes
  bool few_tablets = false;
  bool retires_server = false;
  bool cleans_early = false;
  bool small_storage = false;  ///< frames run out now and then
  bool tight_storage = false;  ///< and there are not enough to recover everybody's log at the same time
  Levels levels = Levels::Buffered;
  bool ends_with_loss = false;     ///< a part of a log is lost for good when all else is judged
  bool ends_with_silence = false;  ///< in the end a server falls silent for ever; others have room for its tablets
  bool impatient = false;          ///< sessions are given up soon, while what they carried may still arrive
};

class Scenario {
 public:
  Scenario(const RunOptions& options, const Variation& variation, const Settings& settings)
      : options_(options),
        variation_(variation),
        settings_(settings),
        cluster_(options.seed, cluster()),
        generator_(workload(), options.seed),
        replay_random_(cluster_.scheduler.stream("replay check")),
        moments_(cluster_.scheduler.stream("moments")),
        durable_check_(cluster_, tables_, history_, cluster_.scheduler.stream("durable check")) {
    durable_check_.setJudge(options.judge, options.seed);
    if (!options.hashes_text) cluster_.trace.leaveOutOfFingerprint();
    cluster_.trace.printTo([this](std::string_view line) { noteLine(line); },
                           options.print ? TraceLevel::Debug : TraceLevel::Info);
  }

  RunReport execute() {
    if (setUp() && work()) check();
    if (report_.ok && options_.crashes && options_.faults && endsWithSilence()) silenceForGood();
    if (report_.ok && options_.crashes && options_.faults && variation_.ends_with_loss) loseForGood();
    is_over_ = true;
    collect();
    return std::move(report_);
  }

 private:
  SimClusterOptions cluster() {
    SimClusterOptions cluster;
    // Long enough for a segment to be cleaned meanwhile. With crashes, whose runs are slow as it is, only some rounds
    // long.
    if (variation_.slow_nic) {
      cluster.network.nic_ns_max = options_.crashes ? 400 * runtime::kNanosPerMicro : 6 * runtime::kNanosPerMilli;
    }
    if (options_.frames) cluster.network.mode = transport::SimMode::Frames;
    if (variation_.impatient) cluster.network.give_up_ns_max = 250 * runtime::kNanosPerMilli;
    cluster.durable = options_.crashes;
    if (cluster.durable) cluster.verdict_after_ns = 3 * runtime::kNanosPerSecond;
    // Room for the logs of all, and of as many dead ones that are not recovered yet. With less, recoveries wait for
    // each other: what the dead have left is needed, and there is no place for the copies that would make it
    // superfluous.
    // Of two tables more of the dead have tablets; of sync ones replicas are given up when a flush takes too long.
    const bool is_buffered = variation_.levels == Variation::Levels::Buffered;
    if (variation_.small_storage) cluster.storage_bytes = (is_buffered ? 9u : 13u) << 19;
    if (variation_.tight_storage) cluster.storage_bytes = (is_buffered ? 5u : 6u) << 19;
    cluster.storage_bytes = storageFor(cluster.storage_bytes);
    cluster.replicas.replicas = static_cast<uint32_t>(settings_.replicas);
    cluster.replicas.min_replicas = static_cast<uint32_t>(settings_.min_replicas);
    cluster.client_lease_ns = static_cast<int64_t>(settings_.client_lease_ms) * runtime::kNanosPerMilli;
    cluster.one_processor = !options_.interludes;
    if (options_.interludes) {
      // Requests that wait are what there is to be done in the middle of a job, and not all need the same stripe.
      cluster.dispatch_delays.usual_ns_max = 400 * runtime::kNanosPerMicro;
      cluster.initial_buckets_log2 = 2;
    }
    cluster.worker_count = static_cast<uint32_t>(settings_.workers);
    cluster.cleaners_max = static_cast<uint32_t>(settings_.cleaners);
    cluster.log.segment_bytes = settings_.segmentBytes();
    cluster.log.memory_bytes = settings_.memoryBytes();
    cluster.log.entry_bytes_max = settings_.entryBytesMax();
    if (options_.scrubs) cluster.scrub = {.bytes_per_second = 16u << 20, .pass_ns = 2 * runtime::kNanosPerSecond};
    cluster.replication.at_once = !variation_.late_replication;
    cluster.ledger = ledger();
    cluster.log.clean_below_free_permille = variation_.cleans_early ? 350 : 200;
    return cluster;
  }
  /// `bytes` of storage for the fixed settings, scaled to those of this run in proportion to the replicas that are
  /// kept.
  uint64_t storageFor(uint64_t bytes) const {
    const Settings fixed;
    const auto kept = [](const Settings& settings) {
      return settings.memoryBytes() * std::min(settings.replicas, settings.servers - 1);
    };
    return std::max(bytes, bytes * kept(settings_) / kept(fixed));
  }
  // With three replicas of everything any machine may go for good.
  bool mayVanish(size_t machine) {
    const bool has_three = settings_.replicas >= 3 && !settings_.changes_options;
    return has_three || nemesis_->mayVanish(machine);
  }
  bool endsWithSilence() const { return variation_.ends_with_silence && settings_.canLoseOne(); }
  void noteLine(std::string_view line) {
    if (options_.print) options_.print(line);
    report_.counts.guards.addLine(line);
  }
  DurableLedger* ledger() { return variation_.late_replication && !options_.crashes ? &ledger_ : nullptr; }

  WorkloadOptions workload() const {
    WorkloadOptions workload;
    workload.client_count = options_.client_count;
    workload.hot_and_cold = variation_.hot_and_cold;
    // One key of eight is a counter, one holds both kinds of values.
    workload.counter_key_count = static_cast<uint32_t>(std::max<uint64_t>(1, settings_.keys / 8));
    workload.mixed_key_count = workload.counter_key_count;
    workload.plain_key_count =
        static_cast<uint32_t>(settings_.keys - workload.counter_key_count - workload.mixed_key_count);
    workload.value_bytes_max = static_cast<uint32_t>(settings_.value_bytes * (variation_.hot_and_cold ? 5 : 1));
    // Enough bytes for the cleaner to have work.
    workload.large_value_permille = static_cast<uint32_t>(settings_.large_permille);
    workload.large_value_bytes = static_cast<uint32_t>(settings_.large_value_bytes);
    return workload;
  }

  bool runUntil(const std::function<bool()>& done, int64_t longest_ns, const char* what) {
    const int64_t give_up_ns = cluster_.scheduler.nowNs() + longest_ns;
    // An event at the end of the time, so that a quiet cluster does not stop the clock.
    cluster_.scheduler.call(give_up_ns, [] {});
    const auto over = [&] {
      if (nemesis_ != nullptr) nemesis_->afterEvent();
      if (cluster_.on_fault) watchSteps();
      return done() || cluster_.scheduler.nowNs() >= give_up_ns;
    };
    cluster_.scheduler.runUntil(over, kEventsMax);
    if (done()) return true;
    report_.failure = std::string("no progress: ") + what + " did not finish";
    return false;
  }

  // Calls that come close together meet in the middle of jobs.
  uint64_t thinkUs() const {
    constexpr uint64_t kWithInterludesMax = 200;
    return options_.interludes ? std::min<uint64_t>(settings_.think_us, kWithInterludesMax) : settings_.think_us;
  }

  bool setUp() {
    cluster_.startCoordinator();
    for (uint64_t i = 0; i < settings_.servers; ++i) cluster_.addServer();
    const ClientPace pace{.loops = settings_.loops,
                          .burst = settings_.burst,
                          .think_ns_max = static_cast<int64_t>(thinkUs()) * runtime::kNanosPerMicro};
    const FastCalls fast{.permille = settings_.fast_permille};
    const SimClient::Shared shared{generator_, history_, scans_, tables_, pace, fast, ledger()};
    const auto makeClient = [&](const std::string& name, uint32_t number, transport::Role role) {
      return std::make_unique<SimClient>(cluster_.scheduler, cluster_.trace, cluster_.network, name, number,
                                         SimCluster::kClusterName, SimCluster::kCoordinatorNode, shared, role);
    };
    for (uint32_t i = 0; i < options_.client_count; ++i)
      clients_.push_back(makeClient("client" + std::to_string(i), i, transport::Role::Client));
    admin_ = makeClient("admin", options_.client_count, transport::Role::Admin);
    const bool serving = runUntil(
        [&] {
          for (const auto& server : cluster_.servers) {
            if (!server->isServing()) return false;
          }
          return true;
        },
        kSetupNsMax, "enlisting");
    return serving && createTables();
  }

  struct CreateTables : runtime::Job {
    explicit CreateTables(Scenario& scenario)
        : Job([](runtime::Job& job) { static_cast<CreateTables&>(job).owner.create().detach(); }), owner(scenario) {}
    Scenario& owner;
  };
  runtime::Task<void> create() {
    while (created_ < tables_.all().size()) {
      const SimTable& wanted = tables_.all()[created_];
      auto table = co_await admin_->core().createTable(
          wanted.name, 0, admin_->node().clock().nowNs() + 10 * runtime::kNanosPerSecond, wanted.durability);
      if (!table.ok() && table.error() == Status::Shutdown) co_return;  // the run was given up
      created_ += table.ok() || table.error() == Status::TableExists ? 1 : 0;
    }
  }
  bool createTables() {
    CreateTables job(*this);
    admin_->dispatch().post(job, runtime::Priority::Client);
    admin_->wake();
    return runUntil([&] { return created_ == tables_.all().size(); }, kSetupNsMax, "creating the tables");
  }

  bool work() {
    std::vector<SimClient*> clients;
    for (auto& client : clients_) clients.push_back(client.get());
    nemesis_ = std::make_unique<Nemesis>(
        cluster_, *admin_, std::move(clients), report_.counts,
        Nemesis::Options{.faults = options_.faults,
                         .tablets_max = variation_.few_tablets ? size_t{4} : size_t{12},
                         .retires_server = options_.faults && !options_.crashes && variation_.retires_server,
                         .crashes = options_.crashes,
                         .all_sync = variation_.levels == Variation::Levels::Sync,
                         .small_storage = variation_.small_storage,
                         .pauses_clients = settings_.pauses_clients != 0,
                         .changes_options = settings_.changes_options != 0,
                         .judge = [this](const char* what) { judgeDisks(what, 1); }});
    durable_check_.setAlone([this] { return nemesis_->alone(); });
    if (options_.crashes) cluster_.on_fault = [this](const char* what) { judgeDisks(what, kOfFaults); };
    nemesis_->start();
    scheduleReplays();
    if (variation_.small_storage) addServerLater();
    cluster_.scheduler.call(cluster_.scheduler.nowNs() + kFaultsNsMax, [this] {
      if (!is_over_) nemesis_->stop();
    });
    for (auto& client : clients_) client->start(options_.calls_per_client);
    // Asked after every event. Who is done stays so.
    size_t done = 0;
    const auto all_done = [&] {
      while (done < clients_.size() && clients_[done]->isDone()) ++done;
      return done == clients_.size();
    };
    std::optional<Interludes> interludes;
    if (options_.interludes) interludes.emplace(cluster_, cluster_.scheduler.stream("interludes"));
    const bool finished = runUntil(all_done, kRunNsMax, "the clients' work");
    if (interludes) report_.counts.points = interludes->counts();
    interludes.reset();
    nemesis_->stop();
    if (!finished || !runUntil([&] { return nemesis_->settled(); }, kRunNsMax, "the last move or split")) return false;
    called_operations_ = history_.operations().size();
    // Requests that nobody waits for any more arrive before the end state is read.
    cluster_.scheduler.runUntil(cluster_.scheduler.nowNs() + 8 * runtime::kNanosPerSecond, kEventsMax);
    compareReplicas();
    if (!runUntil([&] { return replica_check_.isIdle(cluster_); }, kRunNsMax, "comparing replicas")) return false;
    clients_.front()->readAll();
    if (!runUntil([&] { return clients_.front()->isDone(); }, kRunNsMax, "reading the end state")) return false;
    std::string left;
    const auto nothing_left = [&] {
      left = leftOfMoves(cluster_, nemesis_->retired());
      return left.empty();
    };
    if (runUntil(nothing_left, kRunNsMax, "the end of all moves")) return true;
    report_.failure += left + "\n";
    return false;
  }

  /// Does what an operator does when recoveries cannot go on because replicas of dead servers fill all frames: adds the
  /// servers that the coordinator asks for, or one server. Most runs are over before.
  void addServerLater() {
    const int64_t patience_ns = (variation_.tight_storage ? 100 : 300) * runtime::kNanosPerSecond;
    // Servers that are told to keep three replicas where one was planned need three times the storage.
    const size_t servers_max = settings_.changes_options != 0 ? 3 * settings_.servers : 8;
    const size_t servers_max_as_said = std::max<size_t>(servers_max, 12);
    cluster_.scheduler.call(cluster_.scheduler.nowNs() + patience_ns, [this, servers_max, servers_max_as_said] {
      if (is_over_ || cluster_.servers.size() >= servers_max_as_said) return;
      const bool is_there = cluster_.coordinator != nullptr && cluster_.coordinator->coordinator().isServing();
      const coordinator::Coordinator::Counts counts =
          is_there ? cluster_.coordinator->coordinator().counts() : coordinator::Coordinator::Counts();
      for (uint32_t i = 0; i < counts.missing_servers && cluster_.servers.size() < servers_max_as_said; ++i) {
        cluster_.addServer(counts.missing_storage_bytes);
      }
      if (counts.missing_servers == 0 && cluster_.servers.size() < servers_max) cluster_.addServer();
      addServerLater();
    });
  }

  /// At some moments of the run; most runs take longer than the last of them.
  void scheduleReplays() {
    constexpr int kReplays = 3;
    for (int i = 0; i < kReplays; ++i) {
      const auto delay_ns = static_cast<int64_t>(replay_random_.below(6 * uint64_t{runtime::kNanosPerSecond}));
      cluster_.scheduler.call(cluster_.scheduler.nowNs() + delay_ns, [this] {
        replayLogs();
        compareReplicas();
      });
    }
  }

  // Of so many steps of a kind one is looked at; in some runs, many more are.
  static constexpr uint64_t kOfFaults = 8;
  static constexpr uint64_t kOfStored = 256;
  static constexpr uint64_t kOfAnswers = 256;
  static constexpr uint64_t kOfHeads = 32;
  static constexpr uint64_t kOfCompacted = 8;
  static constexpr uint64_t kOfFrames = 256;
  static constexpr uint64_t kDenseFactor = 16;
  static constexpr uint64_t kDenseSeeds = 32;

  void judgeDisks(const char* when, uint64_t of) {
    if (options_.every_step) of = 1;
    if (options_.seed % kDenseSeeds == 0) of = std::max<uint64_t>(1, of / kDenseFactor);
    if (moments_.below(of) == 0) durable_check_.check(when);
  }

  // After every event: what may have changed what a recovery would find, or what clients know.
  void watchSteps() {
    if (history_.finishedCount() != answers_seen_) {
      answers_seen_ = history_.finishedCount();
      judgeDisks("after an answer", kOfAnswers);
    }
    if (cluster_.disk.commitCount() != commits_seen_) {
      commits_seen_ = cluster_.disk.commitCount();
      judgeDisks("after the coordinator stored something", kOfStored);
    }
    uint64_t heads = 0;
    uint64_t compacted = 0;
    uint64_t frames = 0;
    for (const auto& server : cluster_.servers) {
      const log::Log* const log = server->master().log();
      if (log != nullptr) heads += log->headId().value;
      if (log != nullptr) compacted += log->stats().segments_compacted.load();
      if (server->backup() != nullptr) frames += server->backup()->store().stats().frames_free.load();
    }
    if (heads != heads_seen_) {
      heads_seen_ = heads;
      judgeDisks("after a head was rolled", kOfHeads);
    }
    if (compacted != compacted_seen_) {
      compacted_seen_ = compacted;
      judgeDisks("after a segment was compacted", kOfCompacted);
    }
    if (frames != frames_seen_) {
      frames_seen_ = frames;
      judgeDisks("after a frame was taken or came free", kOfFrames);
    }
  }

  void compareReplicas() {
    if (options_.crashes) replica_check_.start(cluster_, nemesis_->rottenMachine());
  }

  void replayLogs() {
    for (size_t i = 0; i < cluster_.servers.size(); ++i) {
      const auto& server = cluster_.servers[i];
      // What is damaged cannot be read until it is restored.
      if (cluster_.isDown(i) || MemoryDamage::isIn(server->master())) continue;
      for (const std::string& line : checkReplay(server->master(), generator_.keys(), replay_random_)) {
        replay_failures_ += line + "\n";
      }
      for (const std::string& line : checkAccounting(server->master(), report_.counts.logs_recounted)) {
        replay_failures_ += line + "\n";
      }
      ++report_.counts.logs_replayed;
    }
  }

  std::vector<FinalObject> finalObjects() const {
    std::vector<FinalObject> objects;
    for (const auto& [key, result] : clients_.front()->finalReads()) {
      FinalObject object{.key = key, .present = result.status == Status::Ok};
      if (object.present) {
        std::string value;
        result.takeValue(value);
        object.value = observe(value);
        object.version = result.version;
      }
      objects.push_back(object);
    }
    return objects;
  }

  void silenceForGood() {
    cluster_.on_fault = nullptr;
    std::vector<SimClient*> clients;
    for (const auto& client : clients_) clients.push_back(client.get());
    silence_trial_ = std::make_unique<SilenceTrial>(
        cluster_, *admin_, clients, tables_, durable_check_, [this](size_t machine) { return mayVanish(machine); },
        finalObjects());
    silence_trial_->start();
    report_.ok = runUntil([&] { return silence_trial_->isOver(); }, kRunNsMax, "the calls to a server that is silent");
    if (!report_.ok) return;
    if (silence_trial_->wasJudged()) ++report_.counts.silences_outlasted;
    if (silence_trial_->wasAnotherKilled()) ++report_.counts.silences_with_death;
    if (silence_trial_->wasWaitedFor()) ++report_.counts.silences_waited_for;
    silence_trial_->end();
    report_.ok = runUntil([&] { return silence_trial_->isEnded(); }, kRunNsMax, "the return of a storage waited for");
    if (!report_.ok) return;
    for (const std::string& line : silence_trial_->failures()) report_.failure += line + "\n";
    report_.ok = report_.failure.empty();
  }

  void loseForGood() {
    cluster_.on_fault = nullptr;  // what clients were told is not the measure any more
    loss_trial_ = std::make_unique<LossTrial>(cluster_, *admin_, tables_, history_, finalObjects());
    loss_trial_->start();
    report_.ok = runUntil([&] { return loss_trial_->isOver(); }, kRunNsMax, "the recovery without what is lost");
    if (!report_.ok) return;
    replay_failures_.clear();
    replayLogs();
    report_.failure = replay_failures_;
    for (const std::string& line : loss_trial_->failures()) report_.failure += line + "\n";
    report_.ok = report_.failure.empty();
    ++report_.counts.losses_tried;
    report_.counts.losses_accepted += loss_trial_->wasAccepted() ? 1 : 0;
    report_.counts.keys_lost += loss_trial_->changedCount();
  }

  void check() {
    replayLogs();
    if (options_.crashes) durable_check_.check("in the end");
    std::string failure = replay_failures_;
    for (const std::string& line : durable_check_.failures()) failure += line + "\n";
    for (const std::string& line : replica_check_.failures()) failure += line + "\n";
    for (const std::string& line : nemesis_->failures()) failure += line + "\n";
    for (const std::string& line : ledger_.violations()) failure += line + "\n";
    const std::vector<HistoryKey> keys = generator_.keys();
    std::map<size_t, std::vector<ScanRecord>> scans_of_table;
    for (const ScanRecord& scan : scans_) scans_of_table[scan.table].push_back(scan);
    for (const auto& [table, scans] : scans_of_table) {
      const std::vector<HistoryKey> of_table = tables_.keysOf(table, keys);
      for (const std::string& line : checkScans(history_, scans, of_table)) failure += line + "\n";
      for (const ScanRecord& scan : scans) addScanReads(scan, of_table, history_);
    }
    for (const std::string& line : checkExactlyOnce(history_, finalObjects())) failure += line + "\n";
    failure += checkLinearizability(history_).text();
    for (size_t i = 0; i < cluster_.servers.size(); ++i) {
      const auto& server = cluster_.servers[i];
      if (nemesis_->retired() == i || options_.crashes) continue;
      if (!server->rejected().empty()) failure += server->node().name() + ": " + server->rejected() + "\n";
    }
    report_.failure = failure;
    report_.ok = failure.empty();
  }

  void collect() {
    RunCounts& counts = report_.counts;
    for (const auto& client : clients_) {
      for (size_t kind = 0; kind < kCallKindCount; ++kind) {
        counts.calls[kind] += client->completed(static_cast<CallKind>(kind));
      }
    }
    for (const Operation& operation : std::span(history_.operations()).first(called_operations_)) {
      if (operation.outcome == Outcome::Unknown) ++counts.outcomes_unknown;
      if (operation.outcome == Outcome::Unknown || operation.outcome == Outcome::NotRun) continue;
      ++counts.operations;
      if (tables_.isSync(operation.key)) ++counts.operations_sync;
    }
    for (size_t i = 0; i < kCornerCount; ++i) {
      if (isIn(static_cast<Corner>(i), settings_)) ++counts.runs_at[i];
    }
    if (report_.ok && counts.operations < options_.operations_min) {
      report_.ok = false;
      report_.failure = "only " + std::to_string(counts.operations) + " operations were completed\n";
    }
    const transport::SimFaultCounts faults = cluster_.network.counts();
    counts.messages_lost = faults.lost;
    counts.frames_changed = faults.changed;
    counts.messages_blocked = faults.blocked;
    counts.messages_delayed = faults.delayed;
    counts.requests_given_up_late = faults.given_up_late;
    counts.messages_duplicated = faults.duplicated;
    counts.duplicates_suppressed = faults.suppressed;
    counts.messages_reordered = faults.reordered;
    counts.partitions = faults.partitions;
    counts.sessions_cut = faults.cuts;
    counts.add(cluster_.countAll());
    for (const auto& client : clients_) {
      counts.guards.add(Guard::AttemptAbandoned, client->core().finder().stats().abandoned);
      counts.fast_calls += client->fastCount();
      counts.futures += client->futureCount();
      counts.futures_dropped += client->droppedCount();
      counts.overlapping_calls += client->overlappingCount();
      const uint32_t identities = client->core().lease().generation();
      counts.guards.add(Guard::IdentityLapsed, identities - std::min(1u, identities));
    }
    replica_check_.stop();
    counts.replicas_compared = replica_check_.comparedCount();
    counts.compacted_compared = replica_check_.compactedCount();
    counts.moments_judged = durable_check_.momentCount();
    counts.disks_replayed = durable_check_.replayCount();
    counts.partly_replayed = durable_check_.partialCount();
    counts.lent_judged = durable_check_.lentCount();
    counts.judged = durable_check_.judgeCounts();
    counts.answers_judged = ledger_.checkedCount();
    report_.trace_hash = cluster_.scheduler.traceHash();
    report_.simulated_ns = static_cast<uint64_t>(cluster_.scheduler.nowNs());
    report_.events = cluster_.scheduler.eventCount();
    if (!report_.ok) {
      // Of a run that came to no end: what was wrong before.
      for (const std::string& line : durable_check_.failures()) {
        if (report_.failure.find(line) == std::string::npos) report_.failure += line + "\n";
      }
      report_.failure += "last lines of the trace:\n";
      for (const std::string& line : cluster_.trace.lines()) report_.failure += "  " + line + "\n";
    }
  }

  const RunOptions options_;
  const Variation variation_;
  const Settings settings_;
  const SimTables tables_{variation_.tables()};
  DurableLedger ledger_{tables_};
  ReplicaCheck replica_check_;
  bool is_over_ = false;  // events that come afterwards do nothing
  SimCluster cluster_;    // its end unwinds what the check has begun
  Generator generator_;
  History history_;
  std::vector<ScanRecord> scans_;
  std::unique_ptr<Nemesis> nemesis_;  // what it began through the admin ends with the admin
  std::vector<std::unique_ptr<SimClient>> clients_;
  std::unique_ptr<SilenceTrial> silence_trial_;  // what it began ends with the clients and the admin
  std::unique_ptr<LossTrial> loss_trial_;        // likewise
  std::unique_ptr<SimClient> admin_;
  runtime::Random replay_random_;
  runtime::Random moments_;  ///< which of them are looked at
  DurableCheck durable_check_;
  uint64_t answers_seen_ = 0;
  uint64_t commits_seen_ = 0;
  uint64_t heads_seen_ = 0;
  uint64_t compacted_seen_ = 0;
  uint64_t frames_seen_ = 0;
  std::string replay_failures_;
  size_t created_ = 0;            ///< of the tables
  size_t called_operations_ = 0;  ///< the first ones of the history: calls of the clients' work
  RunReport report_;
};

}  // namespace

RunReport runSimulation(const RunOptions& options) {
  const Variation variation(options.seed);
  const Settings settings = options.settings.of(options.seed, variation.hot_and_cold);
  RunReport report;
  if (const std::string problem = settings.problem(); !problem.empty()) {
    report.failure = "these settings make no sense: " + problem + "\n";
  } else {
    report = Scenario(options, variation, settings).execute();
  }
  report.settings = settings.text();
  return report;
}

}  // namespace ramcore::sim
