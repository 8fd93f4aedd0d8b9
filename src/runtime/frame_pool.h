#pragma once

#include <cstddef>
#include <cstdint>

namespace ramcore::runtime {

/// Memory of coroutine frames: free lists per thread by size, so that a handler's frame costs a few nanoseconds. A
/// frame may be freed on another thread than it came from; it joins that thread's lists, which are bounded. Plain
/// malloc under the sanitizers, or use after free would be invisible.
void* allocateFrame(size_t bytes);
void freeFrame(void* frame, size_t bytes) noexcept;

/// Frames alive in the whole process: zero after a clean shutdown. Exact only while no other thread runs coroutines.
int64_t framesAlive();

}  // namespace ramcore::runtime
