#include "runtime/frame_pool.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

#include "base/check.h"
#include "base/spin_lock.h"

namespace ramcore::runtime {
namespace {

constexpr size_t kClassBytes = 128;
constexpr size_t kClassCount = 32;  // frames up to 4 KB are pooled
// Free frames of a class and thread; more of them go back to malloc. Sanitized builds pool nothing.
[[maybe_unused]] constexpr uint32_t kFreeFramesMax = 256;

[[maybe_unused]] size_t classOf(size_t bytes) { return (bytes - 1) / kClassBytes; }

struct FreeFrame {
  FreeFrame* next;
};

struct ThreadFrames;

// Adds up the counters of all threads that have ever made a frame. Each counter is written by its own thread alone.
struct Registry {
  SpinLock lock;
  ThreadFrames* first RC_GUARDED_BY(lock) = nullptr;
  int64_t alive_of_ended_threads RC_GUARDED_BY(lock) = 0;
};
Registry& registry() {
  static Registry* instance = new Registry;  // outlives every thread-local destructor
  return *instance;
}

struct ThreadFrames {
  struct Class {
    FreeFrame* first = nullptr;
    uint32_t count = 0;
  };
  std::array<Class, kClassCount> classes;
  std::atomic<int64_t> alive{0};
  ThreadFrames* next = nullptr;

  ThreadFrames() {
    Registry& all = registry();
    SpinGuard guard(all.lock);
    next = all.first;
    all.first = this;
  }
  ~ThreadFrames() {
    for (Class& one : classes) {
      while (one.first != nullptr) {
        FreeFrame* frame = one.first;
        one.first = frame->next;
        std::free(frame);
      }
    }
    Registry& all = registry();
    SpinGuard guard(all.lock);
    all.alive_of_ended_threads += alive.load(std::memory_order_relaxed);
    ThreadFrames** link = &all.first;
    while (*link != this) link = &(*link)->next;
    *link = next;
  }
  void count(int64_t by) { alive.store(alive.load(std::memory_order_relaxed) + by, std::memory_order_relaxed); }
};

// A cache of memory, which coroutines do not see: the simulator's runs do not depend on it.
thread_local ThreadFrames t_frames;

}  // namespace

void* allocateFrame(size_t bytes) {
  ThreadFrames& frames = t_frames;
  frames.count(1);
#if !defined(RAMCORE_SANITIZED)
  const size_t index = classOf(bytes);
  if (index < kClassCount) {
    ThreadFrames::Class& one = frames.classes[index];
    if (one.first != nullptr) {
      FreeFrame* frame = one.first;
      one.first = frame->next;
      --one.count;
      return frame;
    }
    bytes = (index + 1) * kClassBytes;
  }
#endif
  void* frame = std::malloc(bytes);
  RC_CHECK_MSG(frame != nullptr, "out of memory for a coroutine frame");
  return frame;
}

void freeFrame(void* frame, size_t bytes) noexcept {
  ThreadFrames& frames = t_frames;
  frames.count(-1);
#if !defined(RAMCORE_SANITIZED)
  const size_t index = classOf(bytes);
  if (index < kClassCount && frames.classes[index].count < kFreeFramesMax) {
    ThreadFrames::Class& one = frames.classes[index];
    one.first = new (frame) FreeFrame{one.first};
    ++one.count;
    return;
  }
#else
  static_cast<void>(bytes);
#endif
  std::free(frame);
}

int64_t framesAlive() {
  Registry& all = registry();
  SpinGuard guard(all.lock);
  int64_t alive = all.alive_of_ended_threads;
  for (ThreadFrames* one = all.first; one != nullptr; one = one->next)
    alive += one->alive.load(std::memory_order_relaxed);
  return alive;
}

}  // namespace ramcore::runtime
