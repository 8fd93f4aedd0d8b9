#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <system_error>

#include "base/result.h"

namespace ramcore::runtime {

/// Raises the soft limit of open files to the hard one, which a process may do without any permission. The soft one is
/// 1,024 nearly everywhere, for programs that use select(). Returns how many files the process may have open
/// afterwards.
uint64_t raiseDescriptorLimit();

/// From now on a write beyond the limit of file sizes (ulimit -f) fails with EFBIG. Otherwise a signal would end the
/// process without a message.
void ignoreFileSizeSignal();

/// Why that limit does not allow a new file of `bytes`; empty: it does.
std::string fileSizeObstacle(uint64_t bytes);

/// Translates the std::system_error of a thread that could not be started: NoSpace, with cause and remedy.
Failure noThread(const std::system_error& error);

/// Makes a T that starts threads in its constructor. Failure: NoSpace: the system gives this process no more threads.
template <typename T, typename... Arguments>
Outcome<std::unique_ptr<T>> makeThreaded(Arguments&&... arguments) {
  // The standard library reports this by an exception, which ends here.
  try {
    return std::make_unique<T>(std::forward<Arguments>(arguments)...);
  } catch (const std::system_error& error) {
    return noThread(error);
  }
}

}  // namespace ramcore::runtime
