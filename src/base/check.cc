#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace ramcore {

void checkFailed(const char* condition, const char* file, int line, const char* message) {
  std::fprintf(stderr, "ramcore: internal error, please report: check failed: %s (%s:%d) %s\n", condition, file, line,
               message);
  std::fflush(stderr);
  std::abort();
}

}  // namespace ramcore
