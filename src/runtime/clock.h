#pragma once

#include <cstdint>

namespace ramcore::runtime {

inline constexpr int64_t kNanosPerMicro = 1'000;
inline constexpr int64_t kNanosPerMilli = 1'000'000;
inline constexpr int64_t kNanosPerSecond = 1'000'000'000;
/// "No deadline": later than every time a clock will show.
inline constexpr int64_t kNever = INT64_MAX;

/// The only source of time below tools/. Real in processes, simulated in the simulator, moved by hand in unit tests.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Nanoseconds since an arbitrary start; never goes back and runs on while the machine is suspended, because leases
  /// are counted on it. Reads the clock afresh. Any thread; about 20 ns.
  virtual int64_t nowNs() = 0;
  /// A counter that tells whether anything but an instant has gone by since it was read before. It may differ between
  /// processors and begin anew, and it measures no durations. While it runs it grows by at least one and at most ten a
  /// nanosecond. Any thread; costs a third of nowNs(), where the processor has such a counter.
  virtual uint64_t ticks() { return static_cast<uint64_t>(nowNs()); }
  /// Nanoseconds since 1970 (UTC), for expiry and for people. May jump.
  virtual int64_t wallNs() = 0;
};

/// A clock that stands still until a test moves it. One thread.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t start_ns = kNanosPerSecond) : now_ns_(start_ns) {}
  int64_t nowNs() override { return now_ns_; }
  int64_t wallNs() override { return kWallStartNs + now_ns_; }
  void advance(int64_t by_ns) { now_ns_ += by_ns; }

 private:
  static constexpr int64_t kWallStartNs = 1'700'000'000LL * kNanosPerSecond;
  int64_t now_ns_;
};

}  // namespace ramcore::runtime
