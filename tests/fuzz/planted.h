#pragma once

#include <cstdio>
#include <cstdlib>

namespace ramcore::fuzz {

/// A planted crash, which shows that a target reaches the code that it says it tests. It happens only if
/// RAMCORE_FUZZ_PLANTED is in the environment. It stands behind the decoder, at inputs of a certain meaning that no
/// corpus holds, so that the search has to find them; `tools/test --only fuzz-planted` demands that it does.
inline void crashIfPlanted(bool reached) {
  static const bool planted = std::getenv("RAMCORE_FUZZ_PLANTED") != nullptr;
  if (!planted || !reached) return;
  std::fputs("planted crash\n", stderr);
  std::abort();
}

}  // namespace ramcore::fuzz
