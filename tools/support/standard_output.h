#pragma once

#include <string>

namespace ramcore::tools {

/// Standard output as something that may fail: a full disk, a closed pipe, a descriptor that is not there. `stdout`
/// goes through this object, which keeps the first error, since stdio itself forgets it.
///
/// It has to be the first object of main(). It also makes sure that a file which the process opens later does not
/// become its standard input, output or error where these are closed, and that a closed pipe is an error and not a
/// silent end.
class StandardOutput {
 public:
  explicit StandardOutput(std::string program);
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;
  /// Not called before the end of main(): `stdout` stays as it is.
  ~StandardOutput() = default;

  /// Returns what main() has to return in place of `exit_code`. If something could not be written, it says so in one
  /// line on stderr and returns kExitFailed, unless `exit_code` is already that of a failure that was reported.
  int finish(int exit_code);

 private:
  const std::string program_;
};

/// True if something could not be written: code that prints much may end then.
bool isOutputLost();

}  // namespace ramcore::tools
