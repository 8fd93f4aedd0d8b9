#include "master/migration/source_calls.h"

#include <span>

namespace ramcore::master {
namespace {

constexpr int64_t kMeasureWaitNs = 2 * runtime::kNanosPerSecond;
constexpr int64_t kHashesWaitNs = 250 * runtime::kNanosPerMilli;

}  // namespace

runtime::Task<rpc::CallResult> SourceCalls::call(runtime::Executor& executor, transport::TxMessage message,
                                                 int64_t wait_ns, runtime::Priority priority) {
  // A silent source must not hold up the pull that waits for the end of this one.
  co_return co_await caller_.call(executor, tablet_.source, std::move(message),
                                  {.deadline_ns = executor.clock().nowNs() + wait_ns,
                                   .priority = priority,
                                   .is_hopeless = &isGivenUp,
                                   .context = this});
}

/// @return false: these are not ascending hashes of the range
bool SourceCalls::decodeCrowded(const PulledSlice& bytes, const HashRange& range, store::CrowdedHashes::List& crowded) {
  for (size_t at = 0; at < bytes.entries.size(); at += sizeof(KeyHash)) {
    const auto hash = loadAs<KeyHash>(bytes.entries.data() + at);
    const bool is_sound = range.contains(hash) && (crowded.hashes.empty() || hash > crowded.hashes.back());
    if (!is_sound) return false;
    crowded.hashes.push_back(hash);
  }
  return true;
}

runtime::Task<Status> SourceCalls::measure(wire::MeasureTablet::Part part, const HashRange& range, KeyHash cursor,
                                           runtime::Priority priority, Measured& answer) {
  using Measure = wire::MeasureTablet;
  transport::TxMessage message = caller_.allocate(sizeof(Measure::Request));
  message.appendHead(Measure::Request{.header = {.opcode = wire::Opcode::MeasureTablet, .target = target()},
                                      .tablet = tablet_.id,
                                      .epoch = tablet_.epoch,
                                      .cursor = cursor,
                                      .part = part});
  rpc::CallResult result = co_await call(background_, std::move(message), kMeasureWaitNs, priority);
  if (result.status != Status::Ok) co_return result.status;
  Measure::Response& sizes = answer.sizes;
  const bool is_sound = wire::decode(result.response.head(), sizes) && sizes.large_bytes <= sizes.object_bytes &&
                        (sizes.done != 0 || (sizes.next_cursor > cursor && range.contains(sizes.next_cursor)));
  if (!is_sound) co_return Status::BadRequest;
  answer.crowded.are_all = sizes.crowded_count == Measure::kCrowdedAll;
  const uint64_t named = answer.crowded.are_all ? 0 : sizes.crowded_count;
  if (result.response.messageBytes() != sizeof(sizes) + named * sizeof(KeyHash)) co_return Status::BadRequest;
  PulledSlice rest;
  rest.take(result.response, sizeof(sizes));
  co_return decodeCrowded(rest, range, answer.crowded) ? Status::Ok : Status::BadRequest;
}

runtime::Task<Status> SourceCalls::clients(ClientId after, std::vector<ClientId>& clients) {
  using wire::ListClients;
  transport::TxMessage message = caller_.allocate(sizeof(ListClients::Request));
  message.appendHead(ListClients::Request{.header = {.opcode = wire::Opcode::ListClients, .target = target()},
                                          .tablet = tablet_.id,
                                          .epoch = tablet_.epoch,
                                          .after = after});
  rpc::CallResult result =
      co_await call(background_, std::move(message), kMeasureWaitNs, runtime::Priority::Background);
  if (result.status != Status::Ok) co_return result.status;
  ListClients::Response header{};
  const bool is_sound = wire::decode(result.response.head(), header) &&
                        result.response.messageBytes() == sizeof(header) + header.count * sizeof(ClientId);
  if (!is_sound) co_return Status::BadRequest;
  PulledSlice rest;
  rest.take(result.response, sizeof(header));
  for (size_t at = 0; at < rest.entries.size(); at += sizeof(ClientId)) {
    const auto client = loadAs<ClientId>(rest.entries.data() + at);
    if (client <= after) co_return Status::BadRequest;
    clients.push_back(client);
    after = client;
  }
  co_return Status::Ok;
}

runtime::Task<Status> SourceCalls::slice(runtime::Executor& executor, wire::Opcode opcode, HashRange range,
                                         KeyHash cursor, Terms terms, PulledSlice& slice) {
  transport::TxMessage message = caller_.allocate(sizeof(wire::Pull::Request));
  message.appendHead(wire::Pull::Request{.header = {.opcode = opcode, .target = target()},
                                         .tablet = tablet_.id,
                                         .epoch = tablet_.epoch,
                                         .cursor = cursor,
                                         .last = range.last,
                                         .response_bytes = terms.bytes});
  rpc::CallResult result = co_await call(executor, std::move(message), terms.wait_ns, terms.priority);
  if (result.status != Status::Ok) co_return result.status;
  wire::Pull::Response header{};
  if (!wire::decode(result.response.head(), header) ||
      result.response.messageBytes() != sizeof(header) + uint64_t{header.entry_bytes}) {
    co_return Status::BadRequest;
  }
  slice.next_cursor = header.next_cursor;
  slice.is_last = header.done != 0;
  // A source that goes in circles, or out of the range.
  if (!slice.is_last && (slice.next_cursor <= cursor || !range.contains(slice.next_cursor))) {
    co_return Status::BadRequest;
  }
  slice.range = {cursor, slice.is_last ? range.last : slice.next_cursor - 1};
  slice.is_of_results = opcode == wire::Opcode::PullResults;
  slice.take(result.response, sizeof(header));
  co_return Status::Ok;
}

runtime::Task<Status> SourceCalls::hashes(std::vector<KeyHash>& hashes, PulledSlice& slice) {
  const auto count = static_cast<uint32_t>(hashes.size());
  const std::span<const std::byte> bytes = std::as_bytes(std::span(hashes));
  transport::TxMessage message =
      caller_.allocate(static_cast<uint32_t>(sizeof(wire::PullHashes::Request) + bytes.size()));
  message.appendHead(wire::PullHashes::Request{.header = {.opcode = wire::Opcode::PullHashes, .target = target()},
                                               .tablet = tablet_.id,
                                               .epoch = tablet_.epoch,
                                               .count = count});
  message.appendHead(bytes);
  rpc::CallResult result = co_await call(background_, std::move(message), kHashesWaitNs, runtime::Priority::Waited);
  if (result.status != Status::Ok) co_return result.status;
  wire::PullHashes::Response header{};
  const bool is_sound = wire::decode(result.response.head(), header) && header.count != 0 && header.count <= count &&
                        result.response.messageBytes() == sizeof(header) + uint64_t{header.entry_bytes};
  if (!is_sound) co_return Status::BadRequest;
  hashes.resize(header.count);
  slice.hashes = hashes;
  slice.range = {hashes.front(), hashes.back()};
  slice.take(result.response, sizeof(header));
  co_return Status::Ok;
}

}  // namespace ramcore::master
