#pragma once

#include <sched.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/clock.h"

namespace ramcore::rpc {

/// Tells a thread that polls whether what it waits for is worth spinning for, and whether it has a core to itself.
///
/// It learns from how long the thread waited lately. A spin in vain takes the core from the thread that would have sent
/// the next message, or from the disk's thread. A sleep that ends at once costs the sender a system call, and both
/// sides a switch of threads. On a shared core the thread offers its core in every round, so that a spin costs the
/// others next to nothing, and no process has to wake it.
/// Thread: the polling one.
class SpinGauge {
 public:
  /// What a thread waits for; each kind has its own usual length.
  enum class Wait : uint8_t {
    Requests,  ///< new requests: no process waits for this thread
    Answers,   ///< answers of other processes, or of the disk, for a request that this thread has begun to serve
  };

  SpinGauge(runtime::Clock& clock, int64_t spin_ns_max) : clock_(clock), spin_ns_max_(spin_ns_max) {}

  /// True if the thread should spin in a wait of this kind, because it will most likely end within the longest spin.
  bool expectsSoon(Wait kind) {
    return spin_ns_max_ > 0 && pasts_[static_cast<size_t>(kind)].score >= kScoreToSpin && !isNow(hogged_until_ns_);
  }
  /// Called when a look has found nothing and a spin is worth it. False: the spin has been long enough, and the thread
  /// should sleep.
  bool goesOn(Wait kind, int64_t now_ns) {
    begin(kind, now_ns);
    if (!is_long_ && now_ns - since_ns_ < spin_ns_max_) return true;
    noteLong();
    return false;
  }
  /// Called before the thread sleeps.
  void sleeps(Wait kind) {
    if (!is_waiting_) begin(kind, clock_.nowNs());
    has_slept_ = true;
  }
  /// Called when a look has found something. Reads the clock only if the thread has slept.
  void found() {
    if (!std::exchange(is_waiting_, false)) [[likely]]
      return;
    if (has_slept_ && clock_.nowNs() - since_ns_ > spin_ns_max_) noteLong();
    Past& past = pasts_[static_cast<size_t>(kind_)];
    if (!is_long_) past.score = std::min(past.score + 1, kScoreMax);
    if (past.score >= kScoreToSpin) {
      past.waits_without_spin = 0;
    } else if (++past.waits_without_spin == kWaitsToTrial) {
      past = {};
    }
  }

  /// Lets other threads run first on this core, if any wants to. Takes some 0.3 us if none does.
  /// @param now_ns  the time before the call
  void offerCore(int64_t now_ns) {
    sched_yield();
    const int64_t back_ns = clock_.nowNs();
    if (back_ns - now_ns <= kAwayNs) return;
    crowded_until_ns_ = back_ns + kCrowdedNs;
    if (back_ns - now_ns > kHogNs) noteHog(back_ns);
  }
  /// True if another thread ran on this core when it was offered lately. Looks at the clock only as long as that may be
  /// so.
  bool isCrowded() { return isNow(crowded_until_ns_); }

 private:
  // One long wait outweighs four short ones. A thread that waits for three backups and their disks has one long wait
  // and then two short ones; none of them is worth a spin. One long wait alone does not end the spinning of a busy
  // thread.
  static constexpr uint32_t kScoreMax = 8;
  static constexpr uint32_t kScoreToSpin = 4;
  static constexpr uint32_t kScoreOfLong = 4;
  // The length of a sleep includes the time that the machine takes to wake a processor, which may be longer than a
  // spin. So after this number of waits without a spin one is tried all the same. One in vain for 32 waits costs next
  // to nothing.
  static constexpr uint32_t kWaitsToTrial = 32;
  // If an offer of the core takes longer than this, another thread has run: that takes two switches of threads and what
  // that thread did. If no other thread is there, an offer takes a tenth of this.
  static constexpr int64_t kAwayNs = 4 * runtime::kNanosPerMicro;
  // How long a core counts as crowded: long against a request, short against what people call a pause.
  static constexpr int64_t kCrowdedNs = 2 * runtime::kNanosPerMilli;
  // A thread that keeps a core for this long does not send messages but computes. It keeps each core that it is offered
  // for its whole time slice of some milliseconds. But it has to give the core up at once to a thread that is woken.
  static constexpr int64_t kHogNs = 1 * runtime::kNanosPerMilli;
  // How long the thread does not spin after it has met such a thread. It is twice as long each time that another thread
  // still computes there: several processes that work together all stand still when one of them has lost its core.
  static constexpr int64_t kHoggedNsMin = 5 * runtime::kNanosPerMilli;
  static constexpr int64_t kHoggedNsMax = 640 * runtime::kNanosPerMilli;

  // True before `until_ns`, which is cleared afterwards.
  bool isNow(int64_t& until_ns) {
    if (until_ns == 0) [[likely]]
      return false;
    if (clock_.nowNs() < until_ns) return true;
    until_ns = 0;
    return false;
  }

  struct Past {
    uint32_t score = kScoreToSpin;
    uint32_t waits_without_spin = 0;
  };

  void begin(Wait kind, int64_t now_ns) {
    if (is_waiting_) return;
    is_waiting_ = true;
    has_slept_ = false;
    is_long_ = false;
    kind_ = kind;
    since_ns_ = now_ns;
  }
  void noteHog(int64_t now_ns) {
    const bool is_there_still = now_ns < hog_forgotten_ns_;
    hogged_ns_ = is_there_still ? std::min(2 * hogged_ns_, kHoggedNsMax) : kHoggedNsMin;
    hogged_until_ns_ = now_ns + hogged_ns_;
    hog_forgotten_ns_ = hogged_until_ns_ + hogged_ns_;
  }
  void noteLong() {
    if (std::exchange(is_long_, true)) return;
    Past& past = pasts_[static_cast<size_t>(kind_)];
    past.score -= std::min(past.score, kScoreOfLong);
  }

  runtime::Clock& clock_;
  const int64_t spin_ns_max_;
  std::array<Past, 2> pasts_;
  // The wait that is going on.
  bool is_waiting_ = false;
  bool has_slept_ = false;
  bool is_long_ = false;
  Wait kind_ = Wait::Requests;
  int64_t since_ns_ = 0;
  int64_t crowded_until_ns_ = 0;
  int64_t hogged_until_ns_ = 0;
  int64_t hogged_ns_ = kHoggedNsMin;  // the pause until then
  int64_t hog_forgotten_ns_ = 0;
};

}  // namespace ramcore::rpc
