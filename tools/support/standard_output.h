#pragma once

#include <string>

namespace ramcore::tools {

/// Standard output as something that may fail: a full disk, a closed pipe, a descriptor that is not there. `stdout`
/// goes through this object, which keeps the first error, since stdio itself forgets it.
///
/// The first thing of main(). It also takes care that what the process opens later does not become its standard input,
/// output or error, where these are closed; and that a closed pipe is an error and not a silent end.
class StandardOutput {
 public:
  explicit StandardOutput(std::string program);
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;
  /// Not before the end of main(): `stdout` stays as it is.
  ~StandardOutput() = default;

  /// What main() returns for `exit_code`: says, in one line on stderr, if something could not be written, which makes
  /// kExitFailed of everything but a failure that was told already.
  int finish(int exit_code);

 private:
  const std::string program_;
};

/// True if something could not be written: who prints much may end then.
bool isOutputLost();

}  // namespace ramcore::tools
