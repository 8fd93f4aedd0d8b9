#include "client/master_stub.h"

#include "base/hash.h"

namespace ramcore::client {
namespace {

using transport::RxMessage;
using transport::TxMessage;
using wire::RequestHeader;

void appendPadding(TxMessage& message, size_t item_bytes) {
  constexpr std::byte kZeros[8] = {};
  message.appendHead(ByteSpan(kZeros).first(alignUp(item_bytes, 8) - item_bytes));
}

// The receiver gets fixed struct and key in one piece, and a message that is not longer than a head as a whole.
void setContiguous(TxMessage& message, uint32_t wanted_bytes) {
  message->contiguous_bytes = message->head_bytes <= wire::kHeadBytesMax ? message->head_bytes : wanted_bytes;
}

bool isDefined(Status status) { return status == Status::Ok || name(status) != "Unknown"; }

// The outcome of an answer that has nothing behind its header, as each failure may.
PointResult bareResult(const wire::ResponseHeader& header) {
  PointResult result;
  result.is_unreadable = !isDefined(header.status);
  result.status = result.is_unreadable ? Status::Corrupt : header.status;
  result.retry_after_us = header.retry_after_us;
  return result;
}

PointResult corruptResult() {
  PointResult result;
  result.status = Status::Corrupt;
  result.is_unreadable = true;
  return result;
}

/// The outcome of an answer that has a hint behind its header, if it is one.
std::optional<PointResult> movedResult(const RxMessage& message, const wire::ResponseHeader& header) {
  if (header.status != Status::WrongServer || message.messageBytes() == sizeof(header)) return std::nullopt;
  PointResult result = bareResult(header);
  rpc::MessageCursor cursor(message);
  wire::MovedTo moved{};
  if (!cursor.skip(sizeof(header)) || !cursor.take(moved) || !cursor.atEnd()) return corruptResult();
  result.moved = moved;
  return result;
}

PointResult decodeRead(RxMessage message, const wire::ResponseHeader& header) {
  PointResult result = bareResult(header);
  wire::Read::Response response{.header = header, .version = 0, .value_bytes = 0};
  rpc::MessageCursor cursor(message);
  if (!cursor.take(response)) return result.status == Status::Ok ? corruptResult() : std::move(result);
  if (response.value_bytes != cursor.bytesLeft() || response.value_bytes > wire::kValueBytesMax ||
      (result.status != Status::Ok && response.value_bytes != 0) || response.version > kVersionMax) {
    return corruptResult();
  }
  result.version = response.version;
  result.value_bytes = response.value_bytes;
  result.message = std::move(message);
  return result;
}

template <typename Response>
PointResult decodeMutation(const RxMessage& message, const wire::ResponseHeader& header) {
  PointResult result = bareResult(header);
  Response response{};
  rpc::MessageCursor cursor(message);
  if (!cursor.take(response)) return result.status == Status::Ok ? corruptResult() : std::move(result);
  if (!cursor.atEnd() || response.version > kVersionMax) return corruptResult();
  result.version = response.version;
  if constexpr (requires { response.value; }) result.counter = response.value;
  return result;
}

}  // namespace

void PointResult::takeValue(std::string& out) const {
  rpc::MessageCursor cursor(message);
  const bool complete = cursor.skip(sizeof(wire::Read::Response)) && cursor.takeText(out, value_bytes);
  RC_CHECK(complete);  // decodePoint has compared the lengths
}

void PointResult::copyValue(MutableByteSpan out) const {
  rpc::MessageCursor cursor(message);
  const bool complete =
      cursor.skip(sizeof(wire::Read::Response)) && cursor.copy(out.data(), std::min<size_t>(value_bytes, out.size()));
  RC_CHECK(complete);
}

Status checkLimits(size_t key_bytes, size_t value_bytes) {
  if (key_bytes == 0) return Status::BadRequest;
  return key_bytes > wire::kKeyBytesMax || value_bytes > wire::kValueBytesMax ? Status::TooLarge : Status::Ok;
}

TxMessage encodePoint(rpc::Caller& caller, const PointRequest& request, ServerId target, TabletEpoch epoch,
                      const wire::CallIdentity& identity) {
  const auto key_bytes = static_cast<uint16_t>(request.key.size());
  const auto value_bytes = static_cast<uint32_t>(request.value.size());
  const RequestHeader header{.opcode = request.kind, .target = target};
  if (request.kind == wire::Opcode::Read) {
    TxMessage message = caller.allocate(static_cast<uint32_t>(sizeof(wire::Read::Request)) + key_bytes);
    message.appendHead(
        wire::Read::Request{.header = header, .epoch = epoch, .table = request.table, .key_bytes = key_bytes});
    message.appendHead(request.key);
    return message;
  }
  if (request.kind == wire::Opcode::Increment) {
    TxMessage message = caller.allocate(static_cast<uint32_t>(sizeof(wire::Increment::Request)) + key_bytes);
    message.appendHead(wire::Increment::Request{.header = header,
                                                .identity = identity,
                                                .epoch = epoch,
                                                .condition_version = request.condition_version,
                                                .delta = request.delta,
                                                .table = request.table,
                                                .key_bytes = key_bytes,
                                                .condition = request.condition});
    message.appendHead(request.key);
    return message;
  }
  const uint32_t head_bytes = static_cast<uint32_t>(sizeof(wire::Write::Request)) + key_bytes;
  TxMessage message = caller.allocate(head_bytes + value_bytes);
  message.appendHead(wire::Write::Request{.header = header,
                                          .identity = identity,
                                          .epoch = epoch,
                                          .condition_version = request.condition_version,
                                          .table = request.table,
                                          .value_bytes = value_bytes,
                                          .key_bytes = key_bytes,
                                          .condition = request.condition});
  message.appendHead(request.key);
  message.appendHead(request.value);
  setContiguous(message, head_bytes);
  return message;
}

PointResult decodePoint(wire::Opcode kind, RxMessage message) {
  wire::ResponseHeader header{.status = Status::Ok};
  if (!wire::decode(message.head(), header)) return corruptResult();
  if (auto moved = movedResult(message, header)) return std::move(*moved);
  if (kind == wire::Opcode::Read) return decodeRead(std::move(message), header);
  if (kind == wire::Opcode::Increment) return decodeMutation<wire::Increment::Response>(message, header);
  return decodeMutation<wire::Write::Response>(message, header);
}

// ---- multi-operations

uint32_t encodedBytes(const ReadItem& item) {
  return static_cast<uint32_t>(alignUp(sizeof(wire::MultiRead::RequestPart) + item.key.size(), 8));
}

uint32_t encodedBytes(const MutateItem& item) {
  return static_cast<uint32_t>(
      alignUp(sizeof(wire::MultiMutate::RequestPart) + item.key.size() + item.value.size(), 8));
}

TxMessage encodeMultiRead(rpc::Caller& caller, ServerId target, std::span<const ReadItem> items,
                          std::span<const MultiPart> parts, uint32_t part_bytes) {
  TxMessage message = caller.allocate(static_cast<uint32_t>(sizeof(wire::MultiRead::Request)) + part_bytes);
  message.appendHead(wire::MultiRead::Request{.header = {.opcode = wire::Opcode::MultiRead, .target = target},
                                              .count = static_cast<uint32_t>(parts.size())});
  for (const MultiPart& part : parts) {
    const ReadItem& item = items[part.item];
    message.appendHead(wire::MultiRead::RequestPart{
        .epoch = part.epoch, .table = TableId(item.table.id), .key_bytes = static_cast<uint16_t>(item.key.size())});
    message.appendHead(asBytes(item.key));
    appendPadding(message, sizeof(wire::MultiRead::RequestPart) + item.key.size());
  }
  setContiguous(message, sizeof(wire::MultiRead::Request));
  return message;
}

TxMessage encodeMultiMutate(rpc::Caller& caller, ServerId target, ClientId client, Sequence acknowledged,
                            std::span<const MutateItem> items, std::span<const MultiPart> parts, uint32_t part_bytes) {
  TxMessage message = caller.allocate(static_cast<uint32_t>(sizeof(wire::MultiMutate::Request)) + part_bytes);
  message.appendHead(wire::MultiMutate::Request{.header = {.opcode = wire::Opcode::MultiMutate, .target = target},
                                                .client = client,
                                                .acknowledged = acknowledged,
                                                .count = static_cast<uint32_t>(parts.size())});
  for (const MultiPart& part : parts) {
    const MutateItem& item = items[part.item];
    const bool is_write = item.kind == MutateItem::Kind::Write;
    const std::string_view value = is_write ? item.value : std::string_view();
    message.appendHead(wire::MultiMutate::RequestPart{
        .sequence = part.sequence,
        .epoch = part.epoch,
        .condition_version = item.condition.version(),
        .table = TableId(item.table.id),
        .value_bytes = static_cast<uint32_t>(value.size()),
        .key_bytes = static_cast<uint16_t>(item.key.size()),
        .kind = is_write ? wire::MultiMutate::Kind::Write : wire::MultiMutate::Kind::Remove,
        .condition = static_cast<wire::Condition>(item.condition.kind())});
    message.appendHead(asBytes(item.key));
    message.appendHead(asBytes(value));
    appendPadding(message, sizeof(wire::MultiMutate::RequestPart) + item.key.size() + value.size());
  }
  setContiguous(message, sizeof(wire::MultiMutate::Request));
  return message;
}

bool decodeMultiRead(const RxMessage& message, std::span<const MultiPart> parts, std::span<ReadItem> items) {
  using Response = wire::MultiRead::Response;
  using ResponsePart = wire::MultiRead::ResponsePart;
  // The sender cannot change the head any more, so the parts in it may be read twice.
  const ByteSpan head = message.head();
  const size_t head_bytes = sizeof(Response) + parts.size() * sizeof(ResponsePart);
  if (head.size() < head_bytes) return false;
  const auto response = loadAs<Response>(head.data());
  if (!response.isValid() || response.count != parts.size()) return false;
  const auto answerOf = [&](size_t i) {
    return loadAs<ResponsePart>(head.data() + sizeof(Response) + i * sizeof(ResponsePart));
  };
  uint64_t together_bytes = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const ResponsePart answer = answerOf(i);
    if (!answer.isValid() || answer.value_bytes > wire::kValueBytesMax || answer.version > kVersionMax ||
        !isDefined(answer.status) || (answer.status != Status::Ok && answer.value_bytes != 0)) {
      return false;
    }
    together_bytes += answer.is_apart == 0 ? answer.value_bytes : 0;
  }
  rpc::MessageCursor together(message);
  if (!together.skip(head_bytes)) return false;
  rpc::MessageCursor apart = together;
  if (!apart.skip(together_bytes)) return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const ResponsePart answer = answerOf(i);
    ReadItem& item = items[parts[i].item];
    if (!(answer.is_apart == 0 ? together : apart).takeText(item.value, answer.value_bytes)) return false;
    item.status = answer.status;
    item.version = answer.version;
  }
  return apart.atEnd();
}

bool decodeMultiMutate(const RxMessage& message, std::span<const MultiPart> parts, std::span<MutateItem> items) {
  rpc::MessageCursor cursor(message);
  wire::MultiMutate::Response response{.header = {.status = Status::Ok}, .count = 0};
  if (!cursor.take(response) || response.count != parts.size()) return false;
  if (cursor.bytesLeft() != parts.size() * sizeof(wire::MultiMutate::ResponsePart)) return false;
  for (const MultiPart& part : parts) {
    wire::MultiMutate::ResponsePart answer{.version = 0, .status = Status::Ok};
    if (!cursor.take(answer) || answer.version > kVersionMax || !isDefined(answer.status)) return false;
    items[part.item].status = answer.status;
    items[part.item].version = answer.version;
  }
  return true;
}

// ---- scan

TxMessage encodeScan(rpc::Caller& caller, ServerId target, TableId table, TabletEpoch epoch, KeyHash cursor,
                     uint32_t response_bytes) {
  TxMessage message = caller.allocate(sizeof(wire::Scan::Request));
  message.appendHead(wire::Scan::Request{.header = {.opcode = wire::Opcode::Scan, .target = target},
                                         .epoch = epoch,
                                         .cursor = cursor,
                                         .table = table,
                                         .response_bytes = response_bytes});
  return message;
}

bool decodeScan(const RxMessage& message, TableId table, KeyHash cursor, std::vector<Object>& objects,
                ScanAnswer& answer) {
  rpc::MessageCursor at(message);
  wire::Scan::Response response{};
  if (!at.take(response) || response.range_last < cursor) return false;
  if (response.count > at.bytesLeft() / sizeof(wire::Scan::Part)) return false;
  // The cursor has to move forward, and not beyond the tablet that answered: else a scan would repeat or skip keys.
  if (response.range_done == 0 && (response.next_cursor <= cursor || response.next_cursor > response.range_last)) {
    return false;
  }
  const KeyHash last = response.range_done == 1 ? response.range_last : response.next_cursor - 1;
  KeyHash previous = cursor;
  objects.resize(response.count);
  for (Object& object : objects) {
    wire::Scan::Part part{.version = 0, .value_bytes = 0, .key_bytes = 0};
    if (!at.take(part) || part.value_bytes > wire::kValueBytesMax || part.version > kVersionMax) return false;
    if (!at.takeText(object.key, part.key_bytes) || !at.takeText(object.value, part.value_bytes) ||
        !at.takePadding(part.key_bytes + part.value_bytes)) {
      return false;
    }
    object.version = part.version;
    const KeyHash hash = hashKey(table, asBytes(object.key));
    if (hash < previous || hash > last) return false;
    previous = hash;
  }
  answer.is_end = response.range_done == 1 && response.range_last == ~uint64_t{0};
  answer.next_cursor = response.range_done == 1 ? response.range_last + 1 : response.next_cursor;
  return at.atEnd();
}

}  // namespace ramcore::client
