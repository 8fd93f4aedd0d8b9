#pragma once

#include <array>
#include <span>

#include "log/format/entry_writer.h"
#include "log/memory/log_config.h"
#include "store/mutation.h"
#include "store/result_entry.h"

namespace ramcore::store {

/// Whether an object can be stored, with the additional bytes of an object that replaces another one and carries a
/// result.
inline bool objectFits(const log::LogConfig& config, uint64_t key_bytes, uint64_t value_bytes, bool has_expiry) {
  if (key_bytes > log::kKeyBytesMax || value_bytes > log::kPayloadBytesMax) return false;
  const uint32_t bytes = log::alignedEntryBytes(static_cast<uint32_t>(key_bytes), static_cast<uint32_t>(value_bytes),
                                                has_expiry, true, true);
  return bytes <= config.entry_bytes_max;
}

/// Builds one atomic group: the object, which carries its answer, or the tombstone and the record of the answer. If the
/// object that dies by it carries an answer, the group may also have a record of that one. Borrows everything that it
/// is given, and is not moved, because its entries refer to it.
class EntryGroup {
 public:
  EntryGroup() = default;
  EntryGroup(const EntryGroup&) = delete;
  EntryGroup& operator=(const EntryGroup&) = delete;

  /// @param dead  the object that it replaces; none if there is none
  void addObject(const Mutation& mutation, const Answer& answer, std::span<const ByteSpan> value, log::EntryRef dead) {
    const wire::CallIdentity& identity = mutation.identity;
    is_carried_ = log::CarriedResult::canCarry(identity.client, identity.sequence, identity.acknowledged);
    carried_ = {identity.client, identity.sequence, identity.acknowledged, static_cast<uint8_t>(mutation.opcode)};
    add({.type = log::EntryType::Object,
         .table = mutation.table,
         .version = answer.version,
         .key = mutation.key,
         .payload = value,
         .dead = dead,
         .result = is_carried_ ? &carried_ : nullptr});
  }
  void addTombstone(const log::EntryView& dead, log::EntryRef ref) {
    add({.type = log::EntryType::Tombstone,
         .table = dead.table(),
         .version = dead.version(),
         .key = dead.key(),
         .payload = {},
         .dead = ref});
  }
  /// A second tombstone for the same entry, which names an anchor.
  void addAnchored(const log::EntryView& dead, SegmentId anchor) {
    add({.type = log::EntryType::Tombstone,
         .table = dead.table(),
         .version = dead.version(),
         .key = dead.key(),
         .payload = {},
         .anchor = anchor});
  }
  void addResult(const Mutation& mutation, const Answer& answer) {
    const wire::CallIdentity& identity = mutation.identity;
    addResult({identity.client, identity.sequence, identity.acknowledged, resultOf(mutation, answer)});
  }
  void addResult(const ResultTable::Record& record) { add(results_[result_count_++].assign(record)); }
  static MutationResult resultOf(const Mutation& mutation, const Answer& answer) {
    return {.opcode = mutation.opcode,
            .status = answer.status,
            .version = answer.version,
            .value = answer.value,
            .table = mutation.table,
            .key_hash = mutation.hash};
  }
  std::span<const log::EntryInput> entries() const { return std::span(entries_).first(count_); }
  size_t size() const { return count_; }
  /// True: the object carries the answer, so the first entry is the one to refer to for it. False: the second entry is.
  bool isCarried() const { return is_carried_; }

 private:
  void add(const log::EntryInput& entry) { entries_[count_++] = entry; }

  std::array<log::EntryInput, 4> entries_;
  size_t count_ = 0;
  log::CarriedResult carried_;
  bool is_carried_ = false;
  std::array<ResultEntry, 2> results_;
  size_t result_count_ = 0;
};

}  // namespace ramcore::store
