#pragma once

/// Lock annotations, checked by clang's -Wthread-safety; nothing for other compilers.
#if defined(__clang__)
#define RC_ATTRIBUTE(x) __attribute__((x))
#else
#define RC_ATTRIBUTE(x)
#endif
#define RC_CAPABILITY(name) RC_ATTRIBUTE(capability(name))
#define RC_SCOPED_CAPABILITY RC_ATTRIBUTE(scoped_lockable)
#define RC_GUARDED_BY(lock) RC_ATTRIBUTE(guarded_by(lock))
#define RC_REQUIRES(...) RC_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define RC_ACQUIRE(...) RC_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define RC_TRY_ACQUIRE(...) RC_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define RC_RELEASE(...) RC_ATTRIBUTE(release_capability(__VA_ARGS__))
#define RC_EXCLUDES(...) RC_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define RC_NO_THREAD_SAFETY_ANALYSIS RC_ATTRIBUTE(no_thread_safety_analysis)
