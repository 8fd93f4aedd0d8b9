#include "runtime/real/processors.h"

#include <sched.h>

namespace ramcore::runtime {

bool hasOneProcessor() {
  cpu_set_t allowed;
  // The call fails on machines with more processors than the set has room for.
  return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_COUNT(&allowed) == 1;
}

}  // namespace ramcore::runtime
