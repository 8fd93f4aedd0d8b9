#include "coordinator/state/stored_state.h"

#include "coordinator/state/change_history.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>

#include "runtime/clock.h"
#include "wire/state.pb.h"

namespace ramcore::coordinator {
namespace {

namespace state = wire::state;

std::string keyWith(std::string_view prefix, uint64_t number, int digits) {
  std::string key(prefix);
  for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) key += "0123456789abcdef"[(number >> shift) & 0xf];
  return key;
}

// Ids and epochs are counted from 1, so no coordinator lives to reach this. Counting on from here does not wrap.
constexpr uint64_t kCountMax = uint64_t{1} << 62;
// Far more than can be configured; sums of times do not overflow.
constexpr int64_t kLeaseNsMax = 24 * 3600 * runtime::kNanosPerSecond;

// Parses without printing: the parser would write a line to stderr for text that is not UTF-8.
template <typename Message>
bool parse(std::string_view bytes, Message& message) {
  const google::protobuf::LogSilencer silence;
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

/// At most two heads, the end of the log behind its predecessor.
bool isInOrder(const std::vector<ReadSegment>& read) {
  if (!read.empty() && !read.front().segment) return false;
  return read.size() <= 2 && (read.size() < 2 || read[0].segment < read[1].segment);
}

}  // namespace

std::string keyOf(ServerId id) { return keyWith(kServerPrefix, id.value, 16); }
std::string keyOf(TableId id) { return keyWith(kTablePrefix, id.value, 8); }
std::string keyOf(TabletId id) { return keyWith(kTabletPrefix, id.value, 16); }
std::string keyOf(ClientId id) { return keyWith(kClientPrefix, id.value, 16); }
std::string keyOf(MigrationId id) { return keyWith(kMigrationPrefix, id.value, 16); }
std::string keyOfSplit(TabletId tablet) { return keyWith(kSplitPrefix, tablet.value, 16); }

std::string encodeConfig(const StoredConfig& config) {
  state::Config message;
  message.set_server_lease_ns(config.server_lease_ns);
  message.set_starts(config.starts);
  return message.SerializeAsString();
}

bool decodeConfig(std::string_view bytes, StoredConfig& config) {
  state::Config message;
  if (!parse(bytes, message)) return false;
  config.server_lease_ns = message.server_lease_ns();
  config.starts = message.starts();
  return config.server_lease_ns > 0 && config.server_lease_ns <= kLeaseNsMax;
}

std::string encodeClientConfig(int64_t lease_ns) {
  state::ClientConfig message;
  message.set_lease_ns(lease_ns);
  return message.SerializeAsString();
}

bool decodeClientConfig(std::string_view bytes, int64_t& lease_ns) {
  state::ClientConfig message;
  if (!parse(bytes, message)) return false;
  lease_ns = message.lease_ns();
  return lease_ns > 0 && lease_ns <= kLeaseNsMax;
}

std::string encodeAllocator(uint64_t reserved_until) {
  state::Allocator message;
  message.set_reserved_until(reserved_until);
  return message.SerializeAsString();
}

bool decodeAllocator(std::string_view bytes, uint64_t& reserved_until) {
  state::Allocator message;
  if (!parse(bytes, message)) return false;
  reserved_until = message.reserved_until();
  return reserved_until != 0 && reserved_until <= kCountMax;
}

std::string encode(const StoredHistory& history) {
  state::History message;
  for (const StoredHistory::Start& start : history.starts) {
    state::Start& to = *message.add_starts();
    to.set_id(start.id);
    to.set_last_change(start.last_change);
    to.set_given_up(start.is_given_up);
  }
  message.set_last_forgotten_change(history.last_forgotten_change);
  for (const ChangeRef missing : history.missing) {
    state::Start& to = *message.add_missing();
    to.set_id(missing.start);
    to.set_last_change(missing.number);
  }
  return message.SerializeAsString();
}

bool decode(std::string_view bytes, StoredHistory& history) {
  state::History message;
  if (!parse(bytes, message)) return false;
  history = {};
  for (const state::Start& start : message.starts()) {
    if (start.id() == 0) return false;
    history.starts.push_back({.id = start.id(), .last_change = start.last_change(), .is_given_up = start.given_up()});
  }
  history.last_forgotten_change = message.last_forgotten_change();
  for (const state::Start& missing : message.missing()) {
    if (missing.id() == 0) return false;
    history.missing.push_back({.start = missing.id(), .number = missing.last_change()});
  }
  return true;
}

std::string encode(const Server& server) {
  state::Server message;
  message.set_id(server.id.value);
  for (const std::string& locator : server.locators) message.add_locators(locator);
  message.set_name(server.name);
  message.set_memory_bytes(server.memory_bytes);
  message.set_format_version(server.format_version);
  message.set_nonce(server.nonce);
  message.set_alive(server.alive);
  message.set_keeps_replicas(server.keeps_replicas);
  message.set_failure_domain(server.failure_domain);
  message.set_replicas(server.replicas);
  message.set_min_replicas(server.min_replicas);
  message.set_local_replica(server.local_replica);
  message.set_floor_segment(server.floor.segment.value);
  message.set_floor_epoch(server.floor.replica_epoch);
  message.set_recovered(server.recovered);
  message.set_returned(server.returned);
  message.set_former(server.former.value);
  message.set_storage(server.storage);
  const AcceptedLoss& loss = server.accepted_loss;
  message.set_loss_token(loss.token);
  message.set_loss_list(loss.list.value);
  for (const SegmentId segment : loss.whole) message.add_loss_whole(segment.value);
  for (const SegmentId segment : loss.in_part) message.add_loss_in_part(segment.value);
  for (const ReadSegment& read : server.read) {
    state::ReadSegment& to = *message.add_read();
    to.set_segment(read.segment.value);
    to.set_length_bytes(read.length_bytes);
  }
  return message.SerializeAsString();
}

bool decode(std::string_view bytes, Server& server) {
  state::Server message;
  if (!parse(bytes, message)) return false;
  server.id = ServerId(message.id());
  server.locators.assign(message.locators().begin(), message.locators().end());
  server.name = message.name();
  server.memory_bytes = message.memory_bytes();
  server.format_version = message.format_version();
  server.nonce = message.nonce();
  server.alive = message.alive();
  server.keeps_replicas = message.keeps_replicas();
  server.failure_domain = message.failure_domain();
  server.replicas = message.replicas();
  server.min_replicas = message.min_replicas();
  server.local_replica = message.local_replica();
  server.floor = {SegmentId(message.floor_segment()), message.floor_epoch()};
  server.recovered = message.recovered();
  server.returned = message.returned();
  server.former = ServerId(message.former());
  server.storage = message.storage();
  AcceptedLoss& loss = server.accepted_loss;
  loss = {.token = message.loss_token(), .list = SegmentId(message.loss_list()), .whole = {}, .in_part = {}};
  for (const uint64_t segment : message.loss_whole()) loss.whole.emplace_back(segment);
  for (const uint64_t segment : message.loss_in_part()) loss.in_part.emplace_back(segment);
  server.read.clear();
  for (const state::ReadSegment& read : message.read()) {
    server.read.push_back({.segment = SegmentId(read.segment()), .length_bytes = read.length_bytes()});
  }
  const bool is_dead_ones = server.recovered || server.returned || loss.token != 0 || !server.read.empty();
  return server.id != ServerId() && !(server.alive && is_dead_ones) && isInOrder(server.read);
}

std::string encode(const Table& table) {
  state::Table message;
  message.set_id(table.id.value);
  message.set_name(table.name);
  message.set_state(static_cast<state::TableState>(table.state));
  message.set_first_tablet(table.first_tablet.value);
  for (const ServerId owner : table.owners) message.add_owners(owner.value);
  for (const TabletEpoch epoch : table.epochs) message.add_epochs(epoch.value);
  message.set_nonce(table.nonce);
  message.set_durability(table.durability == Durability::Sync ? state::DURABILITY_SYNC : state::DURABILITY_BUFFERED);
  return message.SerializeAsString();
}

bool decode(std::string_view bytes, Table& table) {
  state::Table message;
  if (!parse(bytes, message)) return false;
  table.id = TableId(message.id());
  table.name = message.name();
  table.state = static_cast<TableState>(message.state());
  table.first_tablet = TabletId(message.first_tablet());
  table.owners.clear();
  table.epochs.clear();
  for (const uint64_t owner : message.owners()) table.owners.emplace_back(owner);
  for (const uint64_t epoch : message.epochs()) table.epochs.emplace_back(epoch);
  table.nonce = message.nonce();
  // A record without a level, as older versions wrote it, means buffered.
  table.durability = message.durability() == state::DURABILITY_SYNC ? Durability::Sync : Durability::Buffered;
  if (message.durability() != state::DURABILITY_BUFFERED && message.durability() != state::DURABILITY_SYNC)
    return false;
  return table.id != TableId() && message.state() >= state::TABLE_CREATING &&
         message.state() <= state::TABLE_DROPPING && table.owners.size() == table.epochs.size() &&
         std::all_of(table.epochs.begin(), table.epochs.end(),
                     [](TabletEpoch epoch) { return epoch != TabletEpoch() && epoch.value <= kCountMax; });
}

std::string encode(const Tablet& tablet) {
  state::Tablet message;
  message.set_id(tablet.id.value);
  message.set_table(tablet.table.value);
  message.set_first_hash(tablet.range.first);
  message.set_last_hash(tablet.range.last);
  message.set_epoch(tablet.epoch.value);
  message.set_last_epoch(tablet.last_epoch.value);
  message.set_state(static_cast<state::TabletState>(tablet.state));
  message.set_owner(tablet.owner.value);
  for (const LogRef& log : tablet.logs) {
    state::LogRef& to = *message.add_logs();
    to.set_server(log.server.value);
    to.set_first_segment(log.first_segment.value);
  }
  message.set_recovery_master(tablet.recovery_master.value);
  return message.SerializeAsString();
}

bool decode(std::string_view bytes, Tablet& tablet) {
  state::Tablet message;
  if (!parse(bytes, message)) return false;
  tablet.id = TabletId(message.id());
  tablet.table = TableId(message.table());
  tablet.range = {message.first_hash(), message.last_hash()};
  tablet.epoch = TabletEpoch(message.epoch());
  tablet.last_epoch = TabletEpoch(message.last_epoch());
  tablet.state = static_cast<TabletState>(message.state());
  tablet.owner = ServerId(message.owner());
  tablet.logs.clear();
  for (const state::LogRef& log : message.logs()) {
    tablet.logs.push_back({ServerId(log.server()), SegmentId(log.first_segment())});
  }
  tablet.recovery_master = ServerId(message.recovery_master());
  const bool is_recovering = tablet.state == TabletState::Recovering;
  if (is_recovering != (tablet.recovery_master != ServerId())) return false;
  return tablet.id != TabletId() && tablet.table != TableId() && tablet.range.first <= tablet.range.last &&
         tablet.epoch <= tablet.last_epoch && tablet.last_epoch.value <= kCountMax && tablet.epoch != TabletEpoch() &&
         tablet.owner != ServerId() && message.state() >= state::TABLET_NORMAL &&
         message.state() <= state::TABLET_TAKING;
}

std::string encode(const StoredClient& client) {
  state::Client message;
  message.set_id(client.id.value);
  message.set_nonce(client.nonce);
  return message.SerializeAsString();
}

bool decode(std::string_view bytes, StoredClient& client) {
  state::Client message;
  if (!parse(bytes, message)) return false;
  client.id = ClientId(message.id());
  client.nonce = message.nonce();
  return client.id != ClientId();
}

std::string encode(const Migration& migration) {
  state::Migration message;
  message.set_id(migration.id.value);
  message.set_tablet(migration.tablet.value);
  message.set_table(migration.table.value);
  message.set_source(migration.source.value);
  message.set_destination(migration.destination.value);
  message.set_source_epoch(migration.source_epoch.value);
  message.set_destination_epoch(migration.destination_epoch.value);
  message.set_step(static_cast<state::MigrationStep>(migration.step));
  message.set_cancelled(migration.cancelled);
  message.set_reason(migration.reason);
  message.set_objects(migration.objects);
  message.set_bytes(migration.bytes);
  message.set_destination_segment(migration.destination_segment.value);
  message.set_return_epoch(migration.return_epoch.value);
  message.set_rate_max(migration.rate_max);
  message.set_lacks_room(migration.lacks_room);
  return message.SerializeAsString();
}

bool decode(std::string_view bytes, Migration& migration) {
  state::Migration message;
  if (!parse(bytes, message)) return false;
  migration.id = MigrationId(message.id());
  migration.tablet = TabletId(message.tablet());
  migration.table = TableId(message.table());
  migration.source = ServerId(message.source());
  migration.destination = ServerId(message.destination());
  migration.source_epoch = TabletEpoch(message.source_epoch());
  migration.destination_epoch = TabletEpoch(message.destination_epoch());
  migration.step = static_cast<MigrationStep>(message.step());
  migration.cancelled = message.cancelled();
  migration.reason = message.reason();
  migration.objects = message.objects();
  migration.bytes = message.bytes();
  migration.destination_segment = SegmentId(message.destination_segment());
  migration.return_epoch = TabletEpoch(message.return_epoch());
  migration.rate_max = message.rate_max();
  migration.lacks_room = message.lacks_room();
  return migration.id != MigrationId() && migration.tablet != TabletId() && message.step() >= state::STEP_COPYING &&
         message.step() <= state::STEP_RETURNING;
}

std::string encode(const Split& split) {
  state::Split message;
  message.set_tablet(split.tablet.value);
  message.set_lower(split.lower.value);
  message.set_upper(split.upper.value);
  message.set_at_hash(split.at_hash);
  message.set_epoch(split.epoch.value);
  return message.SerializeAsString();
}

bool decode(std::string_view bytes, Split& split) {
  state::Split message;
  if (!parse(bytes, message)) return false;
  split.tablet = TabletId(message.tablet());
  split.lower = TabletId(message.lower());
  split.upper = TabletId(message.upper());
  split.at_hash = message.at_hash();
  split.epoch = TabletEpoch(message.epoch());
  return split.tablet != TabletId() && split.lower != TabletId() && split.upper != TabletId() &&
         split.lower != split.upper;
}

}  // namespace ramcore::coordinator
