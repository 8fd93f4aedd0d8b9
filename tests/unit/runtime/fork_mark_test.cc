#include "runtime/fork_mark.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

namespace ramcore::runtime {
namespace {

/// The exit code of a process that `make` forks: what `child` returns there.
template <typename Fork, typename Child>
int codeOf(Fork make, Child child) {
  const pid_t pid = make();
  if (pid == 0) ::_exit(child());
  int status = -1;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ForkMark, TellsChildrenAndGrandchildrenFromTheProcessThatMadeIt) {
  const ForkMark mine;
  EXPECT_FALSE(mine.isForked());
  const int code = codeOf(::fork, [&] {
    if (!mine.isForked()) return 1;
    const ForkMark childs;
    if (childs.isForked() || !mine.isForked()) return 2;
    return codeOf(::fork, [&] {
      const ForkMark grandchilds;
      return mine.isForked() && childs.isForked() && !grandchilds.isForked() ? 0 : 3;
    });
  });
  EXPECT_EQ(code, 0);
  EXPECT_FALSE(mine.isForked());
  EXPECT_FALSE(ForkMark().isForked());
}

// A program that forks without the C library runs none of the handlers that were registered there.
TEST(ForkMark, NoticesForksThatRunNoHandlers) {
  const ForkMark mine;
  const auto bare = [] { return static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0)); };
  EXPECT_EQ(codeOf(bare, [&] { return mine.isForked() && !ForkMark().isForked() ? 0 : 1; }), 0);
}

}  // namespace
}  // namespace ramcore::runtime
