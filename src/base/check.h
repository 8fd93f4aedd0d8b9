#pragma once

namespace ramcore {

/// Prints the failed condition with its file and line to stderr and aborts. Never returns. Kept out of line so that a
/// check costs one compare and one never-taken branch where it stands.
[[noreturn]] void checkFailed(const char* condition, const char* file, int line, const char* message);

}  // namespace ramcore

/// A promise of our own code (precondition, invariant, state transition). On in every build: a store that goes on with
/// a broken invariant loses data. What a peer, a disk or a flag can cause is a Status, never a check.
#define RC_CHECK(condition) RC_CHECK_MSG(condition, "")
#define RC_CHECK_MSG(condition, message)             \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::ramcore::checkFailed(#condition, __FILE__, __LINE__, message))

/// RC_CHECK for code that runs for every packet or entry, where the compare itself was measured to matter: off in
/// release builds.
#if defined(RAMCORE_DCHECK)
#define RC_DCHECK(condition) RC_CHECK(condition)
#else
#define RC_DCHECK(condition) static_cast<void>(sizeof((condition) ? 1 : 0))
#endif
