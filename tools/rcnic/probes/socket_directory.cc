#include "tools/rcnic/probes/socket_directory.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace ramcore::rcnic {
namespace {

std::string socketIn(const std::string& path) { return path + "/socket"; }

// Runs in a process that was forked, perhaps while there were threads: nothing here allocates memory.
[[noreturn]] void removeWhenAlone(int alive, const char* path, const char* socket, const char* lock) {
  // Keeps nothing else open that the other process has open, so that nobody waits for this process to close it, for
  // example at the end of an output.
  ::dup2(alive, 0);
  ::close_range(1, ~0u, 0);
  alive = 0;
  char nothing = 0;
  while (::read(alive, &nothing, 1) < 0 && errno == EINTR) {
  }
  ::unlink(socket);
  ::unlink(lock);
  ::rmdir(path);
  ::_exit(0);
}

}  // namespace

Outcome<SocketDirectory> SocketDirectory::make() {
  const char* const base = std::getenv("TMPDIR");
  std::string path = std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/rcnicXXXXXX";
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return Failure{Status::IoError,
                   std::string("cannot make a pipe to the process that removes a socket: ") + std::strerror(errno)};
  }
  // Signals are held back until the process is there that removes what is made here. They never reach that process.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool is_made = ::mkdtemp(path.data()) != nullptr;
  const int error = errno;
  const std::string socket = socketIn(path);
  const std::string lock = socket + ".lock";
  const pid_t remover = is_made ? ::fork() : -1;
  if (remover == 0) {
    ::close(ends[1]);
    removeWhenAlone(ends[0], path.c_str(), socket.c_str(), lock.c_str());
  }
  const int fork_error = errno;
  if (is_made && remover < 0) ::rmdir(path.c_str());
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::close(ends[0]);
  if (remover > 0) return SocketDirectory(std::move(path), remover, ends[1]);
  ::close(ends[1]);
  if (is_made) {
    return Failure{Status::IoError,
                   std::string("cannot start the process that removes a socket: ") + std::strerror(fork_error)};
  }
  return Failure{Status::IoError, "cannot make a directory like " + path + " for a socket: " + std::strerror(error) +
                                      "; set TMPDIR to one that can be written"};
}

SocketDirectory::SocketDirectory(SocketDirectory&& other) noexcept
    : path_(std::move(other.path_)), remover_(other.remover_), alive_(std::exchange(other.alive_, -1)) {}

SocketDirectory::~SocketDirectory() {
  if (alive_ < 0) return;
  ::close(alive_);
  ::waitpid(remover_, nullptr, 0);
}

std::string SocketDirectory::socket() const { return socketIn(path_); }

}  // namespace ramcore::rcnic
