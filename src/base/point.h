#pragma once

#include "base/mutations_enabled.h"
#include "base/points.h"

namespace ramcore {

/// What includes this header is another source in the build preset `mutation`; points.h is the same in all.
#if defined(RAMCORE_MUTATIONS)
/// Sets the hook of the process, which each pointReached() calls; nullptr: none.
void setPointHook(void (*reached)(Point));
void pointReached(Point point);
#define RC_POINT(point) ::ramcore::pointReached(::ramcore::Point::point)
#else
#define RC_POINT(point) static_cast<void>(0)
#endif

}  // namespace ramcore
