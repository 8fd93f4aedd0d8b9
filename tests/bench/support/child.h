#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/support/machine.h"

namespace ramcore::bench {

[[noreturn]] inline void die(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::fflush(nullptr);
  std::_Exit(1);  // other threads may be at work: nothing is destroyed under them
}

/// A process that this one started, bound to the server's core; ended with it, by its id.
class Child {
 public:
  Child() = default;
  /// Runs a program. Its standard error goes to `log`, its standard output to readyLine().
  static Child start(const std::vector<std::string>& arguments, const std::string& log) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) die("pipe failed");
    std::vector<char*> raw;
    for (const std::string& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));
    raw.push_back(nullptr);
    Child child = fork([&] {
      ::dup2(ends[1], STDOUT_FILENO);
      const int to = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
      if (to >= 0) ::dup2(to, STDERR_FILENO);
      ::execvp(raw[0], raw.data());
      ::_exit(127);
    });
    ::close(ends[1]);
    child.out_ = ends[0];
    child.name_ = arguments[0];
    child.log_ = log;
    return child;
  }
  /// Runs `body` in a copy of this process until it is killed.
  static Child fork(const std::function<void()>& body) {
    Child child;
    std::fflush(stdout);
    child.pid_ = ::fork();
    if (child.pid_ < 0) die("fork failed");
    if (child.pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      pinTo(kServerCore);
      body();
      ::_exit(0);
    }
    return child;
  }
  ~Child() { stop(); }
  Child(Child&& other) noexcept { *this = std::move(other); }
  Child& operator=(Child&& other) noexcept {
    stop();
    pid_ = std::exchange(other.pid_, -1);
    out_ = std::exchange(other.out_, -1);
    name_ = std::move(other.name_);
    log_ = std::move(other.log_);
    return *this;
  }

  /// The first line it prints; ends this program if it does not come.
  std::string readyLine(int seconds_max = 120) {
    std::string line;
    while (line.empty() || line.back() != '\n') {
      pollfd wait{.fd = out_, .events = POLLIN, .revents = 0};
      char byte = 0;
      if (::poll(&wait, 1, seconds_max * 1000) <= 0 || ::read(out_, &byte, 1) != 1) {
        die(name_ + " did not become ready; see " + log_);
      }
      line += byte;
    }
    line.pop_back();
    return line;
  }
  pid_t pid() const { return pid_; }

  /// Bytes in memory now.
  uint64_t residentBytes() const {
    std::ifstream statm("/proc/" + std::to_string(pid_) + "/statm");
    uint64_t pages = 0;
    statm >> pages >> pages;
    return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  }

  /// Suspended, so that a process that spins does not take the core from another one's rounds.
  void pause() { ::kill(pid_, SIGSTOP); }
  void resume() { ::kill(pid_, SIGCONT); }

  void stop() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    if (out_ >= 0) ::close(out_);
    pid_ = -1;
    out_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  std::string name_;
  std::string log_;
};

}  // namespace ramcore::bench
