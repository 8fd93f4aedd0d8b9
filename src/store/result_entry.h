#pragma once

#include <array>

#include "log/format/entry_writer.h"
#include "log/format/segment_format.h"
#include "store/result_table.h"

namespace ramcore::store {

/// Makes the record of an answer an entry of the log. The entry borrows from this object, so it must not outlive it.
class ResultEntry {
 public:
  static constexpr uint32_t kAlignedBytes =
      log::alignedEntryBytes(0, sizeof(log::ResultRecordPayload) + sizeof(int64_t), false);

  ResultEntry() = default;
  ResultEntry(const ResultEntry&) = delete;
  ResultEntry& operator=(const ResultEntry&) = delete;

  log::EntryInput assign(const ResultTable::Record& record) {
    payload_ = {.client = record.client,
                .sequence = record.sequence,
                .acknowledged = record.acknowledged,
                .key_hash = record.result.key_hash,
                .opcode = static_cast<uint16_t>(record.result.opcode),
                .status = static_cast<uint16_t>(record.result.status),
                .reserved = 0};
    value_ = record.result.value;
    pieces_ = {bytesOf(payload_), bytesOf(value_)};
    return {.type = log::EntryType::ResultRecord,
            .table = record.result.table,
            .version = record.result.version,
            .key = {},
            .payload = pieces_};
  }

 private:
  log::ResultRecordPayload payload_;
  int64_t value_ = 0;
  std::array<ByteSpan, 2> pieces_;
};

}  // namespace ramcore::store
