#include "master/migration_source.h"

#include <algorithm>
#include <vector>

#include "log/entry_writer.h"
#include "wire/migration_messages.h"

namespace ramcore::master {
namespace {

constexpr uint32_t kResponseBytesMax = 4u << 20;

uint64_t bytesWanted(const rpc::Request& request, const wire::Pull::Request& ask) {
  return std::min({ask.response_bytes, request.responseBytesMax(), kResponseBytesMax});
}

}  // namespace

void MigrationSource::addTo(rpc::ServiceTable& table) {
  const rpc::OpcodeRules rules{.roles = rpc::allow({transport::Role::Server}),
                               .request_bytes_min = sizeof(wire::Pull::Request),
                               .weight = rpc::Weight::Long};
  table.add<&MigrationSource::pull>(wire::Opcode::Pull, *this, rules);
  table.add<&MigrationSource::pullResults>(wire::Opcode::PullResults, *this, rules);
}

Result<Tablet> MigrationSource::tabletOf(const rpc::Request& request, const wire::Pull::Request& ask) const {
  if (ask.reserved != 0 || request.message().messageBytes() != sizeof(ask)) return Status::BadRequest;
  const auto tablet = parts_.tablets.get(ask.tablet);
  if (!tablet) return Status::WrongServer;
  if (tablet->epoch != ask.epoch) return Status::StaleEpoch;
  if (tablet->state != TabletState::Frozen) return Status::RetryLater;
  return *tablet;
}

void MigrationSource::pull(rpc::Request request) {
  const auto ask = loadAs<wire::Pull::Request>(request.head().data());
  const Result<Tablet> tablet = tabletOf(request, ask);
  if (!tablet.ok()) return request.reply(tablet.error());
  if (!tablet->range.contains(ask.cursor)) return request.reply(Status::BadRequest);

  // The tablet is frozen and drained: what is here stays, except that the cleaner moves it.
  const uint64_t wanted = bytesWanted(request, ask);
  constexpr size_t kEntriesPerStep = 128;
  std::vector<index::IndexEntry> entries;
  std::vector<log::EntryRef> chosen;
  uint64_t entry_bytes = 0;
  std::optional<KeyHash> cursor = ask.cursor;
  // Entries of other tables lie in between: the work of one answer is bounded, and not only its length.
  constexpr size_t kEntriesPerAnswerMax = 16 * 1024;
  size_t entries_seen = 0;
  while (cursor && entry_bytes < wanted && entries_seen < kEntriesPerAnswerMax) {
    entries.clear();
    cursor = parts_.index.scan(
        *cursor, tablet->range.last, kEntriesPerStep, [this](log::EntryRef ref) { return parts_.store.hashOf(ref); },
        entries);
    entries_seen += entries.size();
    for (const index::IndexEntry& one : entries) {
      const log::EntryView entry = parts_.store.entry(one.ref);
      if (entry.table() != tablet->table || entry.type() != log::EntryType::Object) continue;
      chosen.push_back(one.ref);
      entry_bytes += entry.alignedBytes();
    }
  }
  const auto total = static_cast<uint32_t>(sizeof(wire::Pull::Response) + entry_bytes);
  transport::TxMessage response = request.allocate(total);
  response.appendHead(wire::Pull::Response{.header = {.status = Status::Ok},
                                           .next_cursor = cursor.value_or(0),
                                           .entry_bytes = static_cast<uint32_t>(entry_bytes),
                                           .entry_count = static_cast<uint32_t>(chosen.size()),
                                           .done = static_cast<uint8_t>(cursor ? 0 : 1),
                                           .safe_version = parts_.store.safeVersionNow()});
  for (const log::EntryRef ref : chosen) {
    const log::EntryView entry = parts_.store.entry(ref);
    log::copyEntry(response.extendHead(entry.alignedBytes()), entry);
  }
  response->contiguous_bytes = sizeof(wire::Pull::Response);
  request.reply(std::move(response));
}

void MigrationSource::pullResults(rpc::Request request) {
  const auto ask = loadAs<wire::PullResults::Request>(request.head().data());
  const Result<Tablet> tablet = tabletOf(request, ask);
  if (!tablet.ok()) return request.reply(tablet.error());
  if (!tablet->range.contains(ask.cursor)) return request.reply(Status::BadRequest);
  // Records go while the tablet is frozen (their clients acknowledge them with other calls), so the cursor is a key
  // hash: a count would skip as many as have gone. Those of one hash stay together.
  const std::vector<ResultTable::Record> records =
      parts_.results.inRange(tablet->table, {ask.cursor, tablet->range.last});

  constexpr uint32_t kRecordBytes =
      log::alignedEntryBytes(0, sizeof(log::ResultRecordPayload) + sizeof(int64_t), false);
  size_t count = std::min<uint64_t>(records.size(), std::max<uint64_t>(1, bytesWanted(request, ask) / kRecordBytes));
  while (count != 0 && count < records.size() && records[count].result.key_hash == records[count - 1].result.key_hash) {
    ++count;
  }
  const bool done = count == records.size();
  transport::TxMessage response =
      request.allocate(static_cast<uint32_t>(sizeof(wire::Pull::Response) + count * kRecordBytes));
  response.appendHead(wire::PullResults::Response{.header = {.status = Status::Ok},
                                                  .next_cursor = done ? 0 : records[count].result.key_hash,
                                                  .entry_bytes = static_cast<uint32_t>(count * kRecordBytes),
                                                  .entry_count = static_cast<uint32_t>(count),
                                                  .done = static_cast<uint8_t>(done),
                                                  .safe_version = parts_.store.safeVersionNow()});
  for (const ResultTable::Record& record : std::span(records).first(count)) {
    const log::ResultRecordPayload payload{.client = record.client,
                                           .sequence = record.sequence,
                                           .acknowledged = record.acknowledged,
                                           .key_hash = record.result.key_hash,
                                           .opcode = static_cast<uint16_t>(record.result.opcode),
                                           .status = static_cast<uint16_t>(record.result.status),
                                           .reserved = 0};
    const std::array<ByteSpan, 2> pieces = {bytesOf(payload), bytesOf(record.result.value)};
    const log::EntryInput input{.type = log::EntryType::ResultRecord,
                                .table = record.result.table,
                                .version = record.result.version,
                                .key = {},
                                .payload = pieces};
    log::writeEntry(response.extendHead(kRecordBytes), input, false, {});
  }
  response->contiguous_bytes = sizeof(wire::Pull::Response);
  request.reply(std::move(response));
}

}  // namespace ramcore::master
