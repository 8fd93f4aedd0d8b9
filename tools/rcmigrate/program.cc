#include "tools/rcmigrate/program.h"

#include <cstdio>

#include "runtime/await.h"

namespace ramcore::rcmigrate {

void say(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

runtime::Task<void> pause(runtime::Executor& executor, int64_t duration_ns) {
  co_await runtime::sleepFor(executor, duration_ns);
}

}  // namespace ramcore::rcmigrate
