#pragma once

namespace ramcore::runtime {

/// Whether the calling thread may run on one processor only, and so, unless somebody bound them apart, may all threads
/// of the process. Bounds on processor time (CPU quotas of containers) are not looked at. Any thread; a system call.
bool hasOneProcessor();

}  // namespace ramcore::runtime
