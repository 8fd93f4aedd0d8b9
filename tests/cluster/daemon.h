#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <sstream>
#include <string>
#include <vector>

namespace ramcore {

/// A process of the cluster; ends with this object.
class Daemon {
 public:
  Daemon(const std::string& program, std::vector<std::string> arguments) {
    std::string path = std::string(RAMCORE_BIN_DIR) + "/" + program;
    arguments.insert(arguments.begin(), path);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execv(path.c_str(), argv.data());
      _exit(127);
    }
    close(ends[1]);
    output_ = ends[0];
  }
  ~Daemon() {
    if (pid_ > 0) {
      int status = -1;
      kill(pid_, SIGTERM);
      waitpid(pid_, &status, 0);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "a daemon ended with status " << status;
    }
    if (output_ >= 0) close(output_);
  }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  /// The first locator of its line "ready LOCATOR..." that begins with `scheme`, or "" if there is none, or it ends or
  /// takes too long instead.
  std::string waitReady(const std::string& scheme = "") const {
    constexpr int kReadyMsMax = 60'000;
    std::string line;
    char c = 0;
    pollfd waited{.fd = output_, .events = POLLIN, .revents = 0};
    while (poll(&waited, 1, kReadyMsMax) == 1 && read(output_, &c, 1) == 1 && c != '\n') line += c;
    std::istringstream words(line);
    std::string word;
    if (!(words >> word) || word != "ready") return "";
    while (words >> word) {
      if (word.starts_with(scheme)) return word;
    }
    return "";
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

}  // namespace ramcore
