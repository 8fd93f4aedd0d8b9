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
  const TabletId tablet = wait.tablet_;
  bool tells = false;
  {
    SpinGuard guard(lock_);
    const auto found = tablets_.find(tablet);
    if (found == tablets_.end() || waiting_ >= kWaitingMax) {
      stats_.refused.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    wait.give_up_ns_ = wait.executor_.clock().nowNs() + kWaitNs;
    found->second.waiting.push_back(&wait);
    ++waiting_;
    stats_.waits.fetch_add(1, std::memory_order_relaxed);
    stats_.waiting.fetch_add(1, std::memory_order_relaxed);
    tells = !std::exchange(found->second.is_told, true);
  }
  // From here on `wait` may be gone: its coroutine may go on at any time.
  if (tells) listener_.onWanted(tablet);
  return true;
}

void PriorityPulls::close(TabletId tablet, Status status) {
  std::vector<Wait*> waits;
  {
    SpinGuard guard(lock_);
    const auto found = tablets_.find(tablet);
    if (found == tablets_.end()) return;
    waits.assign(found->second.waiting.begin(), found->second.waiting.end());
    waiting_ -= waits.size();
    tablets_.erase(found);
  }
  resume(waits, status);
}

std::vector<KeyHash> PriorityPulls::takeWanted(TabletId tablet, size_t count_max, int64_t now_ns) {
  std::vector<KeyHash> hashes;
  std::vector<Wait*> late;
  {
    SpinGuard guard(lock_);
    const auto found = tablets_.find(tablet);
    if (found == tablets_.end()) return hashes;
    std::deque<Wait*>& waiting = found->second.waiting;
    while (!waiting.empty() && waiting.front()->give_up_ns_ <= now_ns) {
      late.push_back(waiting.front());
      waiting.pop_front();
    }
    waiting_ -= late.size();
    for (const Wait* wait : waiting) {
      const auto at = std::ranges::lower_bound(hashes, wait->hash_);
      if (at != hashes.end() && *at == wait->hash_) continue;
      if (hashes.size() == count_max) break;
      hashes.insert(at, wait->hash_);
    }
    found->second.is_told = !hashes.empty();
  }
  resume(late, Status::RetryLater);
  return hashes;
}

void PriorityPulls::release(TabletId tablet, const std::vector<KeyHash>& hashes, Status status) {
  std::vector<Wait*> waits;
  {
    SpinGuard guard(lock_);
    const auto found = tablets_.find(tablet);
    if (found == tablets_.end()) return;
    std::erase_if(found->second.waiting, [&](Wait* wait) {
      if (!std::ranges::binary_search(hashes, wait->hash_)) return false;
      waits.push_back(wait);
      return true;
    });
    waiting_ -= waits.size();
  }
  resume(waits, status);
}

void PriorityPulls::resume(const std::vector<Wait*>& waits, Status status) {
  if (status != Status::Ok) stats_.refused.fetch_add(waits.size(), std::memory_order_relaxed);
  stats_.waiting.fetch_sub(waits.size(), std::memory_order_relaxed);
  for (Wait* wait : waits) {
    wait->outcome_ = status;
    wait->executor_.post(*wait, runtime::Priority::Waited);
  }
}

}  // namespace ramcore::master
