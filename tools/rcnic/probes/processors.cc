#include "tools/rcnic/probes/processors.h"

#include <sched.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

namespace ramcore::rcnic {
namespace {

// Looked up once, before a thread is bound: afterwards only one processor would be found.
const std::vector<int>& allowedProcessors() {
  static const std::vector<int> allowed = [] {
    std::vector<int> found;
    cpu_set_t set;
    CPU_ZERO(&set);
    // The processors of the process, not those of the thread that asks first.
    if (::sched_getaffinity(::getpid(), sizeof(set), &set) != 0) return found;
    for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
      if (CPU_ISSET(processor, &set)) found.push_back(processor);
    }
    return found;
  }();
  return allowed;
}

void pinTo(size_t index) {
  const std::vector<int>& allowed = allowedProcessors();
  if (allowed.size() < 2) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(allowed[index], &set);
  // If it is refused, only the figures get worse.
  static_cast<void>(::sched_setaffinity(0, sizeof(set), &set));
}

}  // namespace

void pinSender() { pinTo(1); }
void pinReceiver() { pinTo(0); }

}  // namespace ramcore::rcnic
