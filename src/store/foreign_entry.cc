#include "store/foreign_entry.h"

#include "base/hash.h"
#include "base/status.h"
#include "wire/opcodes.h"

namespace ramcore::store {
namespace {

// Whether a master can have logged this as the answer to a mutation. A repeated call gets this answer as it is.
bool isResult(const log::ResultRecordPayload& record) {
  if (!record.client || record.sequence <= record.acknowledged) return false;
  switch (static_cast<wire::Opcode>(record.opcode)) {
    case wire::Opcode::Write:
    case wire::Opcode::Remove:
    case wire::Opcode::Increment:
      break;
    default:
      return false;
  }
  switch (static_cast<Status>(record.status)) {
    case Status::Ok:
    case Status::NotFound:
    case Status::ObjectExists:
    case Status::WrongVersion:
    case Status::TypeMismatch:
      return true;
    default:
      return false;
  }
}

// As isResult(), for the result that an object carries.
bool isCarried(const log::EntryView& object) {
  switch (static_cast<wire::Opcode>(object.carriedResult().opcode)) {
    case wire::Opcode::Write:
      return true;
    case wire::Opcode::Increment:
      return object.payloadBytes() == sizeof(int64_t);
    default:
      return false;
  }
}

}  // namespace

std::optional<KeyHash> hashOfForeign(const log::EntryView& entry) {
  if (!entry.table() || entry.version() > kForeignVersionMax) return std::nullopt;
  switch (entry.type()) {
    case log::EntryType::Object:
      if (entry.carriesResult() && !isCarried(entry)) return std::nullopt;
      [[fallthrough]];
    case log::EntryType::Tombstone:
      return hashKey(entry.table(), entry.key());
    case log::EntryType::ResultRecord: {
      const auto record = entry.payloadAs<log::ResultRecordPayload>();
      if (!isResult(record)) return std::nullopt;
      return record.key_hash;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace ramcore::store
