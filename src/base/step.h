#pragma once

#if defined(RAMCORE_STEPS)
#include "base/mutation.h"
#endif

namespace ramcore {

/// Marks where another thread may run between two accesses to shared memory, in code that relies on their order without
/// a lock. Programs do not have these marks. A test that goes through the orders in which threads may meet compiles the
/// sources with RAMCORE_STEPS and decides at each mark which thread goes on (tests/steps).
#if defined(RAMCORE_STEPS)
void stepReached();
void readStepReached();
/// Called when another thread holds the lock: some other thread goes on, and this one only after a lock is released.
void lockMissed();
void lockGivenBack();
#define RC_STEP() ::ramcore::stepReached()
#define RC_READ_STEP() ::ramcore::readStepReached()
#define RC_LOCK_MISSED() ::ramcore::lockMissed()
#define RC_LOCK_GIVEN_BACK() ::ramcore::lockGivenBack()
/// A planted defect (base/mutation.h) in a header. Only such a test has it. So what all sources include is the same in
/// builds with and without planted defects, and is compiled once.
#define RC_STEP_MUTATION(name) RC_MUTATION(name)
#else
#define RC_STEP() static_cast<void>(0)
#define RC_READ_STEP() static_cast<void>(0)
#define RC_LOCK_MISSED() static_cast<void>(0)
#define RC_LOCK_GIVEN_BACK() static_cast<void>(0)
#define RC_STEP_MUTATION(name) (false)
#endif

}  // namespace ramcore
