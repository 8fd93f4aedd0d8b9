#pragma once

#include "base/bytes.h"
#include "base/ids.h"

/// The bytes of a segment, in memory and on backups. See docs/formats.md. A change here is a change of kSegmentFormat.
namespace ramcore::log {

inline constexpr uint32_t kSegmentFormat = 3;

inline constexpr uint32_t kKeyBytesMax = 65535;
inline constexpr uint32_t kPayloadBytesMax = (1u << 24) - 1;
/// Bytes from a segment's start that a position can name (see LogDurability::pack).
inline constexpr uint32_t kSegmentBytesMax = 128u << 20;
/// Entries of one atomic group.
inline constexpr uint32_t kGroupEntriesMax = 16;

/// What an entry is. Numbers are the disk format: never reused; 0 never occurs, so zeroed bytes are no entry.
enum class EntryType : uint8_t {
  Object = 1,         ///< key and value
  Tombstone = 2,      ///< key and version of an entry that died, and the segment it lay in
  SegmentHeader = 3,  ///< first entry of every segment (SegmentHeaderPayload)
  LogDigest = 4,      ///< second entry of every head: the members of the log (LogDigestPayload and ids)
  SafeVersion = 5,    ///< version floor and expiry clock floor (SafeVersionPayload)
  ResultRecord = 6,   ///< what a client's mutating call answered (ResultRecordPayload and result bytes)
};

inline constexpr uint8_t kTypeMask = 0x0f;
/// 19 bytes follow (CarriedResult): the result of the call that wrote this object. Copies that are made after the
/// client has acknowledged it omit it.
inline constexpr uint8_t kCarriesResult = 0x10;
inline constexpr uint8_t kHasExpiry = 0x20;  ///< 4 bytes of expiry follow the payload
/// 5 bytes follow the header: the segment in which the entry lay that died by this one. Every tombstone has it, and
/// every object that replaced another. It is of use while that segment is in the log; copies that are made later omit
/// it.
inline constexpr uint8_t kNamesSegment = 0x40;
inline constexpr uint8_t kGroupContinues = 0x80;  ///< another entry of the same atomic group follows

/// The one byte of an entry that changes in place. It is outside the checksum, so any two of its values differ in four
/// bits: a flipped bit turns none of them into another. A byte that is none of them means the same as Pending.
enum class EntryState : uint8_t {
  Pending = 0x00,
  Live = 0x0f,
  Superseded = 0x33,    ///< dead
  Freed = 0x3c,         ///< no lookup leads to it any more: one-sided readers refuse it; local readers that were led to
                        ///< it before, and the cleaner, ignore this
  Acknowledged = 0x66,  ///< alive, and the result that it carries is not needed any more
  Restoring = 0x55,     ///< damaged; its bytes are being fetched from a replica
  Damaged = 0x5a,       ///< damaged, and its right bytes cannot be obtained
};
constexpr bool isKnown(EntryState state) {
  switch (state) {
    case EntryState::Pending:
    case EntryState::Live:
    case EntryState::Superseded:
    case EntryState::Freed:
    case EntryState::Acknowledged:
    case EntryState::Restoring:
    case EntryState::Damaged:
      return true;
  }
  return false;
}
/// True if nothing else in the entry may be believed.
constexpr bool isDamaged(EntryState state) { return state == EntryState::Restoring || state == EntryState::Damaged; }
/// True if the entry is not, or may not be, what its key stands for: a one-sided reader turns away.
constexpr bool isRefused(EntryState state) {
  return state == EntryState::Superseded || state == EntryState::Freed || isDamaged(state);
}

/// Entries begin at multiples of 8 bytes; between them are zeros.
inline constexpr uint32_t kEntryAlignment = 8;

/// Header of every entry; (if flagged) the named segment, (if flagged) the carried result, key, payload and (if
/// flagged) expiry follow. Fields are bytes because the 22 bytes leave none of them aligned.
struct EntryHeader {
  uint8_t type;              ///< EntryType and flags
  uint8_t state;             ///< EntryState
  uint8_t key_bytes[2];      ///< 0 for entries without a key
  uint8_t payload_bytes[3];  ///< without key and expiry
  uint8_t table[4];          ///< TableId, 0 for entries of no table
  uint8_t crc[4];            ///< CRC32C over header without state and crc, then all that follows
  uint8_t version[7];        ///< of the object; in a tombstone: this version of the key and all before it are dead
};
static_assert(sizeof(EntryHeader) == 22 && Fixed<EntryHeader>);
static_assert(offsetof(EntryHeader, key_bytes) == 2 && offsetof(EntryHeader, payload_bytes) == 4);
static_assert(offsetof(EntryHeader, table) == 7 && offsetof(EntryHeader, crc) == 11);
static_assert(offsetof(EntryHeader, version) == 15);
inline constexpr uint32_t kEntryHeaderBytes = sizeof(EntryHeader);
inline constexpr uint32_t kExpiryBytes = 4;
inline constexpr uint32_t kNamedSegmentBytes = 5;
inline constexpr uint32_t kCarriedResultBytes = 19;
/// Ids of segments have 40 bits.
inline constexpr uint64_t kSegmentIdMax = (uint64_t{1} << 40) - 1;

struct SegmentHeaderPayload {
  ClusterId cluster;
  ServerId server;
  SegmentId segment;
  uint32_t format;    ///< kSegmentFormat
  uint32_t reserved;  ///< zero
};
static_assert(sizeof(SegmentHeaderPayload) == 32 && Fixed<SegmentHeaderPayload>);

/// Followed by `count` SegmentIds, ascending: every segment of the log when this one becomes its head, itself included.
struct LogDigestPayload {
  SegmentId previous_head;  ///< the only other segment that may still be open; none for a log's first segment
  uint32_t count;
  uint32_t reserved;  ///< zero
};
static_assert(sizeof(LogDigestPayload) == 16 && Fixed<LogDigestPayload>);

struct SafeVersionPayload {
  Version version;           ///< above every version of the keys that have left no trace in the log
  uint64_t expiry_clock_ms;  ///< wall clock that was shown to clients by an absence due to expiry
  constexpr bool operator==(const SafeVersionPayload&) const = default;
};
static_assert(sizeof(SafeVersionPayload) == 16 && Fixed<SafeVersionPayload>);

/// Followed by the bytes of a small result. Table and version are in the header.
struct ResultRecordPayload {
  ClientId client;
  Sequence sequence;
  Sequence acknowledged;  ///< the client has seen the results up to this one
  KeyHash key_hash;
  uint16_t opcode;
  uint16_t status;
  uint32_t reserved;  ///< zero
};
static_assert(sizeof(ResultRecordPayload) == 40 && Fixed<ResultRecordPayload>);

/// The identity of the call that wrote an object, in the object's own entry: client 8 bytes, sequence 6, the distance
/// of the sequence from what the client has acknowledged 4, opcode 1. Status (Ok), version, table, key and an
/// increment's value are the object's. It spares a ResultRecord of 72 bytes, which would be dead long before its object
/// and be cleaned with it.
struct CarriedResult {
  ClientId client;
  Sequence sequence;
  Sequence acknowledged;  ///< the client has seen the results up to this one: less than `sequence`
  uint8_t opcode = 0;

  static constexpr uint64_t kSequenceMax = (uint64_t{1} << 48) - 1;
  static constexpr uint64_t kAheadMax = UINT32_MAX;
  /// False: the call needs a ResultRecord.
  static constexpr bool canCarry(ClientId client, Sequence sequence, Sequence acknowledged) {
    return client && sequence > acknowledged && sequence.value <= kSequenceMax &&
           sequence.value - acknowledged.value <= kAheadMax;
  }
  constexpr bool operator==(const CarriedResult&) const = default;
};

/// Bytes of an entry in the log, without and with the zeros up to the next entry.
constexpr uint32_t entryBytes(uint32_t key_bytes, uint32_t payload_bytes, bool has_expiry, bool names_segment,
                              bool carries_result) {
  return kEntryHeaderBytes + (names_segment ? kNamedSegmentBytes : 0) + (carries_result ? kCarriedResultBytes : 0) +
         key_bytes + payload_bytes + (has_expiry ? kExpiryBytes : 0);
}
constexpr uint32_t alignedEntryBytes(uint32_t key_bytes, uint32_t payload_bytes, bool has_expiry,
                                     bool names_segment = false, bool carries_result = false) {
  return static_cast<uint32_t>(
      alignUp(entryBytes(key_bytes, payload_bytes, has_expiry, names_segment, carries_result), kEntryAlignment));
}
/// Never more than an object of the same key that names a segment.
constexpr uint32_t alignedTombstoneBytes(uint32_t key_bytes) { return alignedEntryBytes(key_bytes, 0, false, true); }

}  // namespace ramcore::log
