#include "master/migration/partition_pull.h"

#include <algorithm>
#include <array>

#include "base/mutation.h"
#include "runtime/await.h"

namespace ramcore::master {
namespace {

// Between two looks whether the rate was changed.
constexpr int64_t kPaceLookNs = 50 * runtime::kNanosPerMilli;
constexpr int64_t kSliceWaitNs = 2 * runtime::kNanosPerSecond;
// Before a slice that was not taken is asked for again: something is wrong with the source, or with this server.
constexpr int64_t kRepeatPauseNs = 10 * store::TabletIntake::kPauseNs;

}  // namespace

runtime::Task<Status> PartitionPull::run() {
  std::array<PulledSlice, 2> slices;  // one is taken while the other is on its way
  size_t now = 0;
  KeyHash cursor = range_.first;
  runtime::Clock& clock = parts_.lane.executor().clock();
  runtime::Task<Status> answer = ask(cursor, slices[now]);
  for (;;) {
    PulledSlice& slice = slices[now];
    const int64_t begin_ns = clock.nowNs();
    Status status = co_await answer;
    parts_.state.countTime(&ArrivalTimes::source_wait_ns, begin_ns, clock.nowNs());
    const bool asks_ahead = status == Status::Ok && !slice.is_last;
    if (asks_ahead) answer = ask(slice.next_cursor, slices[now ^ 1]);
    if (status == Status::Ok) status = co_await take(slice);
    if (status != Status::Ok && !RC_MUTATION("count-the-refused-as-arrived")) {
      if (asks_ahead) static_cast<void>(co_await answer);
      if (parts_.state.isOver()) co_return Status::Cancelled;
      co_await runtime::sleepFor(parts_.lane.executor(), kRepeatPauseNs);
      answer = ask(cursor, slice);
      continue;
    }
    if (slice.is_last) {
      parts_.state.arriving->finish(partition_);
      co_return Status::Ok;
    }
    cursor = slice.next_cursor;
    parts_.state.arriving->advance(partition_, cursor);
    now ^= 1;
  }
}

/// Asks again and again, until the source answers or nothing is pulled any more.
runtime::Task<Status> PartitionPull::ask(KeyHash cursor, PulledSlice& slice) {
  runtime::Executor& executor = parts_.lane.executor();
  for (;;) {
    if (parts_.state.isOver()) co_return Status::Cancelled;
    const uint32_t bytes = parts_.pace.slice(parts_.activity.isBusy() ? parts_.sizes.bytes_busy : parts_.sizes.bytes);
    const PullPace::Place place = co_await awaitPlace(bytes);
    if (parts_.state.isOver()) co_return Status::Cancelled;
    const Status status = co_await parts_.calls.slice(
        executor, wire::Opcode::Pull, range_, cursor,
        {.bytes = bytes, .wait_ns = kSliceWaitNs, .priority = runtime::Priority::Background}, slice);
    const uint64_t came = status == Status::Ok ? slice.entries.size() : 0;
    parts_.pace.giveBack(place, bytes - std::min<uint64_t>(came, bytes));
    // One object may be longer than what was asked for.
    if (came > bytes) static_cast<void>(parts_.pace.reserve(came - bytes, executor.clock().nowNs()));
    if (status == Status::Ok) co_return status;
    parts_.state.note(partition_, status);
    co_await runtime::sleepFor(executor, SourceCalls::mayPass(status) ? store::TabletIntake::kPauseNs : kRepeatPauseNs);
  }
}

/// Until so much may be asked for, or nothing is pulled any more.
runtime::Task<PullPace::Place> PartitionPull::awaitPlace(uint32_t bytes) {
  runtime::Executor& executor = parts_.lane.executor();
  PullPace::Place place = parts_.pace.reserve(bytes, executor.clock().nowNs());
  while (executor.clock().nowNs() < place.begin_ns && !parts_.state.isOver()) {
    co_await runtime::sleepFor(executor, std::min(place.begin_ns - executor.clock().nowNs(), kPaceLookNs));
    if (!parts_.pace.isValid(place)) place = parts_.pace.reserve(bytes, executor.clock().nowNs());
  }
  co_return place;
}

/// An answer that comes when the source is dead is thrown away.
runtime::Task<Status> PartitionPull::take(PulledSlice& slice) {
  const Status status = co_await parts_.lane.take(slice, ArrivalLane::Patience::UntilThereIsRoom, partition_);
  if (parts_.state.isOver()) co_return Status::Cancelled;
  parts_.state.note(partition_, status);
  if (status == Status::Ok) parts_.state.addBytes(slice.entries.size());
  co_return status;
}

}  // namespace ramcore::master
