/// A tablet moves to and fro between servers whose memory is nearly full while it is there, cleaned all the time, under
/// load; during half of the moves a server dies. After each of them everything that was acknowledged is there, and
/// nothing is left of the move.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/state/stored_state.h"
#include "log/format/segment_format.h"
#include "sim/cluster/accounting_check.h"
#include "sim/cluster/sim_cluster.h"

namespace ramcore::sim {
namespace {

/// What a run has done.
struct FullMovesCounts {
  uint64_t moves = 0;       ///< of the large tablet, that were to be done
  uint64_t done = 0;        ///< of them
  uint64_t deaths = 0;      ///< of the source or the destination
  uint64_t in_arrival = 0;  ///< of them, while the contents were in both logs
  uint64_t recounted = 0;   ///< logs
  uint64_t calls = 0;
  uint64_t cleaned = 0;  ///< segments
  double share_min = 1;  ///< the least of its limit that was alive at the owner of the large tablet
};

/// Four servers with two small tablets each, and a large one that is at one of them. A client overwrites, removes and
/// makes anew the keys of all of them, and knows what it was told; an administrator moves tablets.
class FullMemoryMoves {
 public:
  static constexpr size_t kServers = 4;
  static constexpr uint32_t kTablets = 2 * kServers + 1;
  // Of what may be alive at a server.
  static constexpr double kLargeShare = 0.40;
  static constexpr double kSmallShare = 0.25;

  explicit FullMemoryMoves(uint64_t seed)
      : cluster_(seed, options()), random_(cluster_.scheduler.stream("full memory moves")) {}

  void start() {
    cluster_.startCoordinator();
    for (size_t i = 0; i < kServers; ++i) cluster_.addServer();
    client_ = makeClient("client", 0, transport::Role::Client);
    admin_ = makeClient("admin", 1, transport::Role::Admin);
    ASSERT_TRUE(passUntil([this] { return cluster_.allServe(); }));
    begin(*client_, [this] { work().detach(); });
    ASSERT_TRUE(passUntil([this] { return is_filled_; })) << "the memory is not full";
  }
  enum class Dies { Nobody, Source, Destination };
  /// Moves the large tablet to another server.
  /// @param dies  who dies meanwhile, and comes back as a new server on its storage
  void move(Dies dies) {
    const size_t source = indexOf(tablets().at(large_).owner);
    const size_t destination = (source + 1 + random_.below(kServers - 1)) % kServers;
    ++counts.moves;
    requestMove(large_, destination);
    if (dies != Dies::Nobody) dieDuringMove(dies == Dies::Source ? source : destination);
    ASSERT_TRUE(passUntil([this] { return !is_requested_; }));
    ASSERT_NO_FATAL_FAILURE(settle());
    counts.done += indexOf(tablets().at(large_).owner) == destination ? 1 : 0;
    if (dies == Dies::Nobody) EXPECT_EQ(indexOf(tablets().at(large_).owner), destination);
    ASSERT_NO_FATAL_FAILURE(balance());
    const SimServer& owner = *cluster_.servers[indexOf(tablets().at(large_).owner)];
    counts.share_min = std::min(counts.share_min, liveShare(owner));
  }
  /// Ends the load.
  void stop() {
    ends_ = true;
    ASSERT_TRUE(passUntil([this] { return has_ended_; }));
    counts.cleaned = cluster_.countAll().segments_cleaned;
  }

  FullMovesCounts counts;

 private:
  static constexpr size_t kValueBytes = 600;
  // More of them are absent only until they are written again.
  static constexpr size_t kAbsentMax = 20;

  static SimClusterOptions options() {
    SimClusterOptions options;
    options.durable = true;
    options.storage_bytes = 64u << 20;
    options.log.memory_bytes = 2u << 20;
    options.verdict_after_ns = 3 * kSecond;
    return options;
  }
  std::unique_ptr<SimClient> makeClient(const std::string& name, uint32_t number, transport::Role role) {
    return std::make_unique<SimClient>(
        cluster_.scheduler, cluster_.trace, cluster_.network, name, number, SimCluster::kClusterName,
        SimCluster::kCoordinatorNode,
        SimClient::Shared{.generator = generator_, .history = history_, .scans = scans_, .tables = tables_}, role);
  }

  struct Begin : runtime::Job {
    Begin() : Job([](runtime::Job& job) { std::exchange(static_cast<Begin&>(job).what, nullptr)(); }) {}
    std::function<void()> what;
  };
  /// Begins a coroutine on the dispatch of a client.
  void begin(SimClient& on, std::function<void()> what) {
    Begin& job = begins_.emplace_back();
    job.what = std::move(what);
    on.dispatch().post(job, runtime::Priority::Client);
    on.wake();
  }
  void pass(int64_t ns) { cluster_.scheduler.runUntil(cluster_.scheduler.nowNs() + ns, kEventsMax); }
  static constexpr uint64_t kEventsMax = 50'000'000;
  template <typename Done>
  bool passUntil(Done done, int64_t at_most_ns = 600 * kSecond) {
    const int64_t give_up_ns = cluster_.scheduler.nowNs() + at_most_ns;
    while (!done() && cluster_.scheduler.nowNs() < give_up_ns && !::testing::Test::HasFailure()) pass(2 * kMilli);
    return done();
  }

  // ---- what the coordinator has stored

  template <typename Record>
  std::vector<Record> stored(std::string_view prefix) const {
    std::vector<Record> records;
    for (const auto& [key, value] : cluster_.disk.contents()) {
      if (!key.starts_with(prefix)) continue;
      Record& record = records.emplace_back();
      EXPECT_TRUE(coordinator::decode(value, record)) << key;
    }
    return records;
  }
  std::map<TabletId, coordinator::Tablet> tablets() const {
    std::map<TabletId, coordinator::Tablet> all;
    for (auto& tablet : stored<coordinator::Tablet>(coordinator::kTabletPrefix)) all[tablet.id] = std::move(tablet);
    return all;
  }
  bool isArriving() const { return tablets().at(large_).isLent(); }
  /// What the coordinator still has to do, for a person; empty: nothing.
  std::string pending() const {
    std::string text;
    for (const auto& [id, tablet] : tablets()) {
      if (tablet.state != coordinator::TabletState::Normal)
        text += "tablet " + std::to_string(id.value) + " is not normal; ";
      if (tablet.logs.size() != 1) text += "tablet " + std::to_string(id.value) + " is in two logs; ";
    }
    for (const auto& move : stored<coordinator::Migration>(coordinator::kMigrationPrefix)) {
      if (!move.isOver()) text += "move " + std::to_string(move.id.value) + " is not over; ";
    }
    for (const auto& server : stored<coordinator::Server>(coordinator::kServerPrefix)) {
      if (!server.alive && !server.recovered) text += "server " + std::to_string(server.id.value) + " is needed; ";
    }
    return text;
  }
  size_t indexOf(ServerId id) const {
    for (size_t i = 0; i < kServers; ++i) {
      if (!cluster_.isDown(i) && cluster_.servers[i]->master().id() == id) return i;
    }
    ADD_FAILURE() << "server " << id.value << " has died";
    return 0;
  }

  // ---- what servers have of moves that are over

  /// For a person; empty: nothing.
  std::string leftovers(const SimServer& server) const {
    std::string text;
    const master::Master& master = server.master();
    const log::Log& log = *master.log();
    if (log.limit().heldBytes() != 0) text += "holds " + std::to_string(log.limit().heldBytes()) + " bytes of room; ";
    for (const store::Tablet& tablet : master.tablets().list()) {
      if (tablet.state == store::TabletState::Normal) continue;
      text += "tablet " + std::to_string(tablet.id.value) + " is in state " +
              std::to_string(static_cast<int>(tablet.state)) + "; ";
    }
    // Anchors, and side logs that have not joined.
    for (uint32_t i = 0; i < log.pool().slotCount(); ++i) {
      const log::Segment& segment = log.pool().slot(i);
      if (segment.state() == log::SegmentState::Free || segment.state() == log::SegmentState::Unlinked) continue;
      if (segment.kind() != log::SegmentKind::Side || segment.isListed()) continue;
      text += "segment " + std::to_string(segment.id().value) + " is in no log; ";
    }
    return text;
  }
  double liveShare(const SimServer& server) const {
    const log::Log& log = *server.master().log();
    return static_cast<double>(log.stats().live_bytes.load()) / static_cast<double>(log.limit().liveBytesMax());
  }

  // ---- moves and deaths

  void requestMove(TabletId tablet, size_t destination) {
    is_requested_ = true;
    begin(*admin_, [this, tablet, destination] { runMove(tablet, destination).detach(); });
  }
  // Until it has begun: a server that was started again just now takes no tablets before it has reported.
  runtime::Task<void> runMove(TabletId tablet, size_t destination) {
    for (;;) {
      const ServerId to = cluster_.servers[destination]->master().id();
      const auto begun = co_await admin_->core().coordinator().moveTablet(tablet, to, in(*admin_, 5 * kSecond));
      is_requested_ = begun.status() == Status::RetryLater;
      if (!is_requested_) co_return;
      co_await runtime::sleepFor(admin_->dispatch(), 20 * kMilli);
    }
  }
  // At some moment of a move that has just been requested, most often while the contents arrive.
  void dieDuringMove(size_t victim) {
    ASSERT_TRUE(passUntil([this] { return !pending().empty(); }, 10 * kSecond));
    if (random_.below(4) != 0) {
      for (int i = 0; i < 20'000 && !isArriving() && !pending().empty(); ++i) pass(kMilli / 10);
    }
    pass(static_cast<int64_t>(random_.below(20)) * kMilli / 4);
    ++counts.deaths;
    counts.in_arrival += isArriving() ? 1 : 0;
    cluster_.killServer(victim, random_.chance(0.3));
    pass(static_cast<int64_t>(random_.below(12)) * kSecond);
    cluster_.restartServer(victim);
  }
  /// Waits until the coordinator and the servers have nothing left to do.
  void settle() {
    ASSERT_TRUE(passUntil([this] { return cluster_.allServe() && pending().empty(); })) << pending();
    for (const auto& server : cluster_.servers) {
      const bool is_clean = passUntil([&] { return leftovers(*server).empty(); }, 10 * kSecond);
      ASSERT_TRUE(is_clean) << "server " << server->master().id().value << " " << leftovers(*server);
      for (const std::string& line : checkAccounting(server->master(), counts.recounted)) ADD_FAILURE() << line;
    }
    compare_wanted_ = true;
    ASSERT_TRUE(passUntil([this] { return !compare_wanted_; }));
  }
  /// Two small tablets at each server again.
  void balance() {
    for (;;) {
      std::array<std::vector<TabletId>, kServers> small;
      for (const auto& [id, tablet] : tablets()) {
        if (id != large_) small[indexOf(tablet.owner)].push_back(id);
      }
      const auto fewest = std::ranges::min_element(small, {}, &std::vector<TabletId>::size);
      const auto most = std::ranges::max_element(small, {}, &std::vector<TabletId>::size);
      if (most->size() <= 2) return;
      requestMove(most->back(), static_cast<size_t>(fewest - small.begin()));
      ASSERT_TRUE(passUntil([this] { return !is_requested_ && pending().empty(); })) << pending();
    }
  }

  // ---- the load

  int64_t in(SimClient& client, int64_t ns) { return client.node().clock().nowNs() + ns; }
  static std::string keyOf(uint64_t number) { return "key" + std::to_string(10'000 + number); }
  static std::vector<std::byte> valueOf(uint64_t stamp) {
    std::vector<std::byte> value(kValueBytes, static_cast<std::byte>(stamp % 251));
    storeAs(value.data(), stamp);
    return value;
  }

  runtime::Task<void> work() {
    while (!table_) {
      const auto created = co_await client_->core().createTable("table", kTablets, in(*client_, 5 * kSecond));
      if (created.ok()) table_ = *created;
    }
    chooseKeys();
    for (const uint64_t number : keys_) {
      while (!model_.contains(number) && !::testing::Test::HasFailure()) co_await write(number);
    }
    is_filled_ = true;
    while (!ends_ && !::testing::Test::HasFailure()) {
      if (compare_wanted_) co_await compareAll();
      compare_wanted_ = false;
      co_await change();
      if (counts.calls % 4 == 0) co_await runtime::sleepFor(client_->dispatch(), kMilli);
    }
    has_ended_ = true;
  }
  // The large tablet is one of the three of the server that has three.
  void chooseKeys() {
    std::map<ServerId, std::vector<TabletId>> owned;
    const auto all = tablets();
    for (const auto& [id, tablet] : all) owned[tablet.owner].push_back(id);
    const auto most = std::ranges::max_element(owned, {}, [](const auto& one) { return one.second.size(); });
    EXPECT_EQ(most->second.size(), 3u);
    large_ = most->second.front();
    const uint32_t entry_bytes = log::alignedEntryBytes(8, kValueBytes, false, false);
    const auto limit = static_cast<double>(cluster_.servers[0]->master().log()->config().liveBytesMax());
    std::map<TabletId, uint64_t> left;
    for (const auto& [id, tablet] : all) {
      left[id] = static_cast<uint64_t>((id == large_ ? kLargeShare : kSmallShare) * limit) / entry_bytes;
    }
    for (uint64_t number = 0; !left.empty(); ++number) {
      const KeyHash hash = hashKey(table_, asBytes(keyOf(number)));
      const auto of = std::ranges::find_if(all, [&](const auto& one) { return one.second.range.contains(hash); });
      const auto wanted = left.find(of->first);
      if (wanted == left.end()) continue;
      keys_.push_back(number);
      if (--wanted->second == 0) left.erase(wanted);
    }
  }

  runtime::Task<void> change() {
    const uint64_t number = keys_[random_.below(keys_.size())];
    const uint64_t kind = random_.below(8);
    ++counts.calls;
    if (absent_.size() > kAbsentMax) {
      co_await write(*absent_.begin());
    } else if (kind == 0) {
      co_await remove(number);
    } else if (kind < 3) {
      co_await compare(number);
    } else {
      co_await write(number);
    }
  }
  runtime::Task<void> write(uint64_t number) {
    const uint64_t stamp = ++stamp_;
    const std::string key = keyOf(number);
    const auto value = valueOf(stamp);
    const auto result = co_await client_->core().write(table_, asBytes(key), value, {}, in(*client_, 30 * kSecond));
    note(number, stamp, result.status);
  }
  runtime::Task<void> remove(uint64_t number) {
    const std::string key = keyOf(number);
    const auto result = co_await client_->core().remove(table_, asBytes(key), {}, in(*client_, 30 * kSecond));
    note(number, 0, result.status);
  }
  /// @param stamp  of what was written; 0: nothing is there
  void note(uint64_t number, uint64_t stamp, Status status) {
    std::set<uint64_t>& known = model_[number];
    if (status == Status::Ok) known.clear();
    if (known.empty() && status != Status::Ok) known.insert(0);  // the first write
    if (status == Status::Ok || status == Status::OutcomeUnknown) known.insert(stamp);
    if (known == std::set<uint64_t>{0}) {
      absent_.insert(number);
    } else {
      absent_.erase(number);
    }
  }
  runtime::Task<void> compareAll() {
    for (const uint64_t number : keys_) {
      if (::testing::Test::HasFailure()) co_return;
      co_await compare(number);
    }
  }
  runtime::Task<void> compare(uint64_t number) {
    const std::string key = keyOf(number);
    const auto result = co_await client_->core().read(table_, asBytes(key), in(*client_, 120 * kSecond));
    const std::set<uint64_t>& known = model_.at(number);
    if (result.status == Status::NotFound) {
      EXPECT_TRUE(known.contains(0)) << key << " is lost, move " << counts.moves;
      co_return;
    }
    EXPECT_EQ(result.status, Status::Ok) << key << ": " << name(result.status) << ", move " << counts.moves;
    std::string value;
    if (result.status == Status::Ok) result.takeValue(value);
    if (value.size() != kValueBytes) {
      ADD_FAILURE() << key << " has " << value.size() << " bytes";
      co_return;
    }
    const auto stamp = loadAs<uint64_t>(asBytes(value).data());
    EXPECT_TRUE(known.contains(stamp)) << key << " came back, move " << counts.moves;
    EXPECT_TRUE(std::ranges::equal(asBytes(value), valueOf(stamp))) << key;
  }

  const SimTables tables_{{{.name = "table", .durability = Durability::Buffered}}};
  std::deque<Begin> begins_;
  SimCluster cluster_;
  Generator generator_{{.client_count = 2}, 1};
  History history_;
  std::vector<ScanRecord> scans_;
  runtime::Random random_;
  std::unique_ptr<SimClient> client_;
  std::unique_ptr<SimClient> admin_;
  TableId table_;
  TabletId large_;
  std::vector<uint64_t> keys_;
  std::map<uint64_t, std::set<uint64_t>> model_;  ///< by key: the stamps that it may have, 0 for none
  std::set<uint64_t> absent_;
  uint64_t stamp_ = 0;
  bool is_requested_ = false;  ///< a move, and it has not begun
  bool is_filled_ = false;
  bool compare_wanted_ = false;
  bool ends_ = false;
  bool has_ended_ = false;
};

}  // namespace

TEST(FullMemoryMoves, ToAndFroAtNineTenthsOfTheMemoryAndADeathInHalfOfThem) {
  constexpr uint64_t kMoves = 20;
  using Dies = FullMemoryMoves::Dies;
  FullMemoryMoves run(1);
  ASSERT_NO_FATAL_FAILURE(run.start());
  for (uint64_t i = 0; i < kMoves && !HasFailure(); ++i) {
    const Dies dies = i % 2 == 0 ? Dies::Nobody : i % 4 == 1 ? Dies::Source : Dies::Destination;
    ASSERT_NO_FATAL_FAILURE(run.move(dies)) << "move " << i;
  }
  ASSERT_NO_FATAL_FAILURE(run.stop());
  const FullMovesCounts& counts = run.counts;
  EXPECT_EQ(counts.deaths, kMoves / 2);
  EXPECT_GE(counts.in_arrival, 5u);
  EXPECT_GE(counts.done, kMoves / 2) << "those without a death, and some of the others";
  EXPECT_GE(counts.share_min, 0.88) << "the memory was full";
  EXPECT_GE(counts.cleaned, 1000u);
  EXPECT_GE(counts.recounted, kMoves);
}

}  // namespace ramcore::sim
