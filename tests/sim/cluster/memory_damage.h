#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "log/log.h"
#include "master/master.h"
#include "runtime/random.h"

namespace ramcore::sim {

/// Bits that flip in the memory of masters, in entries of closed segments.
///
/// They are found at once: reads do not look at checksums, so what they showed before would not be right.
class MemoryDamage {
 public:
  /// A bit of an entry.
  struct Place {
    log::EntryRef ref;
    uint32_t bit = 0;
  };
  /// The entries of closed segments with which nothing is wrong.
  static std::vector<log::EntryRef> soundEntries(log::Log& log);
  static void flip(log::Log& log, Place place);
  /// Whether something was found and has not been restored.
  static bool isIn(const master::Master& master);

  /// Flips bits of some objects of a tablet that are alive, of what says which object it is. A message that borrows a
  /// value has the right one.
  /// @return the number of objects
  size_t spoil(master::Master& master, TableId table, const HashRange& range, runtime::Random& random);
  /// Where there are no replicas: puts the right bytes back in the place of those that were flipped on this server.
  /// @return false: not all could be yet; call again
  bool restore(master::Master& master);

 private:
  std::map<ServerId, std::vector<Place>> flipped_;  // where nothing else restores them
};

}  // namespace ramcore::sim
