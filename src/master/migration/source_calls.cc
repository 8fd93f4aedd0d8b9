#include "master/migration/source_calls.h"

#include <span>

#include "store/foreign_entry.h"

namespace ramcore::master {
namespace {

constexpr int64_t kMeasureWaitNs = 2 * runtime::kNanosPerSecond;
constexpr int64_t kHashesWaitNs = 250 * runtime::kNanosPerMilli;

}  // namespace

runtime::Task<rpc::CallResult> SourceCalls::call(transport::TxMessage message, int64_t wait_ns,
                                                 runtime::Priority priority) {
  // A silent source must not hold up the pull that waits for the end of this one.
  co_return co_await caller_.call(background_, tablet_.source, std::move(message),
                                  {.deadline_ns = background_.clock().nowNs() + wait_ns,
                                   .priority = priority,
                                   .is_hopeless = &isGivenUp,
                                   .context = &ended_});
}

runtime::Task<Status> SourceCalls::measure(uint32_t window, wire::MeasureTablet::Response& answer) {
  using Measure = wire::MeasureTablet;
  transport::TxMessage message = caller_.allocate(sizeof(Measure::Request));
  message.appendHead(Measure::Request{.header = {.opcode = wire::Opcode::MeasureTablet, .target = target()},
                                      .tablet = tablet_.id,
                                      .epoch = tablet_.epoch,
                                      .window = window});
  rpc::CallResult result = co_await call(std::move(message), kMeasureWaitNs, runtime::Priority::Background);
  if (result.status != Status::Ok) co_return result.status;
  const bool is_sound = wire::decode(result.response.head(), answer) && answer.large_bytes <= answer.object_bytes &&
                        (answer.next_window > window || window == Measure::kWindows);
  co_return is_sound ? Status::Ok : Status::BadRequest;
}

runtime::Task<Status> SourceCalls::slice(wire::Opcode opcode, const HashRange& range, KeyHash cursor, Terms terms,
                                         PulledSlice& slice) {
  transport::TxMessage message = caller_.allocate(sizeof(wire::Pull::Request));
  message.appendHead(wire::Pull::Request{.header = {.opcode = opcode, .target = target()},
                                         .tablet = tablet_.id,
                                         .epoch = tablet_.epoch,
                                         .cursor = cursor,
                                         .response_bytes = terms.bytes});
  rpc::CallResult result = co_await call(std::move(message), terms.wait_ns, terms.priority);
  if (result.status != Status::Ok) co_return result.status;
  wire::Pull::Response header{};
  if (!wire::decode(result.response.head(), header) ||
      result.response.messageBytes() != sizeof(header) + uint64_t{header.entry_bytes} ||
      header.safe_version > store::kForeignVersionMax) {
    co_return Status::BadRequest;
  }
  slice.next_cursor = header.next_cursor;
  slice.is_last = header.done != 0;
  slice.safe_version = header.safe_version;
  // A source that goes in circles, or out of the range.
  if (!slice.is_last && (slice.next_cursor <= cursor || !range.contains(slice.next_cursor))) {
    co_return Status::BadRequest;
  }
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
  rpc::CallResult result = co_await call(std::move(message), kHashesWaitNs, runtime::Priority::Waited);
  if (result.status != Status::Ok) co_return result.status;
  wire::PullHashes::Response header{};
  const bool is_sound = wire::decode(result.response.head(), header) && header.count != 0 && header.count <= count &&
                        result.response.messageBytes() == sizeof(header) + uint64_t{header.entry_bytes};
  if (!is_sound) co_return Status::BadRequest;
  hashes.resize(header.count);
  slice.hashes = hashes;
  slice.take(result.response, sizeof(header));
  co_return Status::Ok;
}

}  // namespace ramcore::master
