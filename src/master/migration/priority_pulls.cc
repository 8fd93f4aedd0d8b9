#include "master/migration/priority_pulls.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ramcore::master {

PriorityPulls::~PriorityPulls() { RC_CHECK_MSG(stats_.waiting.load() == 0, "calls still wait for what arrives"); }

void PriorityPulls::open(TabletId tablet) {
  SpinGuard guard(lock_);
  tablets_.try_emplace(tablet);
}

bool PriorityPulls::add(Wait& wait) {
  std::vector<TabletId> told;
  {
    SpinGuard guard(lock_);
    const bool may_wait = waiting_ + wait.wanted_.size() <= kWaitingMax &&
                          std::ranges::all_of(wait.wanted_, [this](const Wanted& wanted) RC_REQUIRES(lock_) {
                            return tablets_.contains(wanted.tablet);
                          });
    if (!may_wait) {
      stats_.refused.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    wait.give_up_ns_ = wait.executor_.clock().nowNs() + kWaitNs;
    wait.left_ = wait.wanted_.size();
    wait.outcome_ = Status::Ok;
    waiting_ += wait.left_;
    for (const Wanted& wanted : wait.wanted_) {
      Tablet& tablet = tablets_.at(wanted.tablet);
      tablet.waiting.push_back({&wait, wanted.hash, wanted.is_piece});
      if (!std::exchange(tablet.is_told, true)) told.push_back(wanted.tablet);
    }
    stats_.waits.fetch_add(1, std::memory_order_relaxed);
    stats_.waiting.fetch_add(1, std::memory_order_relaxed);
  }
  // From here on `wait` may be gone: its coroutine may go on at any time.
  for (const TabletId tablet : told) listener_.onWanted(tablet);
  return true;
}

// @param through  gets the wait if nothing else is left of it
void PriorityPulls::finish(Entry entry, Status status, std::vector<Wait*>& through) {
  --waiting_;
  if (status != Status::Ok) entry.wait->outcome_ = status;
  if (--entry.wait->left_ == 0) through.push_back(entry.wait);
}

void PriorityPulls::close(TabletId tablet, Status status) {
  std::vector<Wait*> through;
  {
    SpinGuard guard(lock_);
    const auto found = tablets_.find(tablet);
    if (found == tablets_.end()) return;
    for (const Entry& entry : found->second.waiting) finish(entry, status, through);
    tablets_.erase(found);
  }
  resume(through);
}

PriorityPulls::Batch PriorityPulls::takeWanted(TabletId tablet, size_t count_max, int64_t now_ns) {
  Batch batch;
  std::vector<KeyHash>& hashes = batch.hashes;
  std::vector<Wait*> through;
  {
    SpinGuard guard(lock_);
    const auto found = tablets_.find(tablet);
    if (found == tablets_.end()) return batch;
    std::deque<Entry>& waiting = found->second.waiting;
    while (!waiting.empty() && waiting.front().wait->give_up_ns_ <= now_ns) {
      finish(waiting.front(), Status::RetryLater, through);
      waiting.pop_front();
    }
    for (const Entry& entry : waiting) {
      if (entry.is_piece) {
        if (!batch.piece) batch.piece = entry.hash;
        continue;
      }
      const auto at = std::ranges::lower_bound(hashes, entry.hash);
      if (at != hashes.end() && *at == entry.hash) continue;
      if (hashes.size() == count_max) continue;
      hashes.insert(at, entry.hash);
    }
    found->second.is_told = !batch.isEmpty();
  }
  resume(through);
  return batch;
}

void PriorityPulls::release(TabletId tablet, const std::vector<KeyHash>& hashes, Status status) {
  std::vector<Wait*> through;
  {
    SpinGuard guard(lock_);
    const auto found = tablets_.find(tablet);
    if (found == tablets_.end()) return;
    std::erase_if(found->second.waiting, [&](const Entry& entry) RC_REQUIRES(lock_) {
      if (entry.is_piece || !std::ranges::binary_search(hashes, entry.hash)) return false;
      finish(entry, status, through);
      return true;
    });
  }
  resume(through);
}

void PriorityPulls::releasePiece(TabletId tablet, KeyHash first, const Piece& piece) {
  std::vector<Wait*> through;
  {
    SpinGuard guard(lock_);
    const auto found = tablets_.find(tablet);
    if (found == tablets_.end()) return;
    std::erase_if(found->second.waiting, [&](const Entry& entry) RC_REQUIRES(lock_) {
      if (!entry.is_piece || entry.hash != first) return false;
      entry.wait->piece_last_ = piece.last;
      finish(entry, piece.status, through);
      return true;
    });
  }
  resume(through);
}

void PriorityPulls::resume(const std::vector<Wait*>& waits) {
  stats_.waiting.fetch_sub(waits.size(), std::memory_order_relaxed);
  for (Wait* wait : waits) {
    if (wait->outcome_ != Status::Ok) stats_.refused.fetch_add(1, std::memory_order_relaxed);
    wait->executor_.post(*wait, runtime::Priority::Waited);
  }
}

}  // namespace ramcore::master
