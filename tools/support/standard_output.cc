#include "tools/support/standard_output.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "tools/support/process.h"

namespace ramcore::tools {
namespace {

int lost_errno = 0;  // 0: everything was written so far

ssize_t writeOut(void*, const char* bytes, size_t count) {
  for (size_t done = 0; done < count;) {
    const ssize_t written = ::write(STDOUT_FILENO, bytes + done, count - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      if (lost_errno == 0) lost_errno = errno;
      return 0;  // an error for stdio
    }
    done += static_cast<size_t>(written);
  }
  return static_cast<ssize_t>(count);
}

// Takes the number of a closed descriptor, in such a way that using it is still the error that it would have been.
void occupy(int descriptor, int flags) {
  if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) return;
  const int got = ::open("/dev/null", flags | O_CLOEXEC);
  if (got >= 0 && got != descriptor) {
    ::dup2(got, descriptor);
    ::close(got);
  }
}

}  // namespace

StandardOutput::StandardOutput(std::string program) : program_(std::move(program)) {
  occupy(STDIN_FILENO, O_WRONLY);
  occupy(STDOUT_FILENO, O_RDONLY);
  occupy(STDERR_FILENO, O_RDONLY);
  ::signal(SIGPIPE, SIG_IGN);
  std::FILE* const out =
      ::fopencookie(nullptr, "w", {.read = nullptr, .write = writeOut, .seek = nullptr, .close = nullptr});
  if (out == nullptr) return;  // no memory: stdio's own stream is used
  std::setvbuf(out, nullptr, ::isatty(STDOUT_FILENO) == 1 ? _IOLBF : _IOFBF, BUFSIZ);
  stdout = out;
}

int StandardOutput::finish(int exit_code) {
  std::fflush(stdout);
  if (!isOutputLost() || exit_code == kExitFailed || exit_code == kExitUsage) return exit_code;
  return fail(program_,
              {Status::IoError, "cannot write the output: " +
                                    std::string(lost_errno != 0 ? std::strerror(lost_errno) : "input/output error") +
                                    "; give a standard output that can be written"});
}

bool isOutputLost() { return lost_errno != 0 || std::ferror(stdout) != 0; }

}  // namespace ramcore::tools
