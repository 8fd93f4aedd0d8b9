#include "master/requests/multi_requests.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/point.h"
#include "store/durability.h"

namespace ramcore::master {
namespace {

using rpc::Request;
using transport::TxMessage;
using wire::Opcode;

/// One key of a multi-read.
struct ReadPart {
  store::ObjectStore::Key key;
  KeyHash hash = 0;
  TabletEpoch epoch;
  Status status = Status::Ok;
  store::ObjectStore::ReadPermit permit;
  bool is_apart = false;  ///< its value is borrowed
  log::EntryRef ref;
};
/// The values of an answer that are sent from where they lie in the log.
struct BorrowedParts {
  std::array<transport::Chunk, transport::TxBuffer::kChunkCountMax> chunks;
  uint32_t count = 0;
  uint64_t bytes = 0;
};
/// One call of a multi-write or multi-remove.
struct MutationPart {
  store::Mutation mutation;
  ByteSpan value;
  store::Answer answer;
};

// How many keys are looked up together. Requests with no more keys may run on the dispatch thread, and their parts lie
// on the stack; those with more run on a worker and may allocate.
constexpr size_t kBatchMax = 16;

// False: the request is malformed.
bool decode(wire::Cursor cursor, std::span<ReadPart> parts) {
  for (ReadPart& part : parts) {
    wire::MultiRead::RequestPart header;
    ByteSpan key;
    if (!cursor.take(header) || header.key_bytes == 0 || !cursor.takeBytes(header.key_bytes, key) ||
        !cursor.takePadding(header.key_bytes)) {
      return false;
    }
    part.key = {header.table, key};
    part.hash = hashKey(header.table, key);
    part.epoch = header.epoch;
  }
  return cursor.atEnd();
}

void lookUp(store::ObjectStore& store, std::span<ReadPart> batch) {
  std::array<store::ObjectStore::Key, kBatchMax> keys;
  std::array<KeyHash, kBatchMax> hashes;
  std::array<log::EntryRef, kBatchMax> refs{};
  for (size_t i = 0; i < batch.size(); ++i) {
    keys[i] = batch[i].key;
    hashes[i] = batch[i].hash;
  }
  store.lookupBatch(std::span(keys).first(batch.size()), std::span(hashes).first(batch.size()),
                    std::span(refs).first(batch.size()));
  for (size_t i = 0; i < batch.size(); ++i) {
    const Status damage = store::damageOf(refs[i]);
    if (damage == Status::Ok) {
      batch[i].ref = refs[i];
    } else if (batch[i].status == Status::Ok) {
      batch[i].status = damage;
    }
  }
}

/// The keys of tablets that are Arriving. Allocates only if there are some.
struct Arrivals {
  std::vector<PriorityPulls::Wanted> wanted;   // their contents are still at another server
  std::vector<PriorityPulls::Wanted> arrived;  // and of these not
};

// Whether the index says what the key is.
bool isFound(const store::ObjectStore& store, const ReadPart& part) {
  return part.ref && !part.permit.isOld(store.entry(part.ref).version());
}

// Those that are not in the index.
Arrivals arrivalsOf(const store::ObjectStore& store, const store::TabletTable& tablets,
                    std::span<const ReadPart> parts) {
  Arrivals arrivals;
  for (const ReadPart& part : parts) {
    if (part.status != Status::Ok || isFound(store, part)) continue;
    const store::Tablet* const tablet = tablets.find(part.key.table, part.hash);
    if (tablet == nullptr || tablet->arriving == nullptr) continue;
    (part.permit.has_arrived ? arrivals.arrived : arrivals.wanted).push_back({tablet->id, part.hash});
  }
  return arrivals;
}

Arrivals arrivalsOf(const store::TabletTable& tablets, std::span<const MutationPart> parts) {
  Arrivals arrivals;
  for (const MutationPart& part : parts) {
    const store::Mutation& mutation = part.mutation;
    const store::Tablet* const tablet = tablets.find(mutation.table, mutation.hash);
    const bool is_arriving = tablet != nullptr && tablet->arriving != nullptr && part.answer.status == Status::Ok;
    if (!is_arriving) continue;
    const bool has_arrived = tablet->hasArrived(mutation.hash);
    if (!has_arrived && mutation.isBlind() && tablet->arriving->hasOneKeyAtMost(mutation.hash)) continue;
    (has_arrived ? arrivals.arrived : arrivals.wanted).push_back({tablet->id, mutation.hash});
  }
  return arrivals;
}

// Whether a key has arrived for which this request has waited (`arrived`, ascending). A tablet that is Arriving
// remembers only some of the hashes that were asked for, so keys of one request may make it forget each other.
bool isAmong(std::span<const PriorityPulls::Wanted> arrived, const store::TabletTable& tablets, TableId table,
             KeyHash hash) {
  const store::Tablet* const tablet = arrived.empty() ? nullptr : tablets.find(table, hash);
  return tablet != nullptr && std::ranges::binary_search(arrived, PriorityPulls::Wanted{tablet->id, hash});
}

// Makes `status` of the parts what is to be answered, and gives the bytes of the whole answer. A value for which there
// is no room is left out.
uint64_t fit(store::ObjectStore& store, std::span<ReadPart> parts, uint64_t bytes_max) {
  // Room for the headers of all parts is kept.
  uint64_t bytes = sizeof(wire::MultiRead::Response) + parts.size() * sizeof(wire::MultiRead::ResponsePart);
  for (ReadPart& part : parts) {
    if (part.status != Status::Ok) continue;
    const bool is_found = isFound(store, part);
    const log::EntryView entry = is_found ? store.entry(part.ref) : log::EntryView();
    if (!is_found || entry.type() != log::EntryType::Object) {
      const bool is_known = is_found || part.permit.has_arrived;
      part.status = is_known ? Status::NotFound : part.permit.is_lost ? Status::Corrupt : Status::RetryLater;
      continue;
    }
    const uint64_t value_bytes = entry.payloadBytes();
    if (bytes + value_bytes > bytes_max) {
      // A value that would not fit alone will not fit when it is asked for again.
      constexpr uint64_t kAloneBytes = sizeof(wire::MultiRead::Response) + sizeof(wire::MultiRead::ResponsePart);
      part.status = kAloneBytes + value_bytes > bytes_max ? Status::TooLarge : Status::RetryLater;
      continue;
    }
    bytes += value_bytes;
  }
  return bytes;
}

// Borrows the long values, as many as there is room for.
BorrowedParts borrow(store::ObjectStore& store, ClientReplies& replies, const Request& request,
                     std::span<ReadPart> parts) {
  BorrowedParts borrowed;
  for (ReadPart& part : parts) {
    if (part.status != Status::Ok || borrowed.count == borrowed.chunks.size()) continue;
    const ByteSpan value = store.entry(part.ref).payload();
    if (value.size() < request.zeroCopyBytesMin()) continue;
    const transport::Chunk chunk = replies.borrow(request, value);
    if (chunk.address == nullptr) break;
    part.is_apart = true;
    borrowed.chunks[borrowed.count++] = chunk;
    borrowed.bytes += chunk.bytes;
  }
  return borrowed;
}

// Small values are copied together: many of them cost more as descriptors than as bytes. So are values for which there
// is no descriptor left, or no more may be borrowed.
void append(TxMessage& response, store::ObjectStore& store, std::span<const ReadPart> parts,
            const BorrowedParts& borrowed) {
  response.appendHead(
      wire::MultiRead::Response{.header = {.status = Status::Ok}, .count = static_cast<uint32_t>(parts.size())});
  for (const ReadPart& part : parts) {
    const bool has_value = part.status == Status::Ok;
    const log::EntryView entry = has_value ? store.entry(part.ref) : log::EntryView();
    response.appendHead(wire::MultiRead::ResponsePart{.version = has_value ? entry.version() : 0,
                                                      .value_bytes = has_value ? entry.payloadBytes() : 0,
                                                      .status = part.status,
                                                      .is_apart = part.is_apart ? uint16_t{1} : uint16_t{0}});
  }
  response->contiguous_bytes = response->head_bytes;
  for (const ReadPart& part : parts) {
    if (part.status == Status::Ok && !part.is_apart) response.appendHead(store.entry(part.ref).payload());
  }
  for (uint32_t i = 0; i < borrowed.count; ++i) response.appendChunk(borrowed.chunks[i]);
}

// False: the part is malformed.
bool decode(wire::Cursor& cursor, const wire::MultiMutate::Request& ask, MutationPart& part) {
  wire::MultiMutate::RequestPart header;
  store::Mutation& mutation = part.mutation;
  if (!cursor.take(header) || header.key_bytes == 0 || header.sequence.value == 0 ||
      !cursor.takeBytes(header.key_bytes, mutation.key) || !cursor.takeBytes(header.value_bytes, part.value) ||
      !cursor.takePadding(size_t{header.key_bytes} + header.value_bytes)) {
    return false;
  }
  const bool removes = header.kind == wire::MultiMutate::Kind::Remove;
  if (removes && header.value_bytes != 0) return false;
  mutation.opcode = removes ? Opcode::Remove : Opcode::Write;
  mutation.identity = {ask.client, header.sequence, ask.acknowledged};
  mutation.epoch = header.epoch;
  mutation.table = header.table;
  mutation.condition = header.condition;
  mutation.condition_version = header.condition_version;
  mutation.hash = hashKey(header.table, mutation.key);
  mutation.value = std::span(&part.value, removes || header.value_bytes == 0 ? 0 : 1);
  if (header.value_bytes > wire::kValueBytesMax) part.answer.status = Status::TooLarge;
  return true;
}

bool decode(wire::Cursor cursor, const wire::MultiMutate::Request& ask, std::span<MutationPart> parts) {
  return std::all_of(parts.begin(), parts.end(), [&](MutationPart& part) { return decode(cursor, ask, part); }) &&
         cursor.atEnd();
}

void append(TxMessage& response, std::span<const MutationPart> parts) {
  response.appendHead(
      wire::MultiMutate::Response{.header = {.status = Status::Ok}, .count = static_cast<uint32_t>(parts.size())});
  for (const MutationPart& part : parts) {
    response.appendHead(wire::MultiMutate::ResponsePart{.version = part.answer.version, .status = part.answer.status});
  }
  response->contiguous_bytes = sizeof(wire::MultiMutate::Response);
}

}  // namespace

void MultiRequests::read(Request request) {
  const bool may_wait = parts_.clock.nowNs() - request.arrivalNs() < PriorityPulls::kWaitNs;
  readNow(std::move(request), may_wait, {});
}

runtime::Task<void> MultiRequests::readWhenArrived(Request request, std::vector<PriorityPulls::Wanted> wanted,
                                                   std::vector<PriorityPulls::Wanted> arrived) {
  const Status status = co_await parts_.priority_pulls.waitForAll(request.executor(), wanted);
  // What has not come gets its own status.
  const bool has_come = status == Status::Ok;
  const bool may_wait = has_come && parts_.clock.nowNs() - request.arrivalNs() < PriorityPulls::kWaitNs;
  if (has_come) arrived.insert(arrived.end(), wanted.begin(), wanted.end());
  std::ranges::sort(arrived);
  readNow(std::move(request), may_wait, arrived);
}

/// @param arrived  keys that were seen to have arrived, ascending
void MultiRequests::readNow(Request request, bool may_wait, std::span<const PriorityPulls::Wanted> arrived) {
  wire::MultiRead::Request ask;
  // Checked before anything is allocated for the count, which a peer may have made up.
  if (!request.read(ask) || ask.count == 0 || ask.count > wire::kMultiCountMax || !request.message().tail().empty() ||
      request.head().size() - sizeof(ask) < uint64_t{ask.count} * (sizeof(wire::MultiRead::RequestPart) + 8)) {
    return parts_.replies.refuse(std::move(request), Status::BadRequest);
  }
  std::array<ReadPart, kBatchMax> few;
  std::vector<ReadPart> many;
  if (ask.count > kBatchMax) many.resize(ask.count);
  const std::span<ReadPart> parts = ask.count > kBatchMax ? std::span<ReadPart>(many) : std::span(few).first(ask.count);
  if (!decode(wire::Cursor(request.head().subspan(sizeof(ask))), parts)) {
    return parts_.replies.refuse(std::move(request), Status::BadRequest);
  }

  const int64_t now_ns = parts_.replies.freshNowNs(request);
  for (ReadPart& part : parts) {
    part.status =
        parts_.replies.count(parts_.store.checkRead(part.key.table, part.hash, part.epoch, now_ns, part.permit));
    const bool is_unknown = !part.permit.has_arrived && !part.permit.is_lost;
    if (is_unknown && isAmong(arrived, parts_.tablets, part.key.table, part.hash)) part.permit.has_arrived = true;
  }
  store::ShowAfter show_after;
  for (size_t begin = 0; begin < parts.size(); begin += kBatchMax) {
    const std::span<ReadPart> batch = parts.subspan(begin, std::min(kBatchMax, parts.size() - begin));
    lookUp(parts_.store, batch);
    RC_POINT(Read);
    for (const ReadPart& part : batch) {
      if (part.status == Status::Ok && part.ref)
        show_after.add(store::ShowAfter::of(parts_.log, part.permit.level, part.ref));
    }
  }
  if (may_wait) {
    Arrivals arrivals = arrivalsOf(parts_.store, parts_.tablets, parts);
    if (!arrivals.wanted.empty()) {
      readWhenArrived(std::move(request), std::move(arrivals.wanted), std::move(arrivals.arrived)).detach();
      return;
    }
  }
  const uint64_t response_bytes =
      fit(parts_.store, parts, std::min<uint64_t>(request.responseBytesMax(), wire::kMessageBytesMax));

  // Few keys can have long values: the dispatch thread copies no more than it would of single ones.
  constexpr uint64_t kInlineCopyBytesMax = 64 * 1024;
  if (response_bytes > kInlineCopyBytesMax && !parts_.replies.waitsHere(request)) {
    return request.dispatch().handToWorker(std::move(request));
  }
  const BorrowedParts borrowed = borrow(parts_.store, parts_.replies, request, parts);
  TxMessage response = request.allocate(response_bytes - borrowed.bytes);
  append(response, parts_.store, parts, borrowed);
  parts_.replies.replyAfter(std::move(request), std::move(response), show_after);
}

runtime::Task<void> MultiRequests::mutate(Request request) {
  wire::MultiMutate::Request ask;
  if (!request.read(ask) || ask.count == 0 || ask.count > wire::kMultiCountMax || !ask.client ||
      !request.message().tail().empty() ||
      request.head().size() - sizeof(ask) < uint64_t{ask.count} * (sizeof(wire::MultiMutate::RequestPart) + 8)) {
    parts_.replies.refuse(std::move(request), Status::BadRequest);
    co_return;
  }
  std::vector<MutationPart> parts(ask.count);
  if (!decode(wire::Cursor(request.head().subspan(sizeof(ask))), ask, parts)) {
    parts_.replies.refuse(std::move(request), Status::BadRequest);
    co_return;
  }

  // What has not arrived by then is refused part by part.
  Arrivals arrivals = arrivalsOf(parts_.tablets, parts);
  std::vector<PriorityPulls::Wanted>& arrived = arrivals.arrived;
  if (!arrivals.wanted.empty()) {
    const Status status = co_await parts_.priority_pulls.waitForAll(request.executor(), arrivals.wanted);
    if (status == Status::Ok) arrived.insert(arrived.end(), arrivals.wanted.begin(), arrivals.wanted.end());
  }
  std::ranges::sort(arrived);

  // A part that fails does not keep the others from happening. Between slices other requests get their turn.
  constexpr size_t kPartsPerSlice = 64;
  bool confirmed = false;
  store::ShowAfter show_after;
  for (size_t i = 0; i < parts.size(); ++i) {
    MutationPart& part = parts[i];
    parts_.store.fetchAhead(i, parts.size(), [&](size_t at) { return parts[at].mutation.hash; });
    if (part.answer.status != Status::Ok) continue;
    if (i % kPartsPerSlice == kPartsPerSlice - 1) co_await runtime::resumeOn(request.executor());
    part.mutation.has_waited = isAmong(arrived, parts_.tablets, part.mutation.table, part.mutation.hash);
    part.answer = *parts_.store.apply(part.mutation, store::ObjectStore::Locking::Wait);
    if (part.answer.status == Status::LeaseExpired && !confirmed) {
      const Status status = co_await parts_.admission.confirm(request.executor(), ask.client);
      if (status != Status::Ok) {
        // Earlier parts may have happened, and are answered so. This one and those behind it have not. They get the
        // status of confirm(): the LeaseExpired of apply() would say that the client's lease is over.
        part.answer.status = parts_.replies.count(status);
        for (MutationPart& left : std::span(parts).subspan(i + 1)) {
          if (left.answer.status == Status::Ok) left.answer.status = parts_.replies.count(status);
        }
        break;
      }
      confirmed = true;
      part.answer = *parts_.store.apply(part.mutation, store::ObjectStore::Locking::Wait);
    }
    part.answer.status = parts_.replies.count(part.answer.status);
    if (part.answer.is_duplicate) parts_.replies.countDuplicate();
    show_after.add(part.answer.show_after);
  }
  parts_.maintenance.afterMutations(parts.size());
  TxMessage response =
      request.allocate(sizeof(wire::MultiMutate::Response) + parts.size() * sizeof(wire::MultiMutate::ResponsePart));
  append(response, parts);
  parts_.replies.replyAfter(std::move(request), std::move(response), show_after);
}

}  // namespace ramcore::master
