#pragma once

#if defined(RAMCORE_STEPS)
#include "base/mutation.h"
#endif

namespace ramcore {

/// Where another thread may come between two accesses to shared memory, in code that relies on their order without a
/// lock. Programs do not have these marks. A test that goes through the orders in which threads may meet compiles the
/// sources with RAMCORE_STEPS and decides at each mark who goes on (tests/steps).
#if defined(RAMCORE_STEPS)
void stepReached();
void readStepReached();
/// The lock is another thread's: somebody else goes on, and this thread not before a lock is given back.
void lockMissed();
void lockGivenBack();
#define RC_STEP() ::ramcore::stepReached()
#define RC_READ_STEP() ::ramcore::readStepReached()
#define RC_LOCK_MISSED() ::ramcore::lockMissed()
#define RC_LOCK_GIVEN_BACK() ::ramcore::lockGivenBack()
/// A planted defect (base/mutation.h) in a header. Only such a test has it: what everybody includes is the same in all
/// builds, with planted defects and without, and compiled once.
#define RC_STEP_MUTATION(name) RC_MUTATION(name)
#else
#define RC_STEP() static_cast<void>(0)
#define RC_READ_STEP() static_cast<void>(0)
#define RC_LOCK_MISSED() static_cast<void>(0)
#define RC_LOCK_GIVEN_BACK() static_cast<void>(0)
#define RC_STEP_MUTATION(name) (false)
#endif

}  // namespace ramcore
