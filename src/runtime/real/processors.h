#pragma once

namespace ramcore::runtime {

/// True if the calling thread may run on one processor only. Then the same holds for all threads of the process, unless
/// they were bound separately. Limits on processor time (CPU quotas of containers) are not considered. Any thread;
/// costs a system call.
bool hasOneProcessor();

}  // namespace ramcore::runtime
