#include "coordinator/tablets/table_manager.h"

#include <algorithm>

#include "base/check.h"
#include "coordinator/state/stored_state.h"
#include "coordinator/tablets/server_steps.h"

namespace ramcore::coordinator {
namespace {

constexpr size_t kNameBytesMax = 255;
// Attempts at one server before a table that is being created looks for another one.
constexpr int kTakeAttemptsMax = 4;
// A server that answers, but is not ready, gets this long: the head of a log that has just begun has to be open and
// flushed on other servers. Tables are spread over all servers when they are made, and nobody spreads them again later.
constexpr int64_t kNotReadyNs = 1 * runtime::kNanosPerSecond;

// Bytes of the UTF-8 character that begins at `text`, 0 if there is no valid one.
size_t characterBytes(std::string_view text, uint32_t& character) {
  const auto byte = [text](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const uint32_t lead = byte(0);
  const size_t count = lead < 0x80                   ? 1
                       : lead >= 0xc2 && lead < 0xe0 ? 2
                       : lead >= 0xe0 && lead < 0xf0 ? 3
                       : lead >= 0xf0 && lead < 0xf5 ? 4
                                                     : 0;
  if (count == 0 || count > text.size()) return 0;
  character = count == 1 ? lead : lead & (0xffU >> (count + 1));
  for (size_t i = 1; i < count; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    character = character << 6 | (byte(i) & 0x3f);
  }
  const bool is_overlong = (count == 3 && character < 0x800) || (count == 4 && character < 0x10000);
  const bool is_surrogate = character >= 0xd800 && character < 0xe000;
  return is_overlong || is_surrogate || character > 0x10ffff ? 0 : count;
}

}  // namespace

TableManager::TableManager(const Parts& parts, std::vector<TabletOperations*> operations)
    : parts_(parts),
      operations_(std::move(operations)),
      ids_(parts.journal, "table"),
      changed_(parts.journal.executor()) {
  parts.journal.addFullListener([this] { changed_.notifyAll(); });
}

bool TableManager::isTableName(std::string_view name) {
  if (name.empty() || name.size() > kNameBytesMax) return false;
  while (!name.empty()) {
    uint32_t character = 0;
    const size_t bytes = characterBytes(name, character);
    if (bytes == 0 || character < 0x20 || (character >= 0x7f && character < 0xa0)) return false;
    name.remove_prefix(bytes);
  }
  return true;
}

runtime::Task<Status> TableManager::load() {
  const Status ids = co_await ids_.load();
  if (ids != Status::Ok) co_return ids;
  Result<std::vector<KeyValue>> tables = co_await parts_.journal.readPrefix(std::string(kTablePrefix));
  if (!tables.ok()) co_return tables.error();
  for (const KeyValue& entry : *tables) {
    Table table;
    if (!decode(entry.value, table) || entry.key != keyOf(table.id) || !isTableName(table.name)) {
      co_return parts_.journal.corrupt(entry.key, kNonsense);
    }
    if (table.id.value >= ids_.end()) co_return parts_.journal.corrupt(entry.key, "has an id that is still to come");
    if (table.state == TableState::Creating && !isSoundIntent(table)) {
      co_return parts_.journal.corrupt(entry.key, "intends tablets that cannot be");
    }
    if (parts_.map.findTable(table.name) != nullptr) {
      co_return parts_.journal.corrupt(entry.key, "has the name of another table");
    }
    parts_.map.putTable(table);
  }
  Result<std::vector<KeyValue>> tablets = co_await parts_.journal.readPrefix(std::string(kTabletPrefix));
  if (!tablets.ok()) co_return tablets.error();
  for (const KeyValue& entry : *tablets) {
    Tablet tablet;
    if (!decode(entry.value, tablet) || entry.key != keyOf(tablet.id)) {
      co_return parts_.journal.corrupt(entry.key, kNonsense);
    }
    if (tablet.id.value >= parts_.tablet_ids.end()) {
      co_return parts_.journal.corrupt(entry.key, "has an id that is still to come");
    }
    const bool is_lent_to_itself = tablet.isLent() && tablet.logs.front().server == tablet.logs.back().server;
    const bool is_owners = !tablet.logs.empty() && tablet.logs.back().server == tablet.owner;
    if (!is_owners || tablet.logs.size() > 2 || is_lent_to_itself) {
      co_return parts_.journal.corrupt(entry.key, "is in logs in which it cannot be");
    }
    const Table* table = parts_.map.findTable(tablet.table);
    if (table != nullptr && table->state == TableState::Creating) {
      // A creation that takes several batches has stored its first part. It is written again with the rest.
      if (table->intends(tablet.id)) continue;
      co_return parts_.journal.corrupt(entry.key, "is no tablet of the table that is being created");
    }
    parts_.map.loadTablet(tablet);
  }
  const std::optional<std::string> wrong = parts_.map.inconsistency();
  if (wrong) co_return parts_.journal.corrupt(kTabletPrefix, "contradicts others: " + *wrong);
  co_return Status::Ok;
}

bool TableManager::isSoundIntent(const Table& table) const {
  const uint64_t count = table.owners.size();
  const uint64_t end = parts_.tablet_ids.end();
  return count != 0 && count <= kTabletsPerTableMax && table.first_tablet != TabletId() &&
         table.first_tablet.value < end && count <= end - table.first_tablet.value;
}

void TableManager::resume() {
  for (const Table* table : parts_.map.tables()) {
    if (table->state == TableState::Creating) runCreate(table->id).detach();
    if (table->state == TableState::Dropping) runDrop(table->id).detach();
  }
}

void TableManager::stop() { changed_.failAll(Status::Shutdown); }

// ---- create

runtime::Task<TableManager::Created> TableManager::create(std::string name, uint32_t tablet_count,
                                                          Durability durability, uint64_t nonce, int64_t deadline_ns) {
  const bool is_sound = isTableName(name) && tablet_count <= kTabletsPerTableMax && nonce != 0;
  if (!is_sound) co_return Created{Status::BadRequest, {}};
  const Status outcome = co_await storeCreate(name, tablet_count, durability, nonce);
  if (outcome != Status::Ok && outcome != Status::TableExists) co_return Created{outcome, {}};
  const Table* table = parts_.map.findTable(name);
  const Status not_ready = outcome == Status::Ok ? Status::OutcomeUnknown : Status::RetryLater;
  if (table == nullptr) co_return Created{not_ready, {}};
  const TableId id = table->id;
  const Status ready = co_await waitUntil(id, TableState::Ready, deadline_ns);
  if (ready == Status::CoordinatorFull) co_return Created{ready, {}};
  if (ready != Status::Ok) co_return Created{not_ready, {}};
  co_return Created{outcome, id};
}

runtime::Task<Status> TableManager::storeCreate(std::string name, uint32_t tablet_count, Durability durability,
                                                uint64_t nonce) {
  auto guard = co_await parts_.map_lock.lock();
  const Table* existing = parts_.map.findTable(name);
  if (existing != nullptr && existing->state == TableState::Dropping) co_return Status::RetryLater;
  if (existing != nullptr) co_return existing->nonce == nonce ? Status::Ok : Status::TableExists;
  if (parts_.map.tableCount() >= kTablesMax) co_return Status::LimitReached;
  const std::vector<ServerId> servers = parts_.membership.heardServers();
  if (servers.empty()) co_return Status::RetryLater;
  if (tablet_count == 0) {
    tablet_count = static_cast<uint32_t>(std::min<size_t>(servers.size(), kTabletsPerTableMax));
  }
  if (parts_.map.plannedTabletCount() + tablet_count > TabletMap::kTabletsMax) co_return Status::LimitReached;

  const Result<uint64_t> id = co_await ids_.take();
  if (!id.ok()) co_return id.error();
  if (*id > ~uint32_t{0}) co_return Status::LimitReached;
  const Result<uint64_t> first_tablet = co_await parts_.tablet_ids.take(tablet_count);
  if (!first_tablet.ok()) co_return first_tablet.error();
  Table table{.id = TableId(static_cast<uint32_t>(*id)),
              .name = std::move(name),
              .state = TableState::Creating,
              .first_tablet = TabletId(*first_tablet),
              .owners = {},
              .epochs = {},
              .nonce = nonce,
              .durability = durability};
  // Each table begins with another server, so that tables of one tablet spread as well.
  for (uint32_t i = 0; i < tablet_count; ++i) {
    table.owners.push_back(servers[(*id + i) % servers.size()]);
    table.epochs.emplace_back(1);
  }
  Batch batch;
  batch.put(keyOf(table.id), encode(table));
  const Status stored = co_await parts_.journal.commit(std::move(batch));
  if (stored != Status::Ok) co_return stored;
  parts_.map.putTable(table);
  runCreate(table.id).detach();
  co_return Status::Ok;
}

Tablet TableManager::intended(const Table& table, uint32_t index) const {
  const auto count = static_cast<uint32_t>(table.owners.size());
  return {.id = TabletId(table.first_tablet.value + index),
          .table = table.id,
          .range = TabletMap::evenRange(index, count),
          .epoch = table.epochs[index],
          .last_epoch = table.epochs[index],
          .state = TabletState::Normal,
          .owner = table.owners[index],
          .logs = {},
          .durability = table.durability};
}

runtime::Task<void> TableManager::runCreate(TableId id) {
  Journal::Running running(parts_.journal);
  const auto count = static_cast<uint32_t>(parts_.map.findTable(id)->owners.size());
  std::vector<Tablet> tablets(count);
  Status stored = Status::RetryLater;
  while (stored == Status::RetryLater) {
    const bool created = co_await createTablets(id, tablets);
    if (!created) co_return;
    stored = co_await storeCreated(id, tablets);
  }
  if (stored == Status::Ok) changed_.notifyAll();
}

// Creates the tablets that are not with a server that lives. False only if the coordinator stops.
runtime::Task<bool> TableManager::createTablets(TableId id, std::vector<Tablet>& tablets) {
  // All servers are asked at once, but with a bounded number of calls.
  constexpr size_t kAtOnce = 16;
  for (size_t next = 0; next < tablets.size();) {
    std::vector<runtime::Task<bool>> tasks;
    for (; next < tablets.size() && tasks.size() < kAtOnce; ++next) {
      if (parts_.membership.isAlive(tablets[next].owner)) continue;
      tasks.push_back(createTablet(id, static_cast<uint32_t>(next), tablets[next]));
    }
    bool all = true;
    for (runtime::Task<bool>& task : tasks) {
      const bool created = co_await task;
      all = all && created;
    }
    if (!all) co_return false;
  }
  co_return true;
}

// False only if the coordinator stops.
runtime::Task<bool> TableManager::createTablet(TableId id, uint32_t index, Tablet& tablet) {
  Backoff backoff(parts_.journal);
  int64_t begun_ns = parts_.journal.nowNs();
  for (int attempt = 1; !parts_.journal.stopping(); ++attempt) {
    tablet = intended(*parts_.map.findTable(id), index);
    const bool dead = !parts_.membership.isAlive(tablet.owner);
    if (!dead) {
      const TakeResult taken = co_await takeNew(tablet);
      if (taken.status == Status::Ok) {
        tablet.logs = {taken.log};
        co_return true;
      }
      if (!mayPass(taken.status)) attempt = kTakeAttemptsMax;
      const bool not_ready = taken.status == Status::RetryLater || taken.status == Status::LeaseUnknown;
      if (not_ready && parts_.journal.nowNs() - begun_ns < kNotReadyNs) attempt = 0;
    }
    if (dead || attempt >= kTakeAttemptsMax) {
      attempt = 0;
      begun_ns = parts_.journal.nowNs();
      // There is a pause before a new owner is asked, too. Otherwise this would go round and store without a pause
      // while all servers refuse.
      (void)co_await moveIntent(id, index);
    }
    const bool awake = co_await backoff.pause();
    if (!awake) break;
  }
  co_return false;
}

runtime::Task<TakeResult> TableManager::takeNew(Tablet tablet) {
  if (tablet.epoch > TabletEpoch(1)) {
    // The tablet was intended for other servers before. If this one was among them, what it made of the tablet then
    // stands in the way.
    const Status dropped =
        co_await parts_.masters.dropTablet(tablet.owner, tablet.id, TabletEpoch(tablet.epoch.value - 1));
    if (!isDropped(dropped)) co_return TakeResult{dropped, {}};
  }
  co_return co_await parts_.masters.takeTablet(tablet.owner, tablet, true);
}

// Nobody has seen a table that is being created, so a tablet may simply go to another server, under another epoch: what
// the first one may have made of it is never asked for. True if there is another server.
runtime::Task<bool> TableManager::moveIntent(TableId id, uint32_t index) {
  auto guard = co_await parts_.map_lock.lock();
  Table table = *parts_.map.findTable(id);
  std::vector<ServerId> servers = parts_.membership.heardServers();
  const ServerId former = table.owners[index];
  std::erase(servers, former);
  if (servers.empty()) co_return false;
  table.owners[index] = servers[(id.value + index) % servers.size()];
  table.epochs[index].value += 1;
  Batch batch;
  batch.put(keyOf(id), encode(table));
  const Status stored = co_await parts_.journal.commit(std::move(batch));
  if (stored != Status::Ok) co_return false;
  parts_.map.putTable(table);
  co_return true;
}

// RetryLater: a server that took some of the tablets is dead. They are empty, so other servers are asked to take them.
runtime::Task<Status> TableManager::storeCreated(TableId id, const std::vector<Tablet>& tablets) {
  auto guard = co_await parts_.map_lock.lock();
  const bool all_live = std::all_of(tablets.begin(), tablets.end(),
                                    [&](const Tablet& tablet) { return parts_.membership.isAlive(tablet.owner); });
  if (!all_live) co_return Status::RetryLater;
  Table table = *parts_.map.findTable(id);
  table.state = TableState::Ready;
  table.owners.clear();
  table.epochs.clear();
  Batch batch;
  for (const Tablet& tablet : tablets) {
    batch.put(keyOf(tablet.id), encode(tablet));
    if (batch.changes.size() < Batch::kChangesMax - 1) continue;
    const bool stored = co_await parts_.journal.commitUntilStored(std::move(batch));
    if (!stored) co_return Status::Shutdown;
    batch = Batch();
  }
  // The table is ready with its last tablet, not before.
  batch.put(keyOf(id), encode(table));
  const bool stored = co_await parts_.journal.commitUntilStored(std::move(batch));
  if (!stored) co_return Status::Shutdown;
  parts_.map.putTable(table);
  parts_.map.addTablets(id, tablets);
  parts_.trace.info("table '" + table.name + "' is created with " + std::to_string(tablets.size()) + " tablets");
  co_return Status::Ok;
}

// ---- drop

runtime::Task<Status> TableManager::drop(TableId id, int64_t deadline_ns) {
  auto guard = co_await parts_.map_lock.lock();
  const Table* found = parts_.map.findTable(id);
  if (found == nullptr) co_return Status::NoSuchTable;
  Table table = *found;
  if (table.state == TableState::Creating) co_return Status::RetryLater;
  if (table.state == TableState::Ready) {
    table.state = TableState::Dropping;
    Batch batch;
    batch.put(keyOf(table.id), encode(table));
    const Status stored = co_await parts_.journal.commit(std::move(batch));
    if (stored != Status::Ok) co_return stored;
    parts_.map.putTable(table);
    runDrop(table.id).detach();
  }
  guard.release();
  while (parts_.map.findTable(id) != nullptr) {
    if (parts_.journal.stopping()) co_return Status::OutcomeUnknown;
    if (parts_.journal.isFull()) co_return Status::CoordinatorFull;
    const Status changed = co_await changed_.wait(deadline_ns);
    if (changed == Status::DeadlineExceeded) co_return Status::OutcomeUnknown;
  }
  co_return Status::Ok;
}

runtime::Task<void> TableManager::runDrop(TableId id) {
  Journal::Running running(parts_.journal);
  for (TabletOperations* operations : operations_) {
    const bool ended = co_await operations->endAll(id);
    if (!ended) co_return;
  }
  std::vector<Tablet> tablets;
  for (const Tablet* tablet : parts_.map.tabletsOf(id)) tablets.push_back(*tablet);
  std::vector<runtime::Task<void>> tasks;
  for (const Tablet& tablet : tablets) {
    tasks.push_back(dropTablet(tablet, tablet.owner));
    for (const LogRef& log : tablet.logs) {
      if (log.server != tablet.owner) tasks.push_back(dropTablet(tablet, log.server));
    }
  }
  for (runtime::Task<void>& task : tasks) co_await task;
  if (parts_.journal.stopping()) co_return;
  const bool stored = co_await storeDropped(id);
  if (stored) changed_.notifyAll();
}

// Returns when the server has dropped the tablet or can answer for nothing any more, or when the coordinator stops.
runtime::Task<void> TableManager::dropTablet(Tablet tablet, ServerId server) {
  Backoff backoff(parts_.journal);
  while (!parts_.journal.stopping() && !parts_.membership.leaseIsOver(server)) {
    if (parts_.membership.isAlive(server)) {
      const Status dropped = co_await parts_.masters.dropTablet(server, tablet.id, tablet.last_epoch);
      if (isDropped(dropped)) co_return;
    }
    const bool awake = co_await backoff.pause();
    if (!awake) co_return;
  }
}

runtime::Task<bool> TableManager::storeDropped(TableId id) {
  auto guard = co_await parts_.map_lock.lock();
  std::vector<TabletId> tablets;
  for (const Tablet* tablet : parts_.map.tabletsOf(id)) tablets.push_back(tablet->id);
  Batch batch;
  for (const TabletId tablet : tablets) {
    batch.remove(keyOf(tablet));
    if (batch.changes.size() < Batch::kChangesMax - 1) continue;
    const bool stored = co_await parts_.journal.commitUntilStored(std::move(batch));
    if (!stored) co_return false;
    batch = Batch();
  }
  batch.remove(keyOf(id));
  const bool stored = co_await parts_.journal.commitUntilStored(std::move(batch));
  if (!stored) co_return false;
  parts_.trace.info("table '" + parts_.map.findTable(id)->name + "' is dropped");
  for (const TabletId tablet : tablets) parts_.map.removeTablet(tablet);
  parts_.map.removeTable(id);
  co_return true;
}

// ---- shared

runtime::Task<Status> TableManager::waitUntil(TableId id, TableState state, int64_t deadline_ns) {
  while (true) {
    const Table* table = parts_.map.findTable(id);
    if (table == nullptr) co_return Status::RetryLater;
    if (table->state == state) co_return Status::Ok;
    if (parts_.journal.stopping()) co_return Status::Shutdown;
    if (parts_.journal.isFull()) co_return Status::CoordinatorFull;
    const Status changed = co_await changed_.wait(deadline_ns);
    if (changed == Status::DeadlineExceeded) co_return Status::RetryLater;
  }
}

}  // namespace ramcore::coordinator
