#include "master/migration/migration_source.h"

#include <algorithm>
#include <array>
#include <vector>

#include "log/format/entry_writer.h"
#include "store/range_slice.h"
#include "store/result_entry.h"
#include "wire/frame.h"
#include "wire/migration_messages.h"

namespace ramcore::master {
namespace {

using store::TabletState;

constexpr uint32_t kResponseBytesMax = 4u << 20;
// While clients have work for this server.
constexpr uint64_t kResponseBytesBusy = 20 * 1024;
/// Objects go without the results that they carry: those that are still needed go with pullResults.
constexpr log::Keep kKeep{.name = true, .result = false};

static_assert(store::CrowdedHashes::kMost <= wire::MeasureTablet::kCrowdedMax);

uint64_t bytesWanted(const rpc::Request& request, const wire::Pull::Request& ask) {
  return std::min({ask.response_bytes, request.responseBytesMax(), kResponseBytesMax});
}

}  // namespace

/// Entries that are sent from where they lie.
struct MigrationSource::Lent {
  std::array<transport::Chunk, transport::TxBuffer::kChunkCountMax> chunks;
  uint32_t count = 0;
  uint64_t bytes = 0;
};

void MigrationSource::addTo(rpc::ServiceTable& table) {
  const rpc::OpcodeRules rules{.roles = rpc::allow({transport::Role::Server}),
                               .request_bytes_min = sizeof(wire::Pull::Request),
                               .weight = rpc::Weight::Long};
  table.add<&MigrationSource::pull>(wire::Opcode::Pull, *this, rules);
  table.add<&MigrationSource::pullResults>(wire::Opcode::PullResults, *this, rules);
  const rpc::OpcodeRules hashes_rules{.roles = rpc::allow({transport::Role::Server}),
                                      .request_bytes_min = sizeof(wire::PullHashes::Request) + sizeof(KeyHash),
                                      .weight = rpc::Weight::Long};
  table.add<&MigrationSource::pullHashes>(wire::Opcode::PullHashes, *this, hashes_rules);
  const rpc::OpcodeRules measure_rules{.roles = rpc::allow({transport::Role::Server}),
                                       .request_bytes_min = sizeof(wire::MeasureTablet::Request),
                                       .weight = rpc::Weight::Long};
  table.add<&MigrationSource::measure>(wire::Opcode::MeasureTablet, *this, measure_rules);
  const rpc::OpcodeRules clients_rules{.roles = rpc::allow({transport::Role::Server}),
                                       .request_bytes_min = sizeof(wire::ListClients::Request),
                                       .weight = rpc::Weight::Long};
  table.add<&MigrationSource::listClients>(wire::Opcode::ListClients, *this, clients_rules);
}

Result<store::Tablet> MigrationSource::tabletIn(std::initializer_list<TabletState> states, TabletId id,
                                                TabletEpoch epoch) const {
  const auto tablet = parts_.tablets.get(id);
  if (!tablet) return Status::WrongServer;
  if (tablet->epoch != epoch) return Status::StaleEpoch;
  if (std::ranges::find(states, tablet->state) == states.end()) return Status::RetryLater;
  return *tablet;
}

/// Whether an object is what was written. In an open head nothing can be restored, so damage there is not marked: it is
/// met again when the head is closed.
bool MigrationSource::isSound(log::EntryRef ref) {
  log::Segment& segment = *parts_.log.pool().segmentOf(ref);
  uint32_t next = 0;
  if (segment.state() != log::SegmentState::Closed) return parts_.store.entry(ref).verify();
  return parts_.log.integrity().isSound(segment, segment.offsetOf(ref), next);
}

void MigrationSource::pull(rpc::Request request) {
  wire::Pull::Request ask;
  if (!request.read(ask) || request.message().messageBytes() != sizeof(ask)) return request.reply(Status::BadRequest);
  const Result<store::Tablet> tablet = tabletIn({TabletState::Lent}, ask.tablet, ask.epoch);
  if (!tablet.ok()) return request.reply(tablet.error());
  if (!tablet->range.contains(ask.cursor) || !tablet->range.contains(ask.last)) {
    return request.reply(Status::BadRequest);
  }

  const uint64_t bytes_max = std::min<uint64_t>(request.responseBytesMax(), wire::kMessageBytesMax);
  store::RangeSlice slice{.objects = {}, .lost = {}, .bytes = sizeof(wire::Pull::Response), .next = {}};
  const uint64_t bytes_wanted =
      std::min(bytesWanted(request, ask), activity_.isBusy() ? kResponseBytesBusy : UINT64_MAX);
  const Status filled = fill(*tablet, {ask.cursor, ask.last},
                             {.bytes_wanted = bytes_wanted,
                              .bytes_max = bytes_max,
                              .skips_lost = true,
                              .changes_after = tablet->changes_after},
                             slice);
  if (filled != Status::Ok) return request.reply(filled);
  const Lent lent = lend(request, slice, bytes_max);
  transport::TxMessage response = request.allocate(slice.bytes - lent.bytes);
  response.appendHead(wire::Pull::Response{
      .header = {.status = Status::Ok},
      .next_cursor = slice.next.value_or(0),
      .entry_bytes = static_cast<uint32_t>(slice.bytes - sizeof(wire::Pull::Response)),
      .entry_count =
          static_cast<uint32_t>(slice.objects.size() + slice.lost.size() + slice.removed.size() + lent.count),
      .done = static_cast<uint8_t>(slice.next ? 0 : 1)});
  append(response, slice, lent);
  response->contiguous_bytes = sizeof(wire::Pull::Response);
  request.reply(std::move(response));
}

/// Adds the objects of a part of a tablet to a slice, or what was changed here. The tablet is lent: what is here stays,
/// except that the cleaner moves it.
/// @return as RangeSlice::fill()
Status MigrationSource::fill(const store::Tablet& tablet, const HashRange& range,
                             const store::RangeSlice::Limits& limits, store::RangeSlice& slice) {
  bool is_sound = true;
  const auto sizeOf = [&](log::EntryRef ref) {
    is_sound = is_sound && isSound(ref);
    return is_sound ? uint64_t{parts_.store.entry(ref).copyBytes(kKeep)} : 0;
  };
  const Status filled =
      range.first == range.last || limits.changes_after != 0
          ? slice.fill(parts_.store, parts_.index, tablet.table, range, limits, sizeOf, [](log::EntryRef) {})
          : slice.fillByBuckets(parts_.store, parts_.index, tablet.table, range, limits, sizeOf);
  return is_sound ? filled : Status::RetryLater;
}

/// Takes long objects out of a slice, as many as one message can name, and lends them to it: copying them would cost
/// more than a pin. They go whole; the new owner leaves out the results that they carry.
/// @param slice  its bytes become those of the answer with them
MigrationSource::Lent MigrationSource::lend(const rpc::Request& request, store::RangeSlice& slice, uint64_t bytes_max) {
  Lent lent;
  std::erase_if(slice.objects, [&](log::EntryRef ref) {
    const log::EntryView entry = parts_.store.entry(ref);
    const uint64_t bytes = entry.alignedBytes();
    if (bytes < request.zeroCopyBytesMin() || lent.count == lent.chunks.size()) return false;
    const uint64_t bytes_in_all = slice.bytes + bytes - entry.copyBytes(kKeep);
    if (bytes_in_all > bytes_max) return false;
    const transport::Chunk chunk =
        parts_.pinned.borrow({entry.address(), bytes}, parts_.threads.pinSlotOf(request.executor()));
    if (chunk.address == nullptr) return false;
    lent.chunks[lent.count++] = chunk;
    lent.bytes += bytes;
    slice.bytes = bytes_in_all;
    return true;
  });
  return lent;
}

/// A key that is lost here goes as a tombstone with version 0. Tombstones of removed keys name a segment of this log,
/// which means nothing elsewhere.
void MigrationSource::append(transport::TxMessage& response, const store::RangeSlice& slice, const Lent& lent) const {
  for (const log::EntryRef ref : slice.objects) {
    const log::EntryView entry = parts_.store.entry(ref);
    log::copyEntry(response.extendHead(entry.copyBytes(kKeep)), entry, kKeep);
  }
  const auto appendTombstone = [&](log::EntryRef ref, Version version) {
    const log::EntryView entry = parts_.store.entry(ref);
    const SegmentId any(1);
    const log::EntryInput input{.type = log::EntryType::Tombstone,
                                .table = entry.table(),
                                .version = version,
                                .key = entry.key(),
                                .payload = {},
                                .anchor = any};
    log::writeEntry(response.extendHead(input.alignedBytes()), input, false, any);
  };
  for (const log::EntryRef ref : slice.lost) appendTombstone(ref, 0);
  for (const log::EntryRef ref : slice.removed) appendTombstone(ref, parts_.store.entry(ref).version());
  for (uint32_t i = 0; i < lent.count; ++i) response.appendChunk(lent.chunks[i]);
}

void MigrationSource::pullHashes(rpc::Request request) {
  wire::PullHashes::Request ask;
  const bool is_sound = request.read(ask) && request.message().tail().empty() &&
                        request.head().size() == sizeof(ask) + ask.count * sizeof(KeyHash);
  if (!is_sound) return request.reply(Status::BadRequest);
  const Result<store::Tablet> tablet = tabletIn({TabletState::Lent}, ask.tablet, ask.epoch);
  if (!tablet.ok()) return request.reply(tablet.error());

  // The objects of one hash fit into a message (ObjectStore::kKeysPerHashMax); of several, a part of one is enough.
  const uint64_t first_bytes_max = std::min<uint64_t>(request.responseBytesMax(), wire::kMessageBytesMax);
  const uint64_t next_bytes_max = std::min<uint64_t>(first_bytes_max, kResponseBytesMax);
  store::RangeSlice all{.objects = {}, .lost = {}, .bytes = sizeof(wire::PullHashes::Response), .next = {}};
  uint32_t answered = 0;
  KeyHash before = 0;
  for (; answered < ask.count; ++answered) {
    const auto hash = loadAs<KeyHash>(request.head().data() + sizeof(ask) + answered * sizeof(KeyHash));
    if (!tablet->range.contains(hash) || (answered != 0 && hash <= before)) return request.reply(Status::BadRequest);
    before = hash;
    store::RangeSlice slice{.objects = {}, .lost = {}, .bytes = all.bytes, .next = {}};
    const uint64_t bytes_max = answered == 0 ? first_bytes_max : next_bytes_max;
    const Status filled = fill(
        *tablet, {hash, hash},
        {.bytes_wanted = bytes_max, .bytes_max = bytes_max, .skips_lost = true, .changes_after = tablet->changes_after},
        slice);
    // What there is no room for is asked for again.
    if (filled == Status::TooLarge && answered != 0) break;
    if (filled != Status::Ok) return request.reply(filled);
    all.objects.insert(all.objects.end(), slice.objects.begin(), slice.objects.end());
    all.lost.insert(all.lost.end(), slice.lost.begin(), slice.lost.end());
    all.removed.insert(all.removed.end(), slice.removed.begin(), slice.removed.end());
    all.bytes = slice.bytes;
  }
  const Lent lent = lend(request, all, first_bytes_max);
  transport::TxMessage response = request.allocate(all.bytes - lent.bytes);
  response.appendHead(
      wire::PullHashes::Response{.header = {.status = Status::Ok},
                                 .count = answered,
                                 .entry_bytes = static_cast<uint32_t>(all.bytes - sizeof(wire::PullHashes::Response))});
  append(response, all, lent);
  response->contiguous_bytes = sizeof(wire::PullHashes::Response);
  request.reply(std::move(response));
}

/// Adds what objects take, from the cursor on: all of them, because the new owner refuses what it was not told of. Of a
/// tablet that is to be handed back, what was changed here.
Status MigrationSource::measureObjects(const store::Tablet& tablet, KeyHash cursor,
                                       wire::MeasureTablet::Response& sum) {
  const auto add = [&](uint64_t entry_bytes, uint64_t tombstone_bytes) {
    sum.object_bytes += entry_bytes;
    if (entry_bytes > parts_.log.config().smallEntryBytesMax()) sum.large_bytes += entry_bytes;
    sum.tombstone_bytes += tombstone_bytes;
  };
  // Where it goes back, an object replaces another one, and names where that lies.
  const bool names = tablet.arriving != nullptr;
  const auto sizeOf = [&](log::EntryRef ref) {
    const log::EntryView entry = parts_.store.entry(ref);
    add(log::alignedEntryBytes(entry.keyBytes(), entry.payloadBytes(), entry.hasExpiry(), names),
        log::alignedTombstoneBytes(entry.keyBytes()));
    return uint64_t{0};
  };
  // The objects take nothing in the answer. The slice ends when it has looked at many.
  store::RangeSlice slice{.objects = {}, .lost = {}, .bytes = 0, .next = {}};
  const HashRange range{cursor, tablet.range.last};
  const store::RangeSlice::Limits limits{.bytes_wanted = UINT64_MAX,
                                         .bytes_max = UINT64_MAX,
                                         .skips_lost = true,
                                         .changes_after = tablet.arriving ? tablet.arriving->ceiling() : 0};
  const Status filled =
      limits.changes_after != 0
          ? slice.fill(parts_.store, parts_.index, tablet.table, range, limits, sizeOf, [](log::EntryRef) {})
          : slice.fillByBuckets(parts_.store, parts_.index, tablet.table, range, limits, sizeOf);
  if (filled != Status::Ok) return filled;
  for (const log::EntryRef ref : slice.removed) {
    const uint64_t bytes = log::alignedTombstoneBytes(parts_.store.entry(ref).keyBytes());
    add(bytes, bytes);
  }
  // An object that is lost may be restored later. Nothing is known of it but its key.
  for (const log::EntryRef ref : slice.lost) {
    add(parts_.log.config().entry_bytes_max, log::alignedTombstoneBytes(parts_.store.entry(ref).keyBytes()));
  }
  sum.next_cursor = slice.next.value_or(0);
  sum.done = static_cast<uint8_t>(slice.next ? 0 : 1);
  return Status::Ok;
}

/// What was appended for tablets that this server owns: what arrives, or is brought back, is none of theirs. The new
/// owner takes the difference between its first look at objects and its last one at the rest, which must not be less
/// than it was.
uint64_t MigrationSource::appendedBytes(wire::MeasureTablet::Part part) const {
  const log::LogStats& stats = parts_.log.stats();
  const bool is_lower_bound = part == wire::MeasureTablet::Part::Objects;
  const auto load = [](const std::atomic<uint64_t>& bytes) { return bytes.load(std::memory_order_acquire); };
  const uint64_t first = load(is_lower_bound ? stats.appended_bytes : stats.side_bytes);
  const uint64_t second = load(is_lower_bound ? stats.side_bytes : stats.appended_bytes);
  const uint64_t appended = is_lower_bound ? first : second;
  const uint64_t side = is_lower_bound ? second : first;
  return appended - std::min(appended, side);
}

void MigrationSource::measure(rpc::Request request) {
  using Measure = wire::MeasureTablet;
  Measure::Request ask;
  if (!request.read(ask) || request.message().messageBytes() != sizeof(ask)) return request.reply(Status::BadRequest);
  const Result<store::Tablet> tablet =
      tabletIn({TabletState::Normal, TabletState::Arriving, TabletState::Frozen}, ask.tablet, ask.epoch);
  if (!tablet.ok()) return request.reply(tablet.error());
  // What is appended from here on may be missed by the look.
  Measure::Response sum{.header = {.status = Status::Ok},
                        .object_bytes = 0,
                        .large_bytes = 0,
                        .tombstone_bytes = 0,
                        .appended_bytes = appendedBytes(ask.part),
                        .next_cursor = 0,
                        .crowded_count = 0,
                        .done = 1};
  store::CrowdedHashes::List crowded;
  if (ask.part == Measure::Part::Objects) {
    if (!tablet->range.contains(ask.cursor)) return request.reply(Status::BadRequest);
    const Status measured = measureObjects(*tablet, ask.cursor, sum);
    if (measured != Status::Ok) return request.reply(measured);
  } else {
    crowded = parts_.store.crowdedHashes().list(tablet->table, tablet->range);
    sum.object_bytes =
        parts_.results.inRange(tablet->table, tablet->range).size() * uint64_t{store::ResultEntry::kAlignedBytes};
  }
  sum.crowded_count = crowded.are_all ? Measure::kCrowdedAll : static_cast<uint32_t>(crowded.hashes.size());
  const std::span<const std::byte> hashes = std::as_bytes(std::span(crowded.hashes));
  transport::TxMessage response = request.allocate(sizeof(sum) + hashes.size());
  response.appendHead(sum);
  response.appendHead(hashes);
  response->contiguous_bytes = sizeof(sum);
  request.reply(std::move(response));
}

void MigrationSource::listClients(rpc::Request request) {
  using wire::ListClients;
  ListClients::Request ask;
  if (!request.read(ask) || request.message().messageBytes() != sizeof(ask)) return request.reply(Status::BadRequest);
  const Result<store::Tablet> tablet =
      tabletIn({TabletState::Normal, TabletState::Arriving, TabletState::Frozen}, ask.tablet, ask.epoch);
  if (!tablet.ok()) return request.reply(tablet.error());
  // All of them have been silent since then.
  const std::vector<ClientId> clients = parts_.results.silentSince(INT64_MAX, ask.after, ListClients::kClientsMax);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(clients));
  transport::TxMessage response = request.allocate(sizeof(ListClients::Response) + bytes.size());
  response.appendHead(
      ListClients::Response{.header = {.status = Status::Ok}, .count = static_cast<uint32_t>(clients.size())});
  response.appendHead(bytes);
  response->contiguous_bytes = sizeof(ListClients::Response);
  request.reply(std::move(response));
}

void MigrationSource::pullResults(rpc::Request request) {
  wire::PullResults::Request ask;
  if (!request.read(ask) || request.message().messageBytes() != sizeof(ask)) return request.reply(Status::BadRequest);
  const Result<store::Tablet> tablet = tabletIn({TabletState::Frozen, TabletState::Lent}, ask.tablet, ask.epoch);
  if (!tablet.ok()) return request.reply(tablet.error());
  if (!tablet->range.contains(ask.cursor) || !tablet->range.contains(ask.last)) {
    return request.reply(Status::BadRequest);
  }
  // Records go while the tablet is frozen (their clients acknowledge them with other calls), so the cursor is a key
  // hash: a count would skip as many as have gone. Those of one hash stay together.
  std::vector<store::ResultTable::Record> records = parts_.results.inRange(tablet->table, {ask.cursor, ask.last});

  constexpr uint32_t kRecordBytes = store::ResultEntry::kAlignedBytes;
  size_t count = std::min<uint64_t>(records.size(), std::max<uint64_t>(1, bytesWanted(request, ask) / kRecordBytes));
  while (count != 0 && count < records.size() && records[count].result.key_hash == records[count - 1].result.key_hash) {
    ++count;
  }
  const bool done = count == records.size();
  const uint64_t bytes = sizeof(wire::Pull::Response) + count * uint64_t{kRecordBytes};
  // Hundreds of thousands of calls to one key that nobody has acknowledged: no honest clients do that.
  if (bytes > std::min<uint64_t>(request.responseBytesMax(), wire::kMessageBytesMax)) {
    return request.reply(Status::TooLarge);
  }
  transport::TxMessage response = request.allocate(bytes);
  response.appendHead(wire::PullResults::Response{.header = {.status = Status::Ok},
                                                  .next_cursor = done ? 0 : records[count].result.key_hash,
                                                  .entry_bytes = static_cast<uint32_t>(count * kRecordBytes),
                                                  .entry_count = static_cast<uint32_t>(count),
                                                  .done = static_cast<uint8_t>(done)});
  // The new owner takes the calls of a client fastest in the order in which they began.
  const std::span<store::ResultTable::Record> sent = std::span(records).first(count);
  std::ranges::sort(sent, {}, [](const auto& record) { return std::pair(record.client, record.sequence); });
  for (const store::ResultTable::Record& record : sent) {
    store::ResultEntry entry;
    log::writeEntry(response.extendHead(kRecordBytes), entry.assign(record), false, {});
  }
  response->contiguous_bytes = sizeof(wire::Pull::Response);
  request.reply(std::move(response));
}

}  // namespace ramcore::master
