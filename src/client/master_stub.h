#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ramcore/types.h"
#include "rpc/caller.h"
#include "rpc/message_cursor.h"
#include "wire/master_messages.h"

namespace ramcore::client {

/// A call on one object. Borrows key and value: they stay in place until the call is over.
struct PointRequest {
  wire::Opcode kind = wire::Opcode::Read;  ///< Read, Write, Remove or Increment
  TableId table;
  ByteSpan key;
  ByteSpan value = {};
  int64_t delta = 0;
  wire::Condition condition = wire::Condition::None;
  Version condition_version = 0;

  bool isMutation() const { return kind != wire::Opcode::Read; }
};

/// The outcome of a call on one object.
struct PointResult {
  Status status = Status::Ok;
  uint32_t retry_after_us = 0;
  Version version = 0;
  int64_t counter = 0;       ///< of an increment
  uint32_t value_bytes = 0;  ///< of a read; the value is in `message`
  /// True: `status` is Corrupt because the answer made no sense. False: a Corrupt is what the server says of the
  /// object.
  bool is_unreadable = false;
  std::optional<wire::MovedTo> moved;  ///< with WrongServer: who owns the tablet, as far as the server was told
  transport::RxMessage message;

  /// True if the outcome leaves open whether a mutation has happened or will happen.
  bool isUncertain() const { return is_unreadable || status == Status::OutcomeUnknown; }
  /// Replaces `out` by the value of a successful read.
  void takeValue(std::string& out) const;
  /// Copies the start of the value to `out`.
  void copyValue(MutableByteSpan out) const;
};

/// Checks the lengths of a key and a value; asked before anything is sent. Failure: BadRequest: the key is empty;
/// TooLarge.
Status checkLimits(size_t key_bytes, size_t value_bytes);

/// Encodes one attempt of a call.
/// @param identity  of mutations.
transport::TxMessage encodePoint(rpc::Caller& caller, const PointRequest& request, ServerId target, TabletEpoch epoch,
                                 const wire::CallIdentity& identity);

/// Checks and decodes the answer. `is_unreadable`: it makes no sense, so nothing is known about the call.
PointResult decodePoint(wire::Opcode kind, transport::RxMessage message);

/// A part of a multi-request and the item it belongs to.
struct MultiPart {
  uint32_t item = 0;   ///< index in the caller's items
  uint32_t owner = 0;  ///< TabletCache::Owner::number
  KeyHash hash = 0;
  TabletEpoch epoch;
  Sequence sequence;  ///< of mutations
  bool may_have_happened = false;
  bool is_stale = false;  ///< the coordinator has to be asked again where the tablet is
  Status last = Status::RetryLater;
};

/// Bytes of a part in a request, padding included.
uint32_t encodedBytes(const ReadItem& item);
uint32_t encodedBytes(const MutateItem& item);

/// Encodes one request with these parts.
/// @param part_bytes  sum of encodedBytes() of their items
transport::TxMessage encodeMultiRead(rpc::Caller& caller, ServerId target, std::span<const ReadItem> items,
                                     std::span<const MultiPart> parts, uint32_t part_bytes);
transport::TxMessage encodeMultiMutate(rpc::Caller& caller, ServerId target, ClientId client, Sequence acknowledged,
                                       std::span<const MutateItem> items, std::span<const MultiPart> parts,
                                       uint32_t part_bytes);

/// Decodes the answer into the items of `parts`. False if it makes no sense; items may then be half filled.
[[nodiscard]] bool decodeMultiRead(const transport::RxMessage& message, std::span<const MultiPart> parts,
                                   std::span<ReadItem> items);
[[nodiscard]] bool decodeMultiMutate(const transport::RxMessage& message, std::span<const MultiPart> parts,
                                     std::span<MutateItem> items);

transport::TxMessage encodeScan(rpc::Caller& caller, ServerId target, TableId table, TabletEpoch epoch, KeyHash cursor,
                                uint32_t response_bytes);

/// One decoded answer of a scan.
struct ScanAnswer {
  bool is_end = false;  ///< of the whole table
  KeyHash next_cursor = 0;
};
/// Replaces `objects` by those of the answer to a scan from `cursor`, keeping their memory. False if it makes no sense.
[[nodiscard]] bool decodeScan(const transport::RxMessage& message, TableId table, KeyHash cursor,
                              std::vector<Object>& objects, ScanAnswer& answer);

}  // namespace ramcore::client
