#pragma once

#include <sched.h>
#include <unistd.h>
#include <x86intrin.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>

namespace ramcore::bench {

inline constexpr int kServerCore = 0;
inline constexpr int kClientCore = 1;

/// Binds the calling thread to a core; without effect on a machine that has fewer.
inline void pinTo(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  (void)::sched_setaffinity(0, sizeof(cores), &cores);
}

/// Undoes it.
inline void unpin() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (int core = 0; core < CPU_SETSIZE; ++core) CPU_SET(core, &cores);
  (void)::sched_setaffinity(0, sizeof(cores), &cores);
}

/// Time that the host gave to others, since boot and over all cores.
inline double stealSeconds() {
  std::ifstream stat("/proc/stat");
  std::string cpu;
  uint64_t value = 0;
  stat >> cpu;
  for (int field = 0; field < 8 && stat >> value; ++field) {
  }
  return static_cast<double>(value) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

/// Threads that ran or wanted to, over the last minute.
inline double loadAverage() {
  double load = 0;
  std::ifstream("/proc/loadavg") >> load;
  return load;
}

inline double nowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The time stamp counter as a clock: 8 ns a look, against 19 of clock_gettime.
class Tsc {
 public:
  Tsc() {
    const double begin_s = nowSeconds();
    const uint64_t begin = __rdtsc();
    while (nowSeconds() - begin_s < 0.02) {
    }
    const uint64_t end = __rdtsc();
    ns_per_tick_ = (nowSeconds() - begin_s) * 1e9 / static_cast<double>(end - begin);
  }
  static uint64_t now() { return __rdtsc(); }
  double ns(uint64_t ticks) const { return static_cast<double>(ticks) * ns_per_tick_; }
  uint64_t ticks(double seconds) const { return static_cast<uint64_t>(seconds * 1e9 / ns_per_tick_); }

 private:
  double ns_per_tick_ = 1;
};

}  // namespace ramcore::bench
