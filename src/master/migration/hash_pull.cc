#include "master/migration/hash_pull.h"

#include "master/migration/pulled_slice.h"
#include "runtime/await.h"

namespace ramcore::master {
namespace {

constexpr int64_t kPieceWaitNs = 250 * runtime::kNanosPerMilli;

}  // namespace

runtime::Task<void> HashPull::end() {
  is_open_ = false;
  while (is_running_) co_await runtime::sleepFor(parts_.background, store::TabletIntake::kPauseNs);
}

runtime::Task<void> HashPull::run() {
  if (!is_open_ || is_running_) co_return;
  is_running_ = true;
  while (is_open_) {
    const PriorityPulls::Batch wanted =
        parts_.waiting.takeWanted(parts_.tablet.id, wire::PullHashes::kHashesMax, parts_.background.clock().nowNs());
    if (wanted.isEmpty()) break;
    co_await bring(wanted);
  }
  is_running_ = false;
}

runtime::Task<void> HashPull::bring(const PriorityPulls::Batch& wanted) {
  const TabletId id = parts_.tablet.id;
  std::vector<KeyHash> here;
  std::vector<KeyHash> hashes;
  for (const KeyHash hash : wanted.hashes) (parts_.state.arriving->has(hash) ? here : hashes).push_back(hash);
  parts_.waiting.release(id, here, Status::Ok);
  if (!hashes.empty()) {
    const Status status = co_await pullHashes(hashes);
    std::vector<KeyHash> lost;
    std::erase_if(hashes, [&](KeyHash hash) {
      const bool is_lost = status == Status::Ok && parts_.state.arriving->lost().has(hash);
      if (is_lost) lost.push_back(hash);
      return is_lost;
    });
    // The objects of the first one are too long for an answer: they come with the bulk. The others are asked for again.
    if (status == Status::TooLarge) hashes.resize(1);
    parts_.waiting.release(id, lost, Status::Corrupt);
    parts_.waiting.release(id, hashes, status == Status::Ok ? Status::Ok : Status::RetryLater);
  }
  if (wanted.piece) parts_.waiting.releasePiece(id, *wanted.piece, co_await pullPiece(*wanted.piece));
}

runtime::Task<void> HashPull::askForLost(std::optional<KeyHash>& after) {
  std::vector<KeyHash> hashes = parts_.state.arriving->lost().hashesAfter(after, wire::PullHashes::kHashesMax);
  after.reset();
  if (hashes.empty()) co_return;
  after = hashes.back();
  static_cast<void>(co_await pullHashes(hashes));
}

// A part of what a scan wants to see. It is pulled once more with the others: only the frontier says what has arrived.
runtime::Task<PriorityPulls::Piece> HashPull::pullPiece(KeyHash first) {
  const std::optional<KeyHash> known_last = parts_.state.arriving->lastFrom(first);
  if (known_last) co_return PriorityPulls::Piece{Status::Ok, *known_last};
  parts_.stats.priority_pulls.fetch_add(1, std::memory_order_relaxed);
  PulledSlice slice;
  Status status = co_await parts_.calls.slice(
      parts_.background, wire::Opcode::Pull, parts_.tablet.range, first,
      {.bytes = parts_.slices.bytes_busy, .wait_ns = kPieceWaitNs, .priority = runtime::Priority::Waited}, slice);
  if (status == Status::Ok) {
    count(slice);
    status = co_await lane_->take(slice, ArrivalLane::Patience::None, ArrivalState::kForCalls);
  }
  if (parts_.state.isOver()) co_return PriorityPulls::Piece{Status::RetryLater, 0};
  parts_.state.note(ArrivalState::kForCalls, status);
  if (status != Status::Ok) co_return PriorityPulls::Piece{Status::RetryLater, 0};
  co_return PriorityPulls::Piece{Status::Ok, slice.is_last ? parts_.tablet.range.last : slice.next_cursor - 1};
}

// Calls do not wait for the rate. The rest does, for what has come for them.
void HashPull::count(const PulledSlice& slice) {
  static_cast<void>(parts_.pace.reserve(slice.entries.size(), parts_.background.clock().nowNs()));
}

/// @param hashes  with Ok, cut to those that have arrived
runtime::Task<Status> HashPull::pullHashes(std::vector<KeyHash>& hashes) {
  parts_.stats.priority_pulls.fetch_add(1, std::memory_order_relaxed);
  PulledSlice slice;
  Status status = co_await parts_.calls.hashes(hashes, slice);
  if (status == Status::Ok) {
    count(slice);
    status = co_await lane_->take(slice, ArrivalLane::Patience::None, ArrivalState::kForCalls);
  }
  // An answer that comes when the source is dead is thrown away.
  if (parts_.state.isOver()) co_return Status::Cancelled;
  if (status == Status::Ok) parts_.state.arriving->lost().keep(hashes, slice.lost);
  parts_.state.note(ArrivalState::kForCalls, status);
  if (status != Status::Ok) co_return status;
  for (const KeyHash hash : hashes) parts_.state.arriving->noteKnown(hash);
  co_return Status::Ok;
}

}  // namespace ramcore::master
