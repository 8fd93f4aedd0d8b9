#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <system_error>

#include "base/result.h"

namespace ramcore::runtime {

/// Raises the soft limit of open files to the hard one, which is what a process may do without asking anybody: the soft
/// one is 1,024 nearly everywhere, for programs that use select(). Gives how many it may have open afterwards.
uint64_t raiseDescriptorLimit();

/// A write beyond the limit of file sizes (ulimit -f) gives an error from now on, EFBIG, in place of a signal that ends
/// the process without a word.
void ignoreFileSizeSignal();

/// Why a new file may not have `bytes` because of that limit; empty: it may.
std::string fileSizeObstacle(uint64_t bytes);

/// What std::system_error of a thread that could not be started is for a person: NoSpace, with cause and remedy.
Failure noThread(const std::system_error& error);

/// Makes a T that starts threads in its constructor. Failure: NoSpace: the system gives this process no more threads.
template <typename T, typename... Arguments>
Outcome<std::unique_ptr<T>> makeThreaded(Arguments&&... arguments) {
  // The standard library tells by an exception; here it ends.
  try {
    return std::make_unique<T>(std::forward<Arguments>(arguments)...);
  } catch (const std::system_error& error) {
    return noThread(error);
  }
}

}  // namespace ramcore::runtime
