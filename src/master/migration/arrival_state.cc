#include "master/migration/arrival_state.h"

#include <string>

#include "runtime/clock.h"

namespace ramcore::master {
namespace {

std::string milliseconds(uint64_t ns) { return std::to_string(ns / runtime::kNanosPerMilli) + " ms"; }

}  // namespace

void ArrivalState::note(size_t who, Status problem) {
  const bool has_lost = hasLost();
  // To the coordinator, Corrupt says that the source has lost objects, and nothing else.
  if (problem == Status::Corrupt && !has_lost) problem = Status::BadRequest;
  problems_[who].store(problem);
  // The source answers again.
  if (who != kForCalls && problem == Status::Ok) problems_[kForCalls].store(Status::Ok);
  if (!isTaken()) return;
  const bool is_new = problem != Status::Ok && problem != Status::Corrupt && traced_[who].exchange(problem) != problem;
  if (is_new) trace(problem);
  if (has_lost && !lost_traced_.exchange(true)) trace(Status::Corrupt);
}

void ArrivalState::trace(Status problem) {
  trace_.warning("tablet " + std::to_string(part_.tablet.id.value) + " waits for server " + std::to_string(source_) +
                 ": " + std::string(name(problem)));
}

void ArrivalState::traceArrived(int64_t duration_ns) {
  const auto read = [](const std::atomic<uint64_t>& ns) { return milliseconds(ns.load(std::memory_order_relaxed)); };
  trace_.info("tablet " + std::to_string(part_.tablet.id.value) + " has arrived from server " +
              std::to_string(source_) + ": " + std::to_string(part_.objects.load()) + " objects, " +
              std::to_string(part_.bytes.load()) + " bytes in " + milliseconds(static_cast<uint64_t>(duration_ns)) +
              "; its " + std::to_string(arriving->partitionCount()) + " partitions together waited " +
              read(times_.source_wait_ns) + " for the source and " + read(times_.room_wait_ns) +
              " for room, and took " + read(times_.replay_ns) + " to replay");
}

Status ArrivalState::problem() const {
  for (const std::atomic<Status>& problem : problems_) {
    const Status status = problem.load();
    if (status != Status::Ok && status != Status::Corrupt) return status;
  }
  return hasLost() ? Status::Corrupt : Status::Ok;
}

}  // namespace ramcore::master
