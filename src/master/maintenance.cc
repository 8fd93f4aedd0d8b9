#include "master/maintenance.h"

#include "base/check.h"

namespace ramcore::master {
namespace {

constexpr uint32_t kCleanBytesPerSlice = 64 * 1024;  // 30-60 us of small entries
constexpr size_t kDeferredPerSlice = 256;
constexpr size_t kTombstonesPerSlice = 64;
// While readers or pins hold memory back there is nothing to compute: look again after this.
constexpr int64_t kWaitNs = 1 * runtime::kNanosPerMilli;

}  // namespace

Maintenance::Maintenance(runtime::Executor& executor, const Parts& parts)
    : Job([](runtime::Job& job) { static_cast<Maintenance&>(job).slice(); }),
      executor_(executor),
      parts_(parts),
      again_(*this) {}

Maintenance::~Maintenance() { RC_CHECK(!scheduled_.load()); }

void Maintenance::poke() {
  poked_.store(true, std::memory_order_seq_cst);
  if (scheduled_.exchange(true, std::memory_order_seq_cst)) return;
  executor_.post(*this, urgency());
}

// Background work gets what others leave, and a small share in any case. When memory runs short, it works for those
// who write.
runtime::Priority Maintenance::urgency() const {
  return parts_.cleaner.isUrgent() ? runtime::Priority::Client : runtime::Priority::Background;
}

void Maintenance::stop() { stop_.store(true); }

void Maintenance::slice() {
  if (stop_.load()) {
    scheduled_.store(false);
    return;
  }
  const bool was_poked = poked_.exchange(false, std::memory_order_seq_cst);
  using Progress = log::Cleaner::Progress;
  const bool cleans = parts_.cleaner.isBusy() || parts_.cleaner.isNeeded();
  const Progress progress = cleans ? parts_.cleaner.step(kCleanBytesPerSlice) : Progress::Idle;
  parts_.rcu.reclaim(kDeferredPerSlice);
  const size_t waiting = parts_.log.reclaim(static_cast<uint64_t>(executor_.clock().nowNs()));
  parts_.log.maintain();
  parts_.store.reapTombstones(kTombstonesPerSlice);
  if (parts_.index.prefaultIsDue()) parts_.index.prefaultAhead();
  if (progress == Progress::Worked) {
    executor_.post(*this, urgency());
    return;
  }
  // Memory is short but a pass would gain nothing: look again soon, as long as there are mutations that may change it.
  const bool nothing_to_gain = cleans && progress == Progress::Idle && was_poked;
  if (progress == Progress::Waiting || waiting > 0 || nothing_to_gain || parts_.rcu.pending() ||
      parts_.store.hasTombstonesToReap()) {
    executor_.arm(again_, executor_.clock().nowNs() + kWaitNs);
    return;
  }
  scheduled_.store(false, std::memory_order_seq_cst);
  // A poke between the work and the store above found it scheduled and left it to us.
  if (poked_.load(std::memory_order_seq_cst) && !scheduled_.exchange(true, std::memory_order_seq_cst)) {
    executor_.post(*this, urgency());
  }
}

}  // namespace ramcore::master
