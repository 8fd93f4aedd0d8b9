// Tables that are dropped while a tablet of theirs moves.

#include <utility>

#include "sim/cluster/nemesis.h"

namespace ramcore::sim {
namespace {

constexpr int64_t kStepLookNs = 50 * runtime::kNanosPerMicro;
constexpr int64_t kStepNsMax = 2 * kSecond;
constexpr int kObjects = 24;

}  // namespace

// The drop comes at a random step. Some of those who take part may die then as well.
runtime::Task<void> Nemesis::dropWhileMoving() {
  const std::string table = "dropped " + std::to_string(++dropped_tables_);
  const std::optional<client::TabletInfo> tablet = co_await createToDrop(table);
  if (!tablet) co_return;
  const ServerId destination = idOf(otherServer(indexOf(tablet->owner).value_or(cluster_.servers.size())));
  auto migration = co_await admin_.core().coordinator().moveTablet(tablet->id, destination, soon());
  if (migration.ok()) {
    if (random_.below(3) == 0) awaitMoveStep(*migration, tablet->id, tablet->owner, destination);
    co_await awaitToDrop(*migration, tablet->id, destination);
  }
  for (;;) {
    const Status dropped = co_await admin_.core().dropTable(table, soon());
    if (dropped == Status::Shutdown) co_return;
    if (dropped == Status::Ok || dropped == Status::NoSuchTable) break;
  }
  ++counts_.tables_dropped;
}

/// A table with some objects, of which nobody but the nemesis knows. Gives one of its tablets.
runtime::Task<std::optional<client::TabletInfo>> Nemesis::createToDrop(const std::string& name) {
  const Durability durability = options_.all_sync ? Durability::Sync : Durability::Buffered;
  auto created =
      co_await admin_.core().createTable(name, 1 + static_cast<uint32_t>(random_.below(2)), soon(), durability);
  if (!created.ok()) co_return std::nullopt;
  std::vector<std::string> keys;
  for (int i = 0; i < kObjects; ++i) keys.push_back("of nobody " + std::to_string(i));
  const std::string value(random_.between(1, 2000), 'd');
  std::vector<MutateItem> items(keys.size());
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].table = Table{created->value};
    items[i].key = keys[i];
    items[i].value = value;
  }
  co_await admin_.core().multiMutate(items, soon());
  auto tables = co_await admin_.core().coordinator().allTablets(soon());
  if (!tables.ok()) co_return std::nullopt;
  for (const client::TableMap& table : *tables) {
    if (table.table == *created && !table.tablets.empty()) {
      co_return table.tablets[random_.below(table.tablets.size())];
    }
  }
  co_return std::nullopt;
}

/// Waits for a random step of the move. It ends, or does not get there, in some cases.
runtime::Task<void> Nemesis::awaitToDrop(uint64_t migration, TabletId tablet, ServerId destination) {
  const auto wanted = static_cast<MoveStep>(random_.below(kMoveStepCount));
  if (wanted == MoveStep::GivingUp) {
    co_await runtime::sleepFor(admin_.dispatch(), draw(random_, 0, 5 * kMilli));
    co_await cancelMove(migration);
  }
  bool is_asked_back = false;
  const int64_t until_ns = cluster_.scheduler.nowNs() + kStepNsMax;
  while (!stopped_ && cluster_.scheduler.nowNs() < until_ns) {
    const std::optional<size_t> to = indexOf(destination);
    const bool is_up = to && !cluster_.isDown(*to);
    const std::optional<MoveStep> step = stepOfMove(cluster_.disk, coordinator::MigrationId(migration), tablet,
                                                    is_up ? &cluster_.servers[*to]->master() : nullptr);
    if (!step) co_return;
    if (isOfReturn(wanted) && canBeTakenBack(*step) && !std::exchange(is_asked_back, true)) {
      cancelMove(migration).detach();
    }
    if (step == wanted) {
      ++counts_.move_drops[static_cast<size_t>(wanted)];
      co_return;
    }
    co_await runtime::sleepFor(admin_.dispatch(), kStepLookNs);
  }
}

}  // namespace ramcore::sim
