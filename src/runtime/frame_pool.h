#pragma once

#include <cstddef>
#include <cstdint>

namespace ramcore::runtime {

/// Memory of coroutine frames. Each thread has free lists by size, so that a handler's coroutine frame costs a few
/// nanoseconds. A coroutine frame may be freed on another thread than the one it came from; it joins that thread's
/// lists, which are bounded. The sanitizers get plain malloc, because otherwise use after free would be invisible.
void* allocateFrame(size_t bytes);
void freeFrame(void* frame, size_t bytes) noexcept;

/// Coroutine frames alive in the whole process: zero after a clean shutdown. Exact only while no other thread runs
/// coroutines.
int64_t framesAlive();

}  // namespace ramcore::runtime
