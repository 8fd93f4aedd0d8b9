#include "master/server_report.h"

#include <algorithm>

#include "rpc/control_call.h"
#include "rpc/session_report.h"

namespace ramcore::master {

void ServerReport::addTo(rpc::ServiceTable& table) {
  table.add<&ServerReport::serverState>(wire::Opcode::ServerState, *this,
                                        {.roles = rpc::allow({transport::Role::Coordinator}), .dispatch_only = true});
}

wire::ServerNumbers ServerReport::logNumbers() const {
  wire::ServerNumbers numbers;
  numbers.memory_bytes = parts_.log.config().memory_bytes;
  const log::LogStats& stats = parts_.log.stats();
  const auto gauge = [](const std::atomic<int64_t>& bytes) {
    return static_cast<uint64_t>(std::max<int64_t>(0, bytes.load(std::memory_order_relaxed)));
  };
  // The bytes of tombstones that may still be written (succeeded_bytes) count, as they do for the limit.
  numbers.live_bytes = gauge(stats.live_bytes) + gauge(stats.succeeded_bytes);
  numbers.live_bytes_max = parts_.log.limit().liveBytesMax();
  numbers.tombstone_bytes = gauge(stats.tombstone_bytes) + gauge(stats.succeeded_bytes);
  numbers.result_bytes = gauge(stats.result_bytes);
  numbers.cleaner_copied_bytes = stats.cleaner_bytes_copied.load(std::memory_order_relaxed);
  numbers.cleaner_freed_bytes = stats.cleaner_bytes_freed.load(std::memory_order_relaxed);
  numbers.damaged_entries = stats.damaged_entries.load(std::memory_order_relaxed);
  numbers.damaged_now = stats.damaged_now.load(std::memory_order_relaxed);
  numbers.objects = parts_.store.objectCount();
  numbers.index_bytes = parts_.store.indexBytes();
  numbers.pinned_bytes = parts_.pinned.stats().pinned_bytes.load(std::memory_order_relaxed) +
                         stats.pinned_bytes.load(std::memory_order_relaxed);
  numbers.compaction_copied_bytes = stats.compaction_bytes_copied.load(std::memory_order_relaxed);
  numbers.compaction_freed_bytes = stats.compaction_bytes_freed.load(std::memory_order_relaxed);
  numbers.appended_bytes = stats.appended_bytes.load(std::memory_order_relaxed);
  return numbers;
}

void ServerReport::serverState(rpc::Request request) {
  wire::control::ServerStateRequest message;
  if (!rpc::parseRequest(request, message)) return request.reply(Status::BadRequest);
  wire::control::ServerStateResponse answer;
  answer.set_id(parts_.self.value);
  wire::ServerNumbers numbers = logNumbers();
  rpc::reportSessions(parts_.dispatch, message.lists_sessions() ? rpc::kSessionsListedMax : 0,
                      *answer.mutable_transports());
  numbers.requests = parts_.dispatch.requestCount();
  numbers.uptime_ns = parts_.dispatch.clock().nowNs() - started_ns_;
  if (parts_.replicas != nullptr) {
    const ReplicaManager::Counts counts = parts_.replicas->counts();
    numbers.replicas_wanted = counts.wanted;
    numbers.replicas_least = counts.least;
    numbers.replica_bytes = parts_.replicas->stats().bytes.load(std::memory_order_relaxed);
    numbers.segments_repairing = counts.repairing;
    numbers.has_too_few = parts_.replicas->writeStatus() == Status::TooFewReplicas;
    numbers.is_short_of_places = parts_.replicas->isShortOfPlaces();
  }
  if (parts_.backup != nullptr) {
    numbers.frames_total = parts_.backup->framesTotal();
    numbers.frames_free = parts_.backup->framesFree();
    numbers.storage_bytes = parts_.backup->storageBytes();
    numbers.storage_bytes_needed = parts_.backup->storageBytesNeeded();
    numbers.storage_failed = parts_.backup->hasFailed();
  }
  wire::fillNumbers(numbers, answer);
  rpc::replyControl(std::move(request), answer);
}

}  // namespace ramcore::master
