#pragma once

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

/// Counts the system calls of a test of this very program: a test runs the program again below strace, with a disabled
/// test alone, which marks the beginning and the end of what is to be counted.
namespace ramcore::transport {

/// Called twice by the test that is traced. Nothing else in these programs makes this system call.
inline void markTrace() { ::syscall(SYS_getppid); }

/// Whether system calls can be counted here. Where strace is missing the test has failed; where `reason` is set it is
/// to be skipped.
inline bool canTrace(std::string& reason) {
#if defined(RAMCORE_SANITIZED)
  reason = "sanitizers make system calls of their own";
  return false;
#else
  if (std::system("command -v strace >/dev/null") != 0) {
    ADD_FAILURE() << "strace is missing; tools/setup installs it";
    return false;
  }
  if (std::system("strace -f -o /dev/null true >/dev/null 2>&1") == 0) return true;
  reason = "this machine forbids to trace processes, so that nobody can count system calls";
  return false;
#endif
}

/// System calls of all processes of a traced test between its marks.
struct TracedCalls {
  std::map<std::string, std::map<long, uint32_t>> calls;  ///< by name and process
  double seconds = 0;
  bool is_complete = false;  ///< the test passed and made its two marks; otherwise this one has failed

  std::string text() const {
    std::string text;
    for (const auto& [call, processes] : calls) {
      for (const auto& [process, count] : processes) text += call + " " + std::to_string(count) + "; ";
    }
    return text;
  }
};

// Lines are: process, time, call.
inline TracedCalls callsBetweenMarks(std::istream& lines) {
  TracedCalls traced;
  int marks = 0;
  double begin_s = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    long process = 0;
    double at_s = 0;
    std::string call;
    if (!(words >> process >> at_s >> call)) continue;
    if (call.starts_with("getppid(")) {
      if (++marks == 1) begin_s = at_s;
      traced.seconds = at_s - begin_s;
    } else if (marks == 1 && call[0] != '<') {
      ++traced.calls[call.substr(0, call.find('('))][process];
    }
  }
  EXPECT_EQ(marks, 2);
  traced.is_complete = marks == 2;
  return traced;
}

/// Runs the disabled test that `filter` names, if canTrace().
inline TracedCalls traceTest(const std::string& filter) {
  const std::string log = "/tmp/rctraced-" + std::to_string(::getpid());
  char self[4096] = {};
  if (::readlink("/proc/self/exe", self, sizeof(self) - 1) <= 0) {
    ADD_FAILURE() << "this program does not find itself";
    return {};
  }
  const std::string command = "strace -f -ttt -o " + log + " " + self +
                              " --gtest_also_run_disabled_tests --gtest_filter='" + filter + "' >/dev/null 2>&1";
  const int exit_status = std::system(command.c_str());
  std::ifstream lines(log);
  TracedCalls traced = callsBetweenMarks(lines);
  ::unlink(log.c_str());
  EXPECT_EQ(exit_status, 0);
  traced.is_complete = traced.is_complete && exit_status == 0;
  return traced;
}

}  // namespace ramcore::transport
