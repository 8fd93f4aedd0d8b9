#include "runtime/real/process_limits.h"

#include <signal.h>
#include <sys/resource.h>

namespace ramcore::runtime {

uint64_t raiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  if (limit.rlim_cur < limit.rlim_max) {
    const rlim_t before = std::exchange(limit.rlim_cur, limit.rlim_max);
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  }
  return limit.rlim_cur;
}

void ignoreFileSizeSignal() { ::signal(SIGXFSZ, SIG_IGN); }

std::string fileSizeObstacle(uint64_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur) return {};
  return "this process may write files of " + std::to_string(limit.rlim_cur) +
         " bytes at most; raise that limit (ulimit -f)";
}

Failure noThread(const std::system_error& error) {
  return Failure{Status::NoSpace,
                 "cannot start a thread (" + error.code().message() +
                     "); raise the limit of threads (ulimit -u, TasksMax= of the unit, pids.max of the control group), "
                     "or end other processes"};
}

}  // namespace ramcore::runtime
