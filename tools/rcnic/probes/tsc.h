#pragma once

#include <x86intrin.h>

#include <cstdint>

namespace ramcore::rcnic {

/// The time stamp counter: cycles of the processor's nominal clock, whatever it runs at just then.
inline uint64_t tscNow() { return __rdtsc(); }

}  // namespace ramcore::rcnic
