#include "master/requests/master_service.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/mutation.h"
#include "base/point.h"
#include "store/durability.h"
#include "store/range_slice.h"

namespace ramcore::master {
namespace {

using rpc::Request;
using transport::TxMessage;
using wire::Opcode;

}  // namespace

struct MasterService::ReadKey {
  wire::Read::Request ask;
  ByteSpan key;
  KeyHash hash = 0;
  store::ObjectStore::ReadPermit permit;
};

MasterService::MasterService(const Parts& parts)
    : parts_(parts),
      replies_({parts.log, parts.pinned, parts.threads, parts.clock}),
      admission_(parts.link, parts.results, parts.clock),
      multi_({parts.store, parts.log, parts.tablets, parts.priority_pulls, parts.maintenance, parts.clock, replies_,
              admission_}),
      writes_without_room_(parts.dispatch, &MasterService::runAgain, this),
      removes_without_room_(parts.dispatch, &MasterService::runAgain, this),
      handed_over_(parts.dispatch, &MasterService::runAgain, this) {}

void MasterService::addTo(rpc::ServiceTable& table) {
  using transport::Role;
  const uint32_t clients = rpc::allow({Role::Client, Role::Admin, Role::Server});
  const auto shortRules = [&](size_t request_bytes) {
    return rpc::OpcodeRules{.roles = clients, .request_bytes_min = static_cast<uint32_t>(request_bytes)};
  };
  table.add<&MasterService::read>(Opcode::Read, *this, shortRules(sizeof(wire::Read::Request)));
  table.addBatch<&MasterService::readBatch>(Opcode::Read, *this);
  // A write of a value of up to this length runs on the dispatch thread; a longer one is worth a worker. (The log has a
  // bound of its own, 1 KB, up to which it copies a group under its lock: LogAppender.)
  constexpr uint32_t kInlineBytesMax = 16 * 1024;
  rpc::OpcodeRules write_rules = shortRules(sizeof(wire::Write::Request));
  write_rules.weigh = [](ByteSpan head) {
    return loadAs<wire::Write::Request>(head.data()).value_bytes <= kInlineBytesMax ? rpc::Weight::Short
                                                                                    : rpc::Weight::Long;
  };
  table.add<&MasterService::write>(Opcode::Write, *this, write_rules);
  table.addBatch<&MasterService::writeBatch>(Opcode::Write, *this);
  table.add<&MasterService::remove>(Opcode::Remove, *this, shortRules(sizeof(wire::Remove::Request)));
  table.add<&MasterService::increment>(Opcode::Increment, *this, shortRules(sizeof(wire::Increment::Request)));
  constexpr uint32_t kInlineCountMax = 16;
  rpc::OpcodeRules multi_read_rules = shortRules(sizeof(wire::MultiRead::Request));
  multi_read_rules.weigh = [](ByteSpan head) {
    return loadAs<wire::MultiRead::Request>(head.data()).count <= kInlineCountMax ? rpc::Weight::Short
                                                                                  : rpc::Weight::Long;
  };
  table.add<&MultiRequests::read>(Opcode::MultiRead, multi_, multi_read_rules);
  rpc::OpcodeRules multi_mutate_rules = shortRules(sizeof(wire::MultiMutate::Request));
  multi_mutate_rules.weight = rpc::Weight::Long;
  table.add<&MultiRequests::mutate>(Opcode::MultiMutate, multi_, multi_mutate_rules);
  rpc::OpcodeRules scan_rules = shortRules(sizeof(wire::Scan::Request));
  scan_rules.weight = rpc::Weight::Long;
  table.add<&MasterService::scan>(Opcode::Scan, *this, scan_rules);
  rpc::OpcodeRules ping_rules{.roles = rpc::allow({Role::Client, Role::Admin, Role::Server, Role::Coordinator})};
  ping_rules.any_target = true;
  table.add<&MasterService::ping>(Opcode::Ping, *this, ping_rules);
}

void MasterService::ping(Request request) { request.reply(Status::Ok); }

// ---- read

bool MasterService::decodeRead(const Request& request, ReadKey& out) const {
  const ByteSpan head = request.head();
  if (!request.read(out.ask) || out.ask.key_bytes == 0 || !request.message().tail().empty() ||
      head.size() != sizeof(out.ask) + out.ask.key_bytes) {
    return false;
  }
  out.key = head.subspan(sizeof(out.ask));
  out.hash = hashKey(out.ask.table, out.key);
  return true;
}

void MasterService::read(Request request) {
  ReadKey key;
  if (!decodeRead(request, key)) return replies_.refuse(std::move(request), Status::BadRequest);
  const Status status =
      parts_.store.checkRead(key.ask.table, key.hash, key.ask.epoch, replies_.freshNowNs(request), key.permit);
  if (status != Status::Ok) return refuse(std::move(request), status, key.ask.table, key.hash);
  answerRead(std::move(request), key, parts_.store.lookup(key.ask.table, key.hash, key.key).ref);
}

void MasterService::answerRead(Request request, const ReadKey& key, log::EntryRef ref) {
  wire::Read::Response header{.header = {.status = Status::NotFound}, .version = 0, .value_bytes = 0};
  if (!ref && !key.permit.has_arrived) return awaitArrival(std::move(request), key.ask.table, key.hash);
  if (!ref) return request.replyWith(header);
  if (const Status damage = store::damageOf(ref); damage != Status::Ok)
    return replies_.refuse(std::move(request), damage);
  const log::EntryView entry = parts_.store.entry(ref);
  if (key.permit.isOld(entry.version())) return awaitArrival(std::move(request), key.ask.table, key.hash);
  const store::ShowAfter show_after = store::ShowAfter::of(parts_.log, key.permit.level, ref);
  const bool is_object = entry.type() == log::EntryType::Object;
  const ByteSpan value = is_object ? entry.payload() : ByteSpan{};
  if (is_object) {
    header.header.status = Status::Ok;
    header.version = entry.version();
    header.value_bytes = static_cast<uint32_t>(value.size());
  }
  const size_t copied = value.size() < request.zeroCopyBytesMin() ? value.size() : 0;
  TxMessage response = request.allocate(static_cast<uint32_t>(sizeof(header) + copied));
  response.appendHead(header);
  if (!value.empty() && !replies_.appendValue(request, response, value))
    return replies_.refuse(std::move(request), Status::RetryLater);
  replies_.replyAfter(std::move(request), std::move(response), show_after);
}

void MasterService::readBatch(std::span<Request> requests) {
  constexpr size_t kBatchMax = 16;
  std::array<ReadKey, kBatchMax> keys;
  std::array<Request*, kBatchMax> owners;
  std::array<store::ObjectStore::Key, kBatchMax> wanted;
  std::array<KeyHash, kBatchMax> hashes;
  std::array<log::EntryRef, kBatchMax> found{};
  RC_CHECK(requests.size() <= kBatchMax);
  size_t count_valid = 0;
  for (Request& request : requests) {
    ReadKey& key = keys[count_valid];
    Status status = decodeRead(request, key) ? Status::Ok : Status::BadRequest;
    if (status == Status::Ok) {
      status = parts_.store.checkRead(key.ask.table, key.hash, key.ask.epoch, replies_.freshNowNs(request), key.permit);
    }
    if (status != Status::Ok) {
      refuse(std::move(request), status, key.ask.table, key.hash);
      continue;
    }
    wanted[count_valid] = {key.ask.table, key.key};
    hashes[count_valid] = key.hash;
    owners[count_valid++] = &request;
  }
  parts_.store.lookupBatch(std::span(wanted).first(count_valid), std::span(hashes).first(count_valid),
                           std::span(found).first(count_valid));
  for (size_t i = 0; i < count_valid; ++i) answerRead(std::move(*owners[i]), keys[i], found[i]);
}

// ---- mutations

/// Carries out writes that arrived together, with their cache misses overlapped. A write alone costs mostly two of
/// these, one of the index and one of the object that it replaces.
void MasterService::writeBatch(std::span<Request> requests) {
  constexpr size_t kBatchMax = 16;
  std::array<KeyHash, kBatchMax> hashes{};
  RC_CHECK(requests.size() <= kBatchMax);
  for (size_t i = 0; i < requests.size(); ++i) {
    const ByteSpan head = requests[i].head();
    const auto ask = loadAs<wire::Write::Request>(head.data());
    if (head.size() < sizeof(ask) + ask.key_bytes) continue;  // write() refuses it
    hashes[i] = hashKey(ask.table, head.subspan(sizeof(ask), ask.key_bytes));
    parts_.store.prefetch(hashes[i]);
  }
  for (size_t i = 0; i < requests.size(); ++i) parts_.store.prefetchEntry(hashes[i]);
  for (Request& request : requests) write(std::move(request));
}

void MasterService::write(Request request) {
  const ByteSpan head = request.head();
  wire::Write::Request ask;
  const bool removes = request.opcode() == Opcode::Remove;
  if (!request.read(ask) || ask.key_bytes == 0 || head.size() < sizeof(ask) + ask.key_bytes ||
      (removes && ask.value_bytes != 0) ||
      request.message().messageBytes() != sizeof(ask) + ask.key_bytes + uint64_t{ask.value_bytes}) {
    return replies_.refuse(std::move(request), Status::BadRequest);
  }
  if (ask.value_bytes > wire::kValueBytesMax) return replies_.refuse(std::move(request), Status::TooLarge);
  // The value is the rest of the head and the tail; it goes from there into the log, once.
  constexpr size_t kPiecesMax = 16;
  std::array<ByteSpan, kPiecesMax> value;
  size_t pieces = 0;
  const ByteSpan rest = head.subspan(sizeof(ask) + ask.key_bytes);
  if (!rest.empty()) value[pieces++] = rest;
  if (request.message().tail().size() > kPiecesMax - pieces)
    return replies_.refuse(std::move(request), Status::BadRequest);
  for (const ByteSpan& piece : request.message().tail()) value[pieces++] = piece;

  store::Mutation mutation{.opcode = request.opcode(),
                           .identity = ask.identity,
                           .epoch = ask.epoch,
                           .table = ask.table,
                           .key = head.subspan(sizeof(ask), ask.key_bytes),
                           .value = std::span(value).first(pieces),
                           .condition = ask.condition,
                           .condition_version = ask.condition_version};
  mutate(std::move(request), mutation);
}

void MasterService::increment(Request request) {
  const ByteSpan head = request.head();
  wire::Increment::Request ask;
  if (!request.read(ask) || ask.key_bytes == 0 || !request.message().tail().empty() ||
      head.size() != sizeof(ask) + ask.key_bytes) {
    return replies_.refuse(std::move(request), Status::BadRequest);
  }
  store::Mutation mutation{.opcode = Opcode::Increment,
                           .identity = ask.identity,
                           .epoch = ask.epoch,
                           .table = ask.table,
                           .key = head.subspan(sizeof(ask), ask.key_bytes),
                           .value = {},
                           .delta = ask.delta,
                           .condition = ask.condition,
                           .condition_version = ask.condition_version};
  mutate(std::move(request), mutation);
}

void MasterService::mutate(Request request, const store::Mutation& asked) {
  if (!asked.identity.client || !asked.identity.sequence)
    return replies_.refuse(std::move(request), Status::BadRequest);
  store::Mutation mutation = asked;
  mutation.hash = hashKey(mutation.table, mutation.key);
  const auto locking =
      replies_.waitsHere(request) ? store::ObjectStore::Locking::Wait : store::ObjectStore::Locking::Try;
  const auto answer = parts_.store.apply(mutation, locking);
  if (!answer) return request.dispatch().handToWorker(std::move(request));
  if (answer->status == Status::LeaseExpired) {
    // The client is new here. Its lease is confirmed and the request begins again, from the first check.
    confirmClientAndMutate(std::move(request), mutation).detach();
    return;
  }
  if (answer->awaits_arrival) return awaitArrival(std::move(request), mutation.table, mutation.hash);
  if (answer->status == Status::WrongServer) {
    return refuse(std::move(request), answer->status, mutation.table, mutation.hash);
  }
  answerMutation(std::move(request), mutation.opcode, *answer);
}

/// Refuses a request for one key. If the tablet was lent to another server, the client is told to which one, so that it
/// need not ask the coordinator: all clients of the tablet would ask at the same time.
void MasterService::refuse(Request request, Status status, TableId table, KeyHash hash) {
  const store::Tablet* const tablet = status == Status::WrongServer ? parts_.tablets.find(table, hash) : nullptr;
  if (tablet == nullptr || !tablet->lent_to) return replies_.refuse(std::move(request), status);
  const wire::MovedTo moved{.epoch = tablet->lent_to->epoch, .owner = tablet->lent_to->owner, .range = tablet->range};
  const wire::ResponseHeader header{.status = replies_.count(status)};
  TxMessage response = request.allocate(sizeof(header) + sizeof(moved));
  response.appendHead(header);
  response.appendHead(moved);
  request.reply(std::move(response));
}

// ---- keys that have not arrived

/// Has a call wait until its key has arrived from the server that had the tablet before; then it begins again from its
/// first check.
void MasterService::awaitArrival(Request request, TableId table, KeyHash hash) {
  const store::Tablet* const tablet = parts_.tablets.find(table, hash);
  const bool may_wait = tablet != nullptr && parts_.clock.nowNs() - request.arrivalNs() < PriorityPulls::kWaitNs;
  if (!may_wait) return replies_.refuse(std::move(request), Status::RetryLater);
  runWhenArrived(std::move(request), tablet->id, hash).detach();
}

runtime::Task<void> MasterService::runWhenArrived(Request request, TabletId tablet, KeyHash hash) {
  const Status status = co_await parts_.priority_pulls.wait(request.executor(), tablet, hash);
  if (status != Status::Ok) {
    replies_.refuse(std::move(request), status);
  } else if (request.opcode() == Opcode::Read) {
    read(std::move(request));
  } else {
    mutateAgain(std::move(request));
  }
}

runtime::Task<void> MasterService::confirmClientAndMutate(Request request, store::Mutation mutation) {
  const Status status = co_await admission_.confirm(request.executor(), mutation.identity.client);
  if (status != Status::Ok) {
    replies_.refuse(std::move(request), status);
    co_return;
  }
  mutateAgain(std::move(request));
}

/// Runs a mutation again, from the first check. The request still has its bytes, but the store::Mutation that was made
/// of them pointed into a stack frame that is gone.
void MasterService::mutateAgain(Request request) {
  if (request.opcode() == Opcode::Increment) {
    increment(std::move(request));
  } else {
    write(std::move(request));
  }
}

void MasterService::answerMutation(Request request, Opcode opcode, const store::Answer& answer) {
  if (answer.is_duplicate) replies_.countDuplicate();
  if (isRetryable(answer.status)) {
    if (answer.status == Status::NoSpace || answer.status == Status::RetryLater) parts_.maintenance.wake();
    RoomQueue& queue = opcode == Opcode::Remove ? removes_without_room_ : writes_without_room_;
    if (answer.lacks_room && queue.park(request)) {
      replies_.countWaitForRoom();
      return;
    }
    if (answer.awaits_hand_over && handed_over_.park(request)) {
      replies_.countWaitForHandOver();
      return;
    }
    return replies_.refuse(std::move(request), answer.status);
  }
  parts_.maintenance.afterMutations();
  TxMessage response = request.allocate(sizeof(wire::Increment::Response));
  if (opcode == Opcode::Increment) {
    response.appendHead(wire::Increment::Response{
        .header = {.status = answer.status}, .version = answer.version, .value = answer.value});
  } else {
    response.appendHead(wire::Write::Response{.header = {.status = answer.status}, .version = answer.version});
  }
  replies_.replyAfter(std::move(request), std::move(response), answer.show_after);
}

// ---- scan

void MasterService::scan(Request request) { scanPiece(std::move(request), {}); }

runtime::Task<void> MasterService::scanWhenArrived(Request request, TabletId tablet, KeyHash first) {
  const PriorityPulls::Piece piece = co_await parts_.priority_pulls.waitForPiece(request.executor(), tablet, first);
  if (piece.status != Status::Ok) {
    replies_.refuse(std::move(request), piece.status);
  } else {
    scanPiece(std::move(request), piece.last);
  }
}

/// The hashes of a tablet from `cursor` on that a scan may list: all, or those that have arrived.
/// @param piece_last  up to here they have arrived besides
std::optional<KeyHash> MasterService::lastToList(const store::Tablet& tablet, KeyHash cursor,
                                                 std::optional<KeyHash> piece_last) {
  if (tablet.arriving == nullptr || RC_MUTATION("scan-past-the-frontier")) return tablet.range.last;
  std::optional<KeyHash> last = tablet.arriving->lastFrom(cursor);
  // Once nothing arrives any more, a replay passes over all but what has come in the order of hashes.
  if (piece_last && !tablet.arriving->isClosed()) last = std::max(last.value_or(0), *piece_last);
  return last;
}

/// @param piece_last  from the cursor up to here everything has arrived
void MasterService::scanPiece(Request request, std::optional<KeyHash> piece_last) {
  wire::Scan::Request ask;
  if (!request.read(ask) || request.message().messageBytes() != sizeof(ask))
    return replies_.refuse(std::move(request), Status::BadRequest);
  const store::Tablet* tablet = nullptr;
  Status status = parts_.tablets.check(ask.table, ask.cursor, ask.epoch, store::Access::Read, tablet);
  if (status == Status::Ok && !parts_.lease.isValid(replies_.freshNowNs(request))) status = Status::LeaseUnknown;
  if (status != Status::Ok) return replies_.refuse(std::move(request), status);
  // Asked before the look at the index: what has arrived by now is found there.
  const std::optional<KeyHash> last = lastToList(*tablet, ask.cursor, piece_last);
  if (!last) {
    const bool may_wait = parts_.clock.nowNs() - request.arrivalNs() < PriorityPulls::kWaitNs;
    if (!may_wait) return replies_.refuse(std::move(request), Status::RetryLater);
    scanWhenArrived(std::move(request), tablet->id, ask.cursor).detach();
    return;
  }

  const bool lacks_some = tablet->arriving != nullptr && tablet->arriving->lost().hasAny({ask.cursor, *last});
  if (lacks_some) return replies_.refuse(std::move(request), Status::Corrupt);

  const uint64_t bytes_max = std::min<uint64_t>(request.responseBytesMax(), wire::kMessageBytesMax);
  store::RangeSlice slice{.objects = {}, .lost = {}, .bytes = sizeof(wire::Scan::Response), .next = {}};
  store::ShowAfter show_after;
  status = slice.fill(
      parts_.store, parts_.index, ask.table, {ask.cursor, *last},
      {.bytes_wanted = std::min<uint64_t>({ask.response_bytes, bytes_max, 4u << 20}), .bytes_max = bytes_max},
      [&](log::EntryRef ref) {
        const log::EntryView entry = parts_.store.entry(ref);
        return sizeof(wire::Scan::Part) + alignUp(uint64_t{entry.keyBytes()} + entry.payloadBytes(), 8);
      },
      [&](log::EntryRef ref) { show_after.add(store::ShowAfter::of(parts_.log, tablet->durability, ref)); });
  if (status != Status::Ok) return replies_.refuse(std::move(request), status);

  // What has not arrived is the next answer's.
  if (!slice.next && *last != tablet->range.last) slice.next = *last + 1;
  TxMessage response = request.allocate(slice.bytes);
  response.appendHead(wire::Scan::Response{.header = {.status = Status::Ok},
                                           .next_cursor = slice.next.value_or(0),
                                           .count = static_cast<uint32_t>(slice.objects.size()),
                                           .range_done = static_cast<uint8_t>(slice.next ? 0 : 1),
                                           .range_last = tablet->range.last});
  RC_POINT(Read);
  for (const log::EntryRef ref : slice.objects) {
    const log::EntryView entry = parts_.store.entry(ref);
    response.appendHead(wire::Scan::Part{.version = entry.version(),
                                         .value_bytes = entry.payloadBytes(),
                                         .key_bytes = static_cast<uint16_t>(entry.keyBytes())});
    response.appendHead(entry.key());
    response.appendHead(entry.payload());
    const auto content = entry.keyBytes() + entry.payloadBytes();
    const auto padding = static_cast<uint32_t>(alignUp(content, 8) - content);
    if (padding != 0) std::memset(response.extendHead(padding), 0, padding);
  }
  response->contiguous_bytes = sizeof(wire::Scan::Response);
  replies_.replyAfter(std::move(request), std::move(response), show_after);
}

}  // namespace ramcore::master
