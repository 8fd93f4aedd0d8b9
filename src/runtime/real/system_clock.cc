#include "runtime/real/system_clock.h"

#include <sys/random.h>
#include <time.h>

#include <cerrno>

#include "base/check.h"

namespace ramcore::runtime {
namespace {

int64_t read(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<int64_t>(now.tv_sec) * kNanosPerSecond + now.tv_nsec;
}

}  // namespace

int64_t SystemClock::nowNs() { return read(CLOCK_BOOTTIME); }

uint64_t SystemClock::ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<uint64_t>(nowNs());  // elsewhere counters may be slower than a nanosecond
#endif
}

int64_t SystemClock::wallNs() { return read(CLOCK_REALTIME); }

void SystemEntropy::fill(MutableByteSpan out) {
  while (!out.empty()) {
    const ssize_t got = getrandom(out.data(), out.size(), 0);
    if (got < 0) {
      RC_CHECK_MSG(errno == EINTR, "getrandom failed");
      continue;
    }
    out = out.subspan(static_cast<size_t>(got));
  }
}

}  // namespace ramcore::runtime
