#pragma once

#include <cstdint>

#include "base/mutations_enabled.h"

namespace ramcore {

/// Places in the middle of a job that other threads of the process may reach at the same time. Programs do not have
/// these marks. In the build preset `mutation` the simulator, which runs a job as a whole otherwise, lets another
/// thread go on at some of them (Between), and counts how often others were reached (the rest).
enum class Point : uint8_t {
  // Between: no lock is held but the key's stripe, which other threads only try.
  Locked,    ///< the stripe is held, nothing was looked at
  Found,     ///< what is there was found
  Reserved,  ///< a place in the head is kept, and nothing is in it yet
  Appended,  ///< the entry is in the log, not in the index
  Moving,    ///< the cleaner has copied an entry, and the index has the old one
  Read,      ///< references were looked up, and their entries are not read yet
  // What only threads that meet can reach.
  StripeTaken,        ///< a mutation was handed over because its stripe is held
  BehindReservation,  ///< an append found a reservation before it that was not filled
};
inline constexpr uint32_t kPointsBetween = 6;
inline constexpr uint32_t kPointCount = 8;

#if defined(RAMCORE_MUTATIONS)
/// Of the process; nullptr: nobody.
void setPointHook(void (*reached)(Point));
void pointReached(Point point);
#define RC_POINT(point) ::ramcore::pointReached(::ramcore::Point::point)
#else
#define RC_POINT(point) static_cast<void>(0)
#endif

}  // namespace ramcore
