#pragma once

#include <cstdint>

namespace ramcore {

/// Points in the middle of a job, where other threads of the process may be active at the same time. Programs do not
/// have these marks. In the build preset `mutation` the simulator, which otherwise runs a job as a whole, lets another
/// thread go on at some of them (the first kPointsBetween). It counts how often the others were reached.
enum class Point : uint8_t {
  // The first kPointsBetween: no lock is held but the key's stripe, which other threads only try to lock.
  Locked,    ///< the stripe is held, nothing was looked at
  Found,     ///< the present object was looked up
  Reserved,  ///< space in the log head is reserved, and nothing is in it yet
  Appended,  ///< the entry is in the log, not in the index
  Moving,    ///< the cleaner has copied an entry, and the index still has the old one
  Read,      ///< references were looked up, and their entries are not read yet
  // Points that are reached only when two threads meet.
  StripeTaken,        ///< a mutation was handed over because its stripe is held
  BehindReservation,  ///< an append found a reservation before it that was not filled
};
inline constexpr uint32_t kPointsBetween = 6;
inline constexpr uint32_t kPointCount = 8;

}  // namespace ramcore
