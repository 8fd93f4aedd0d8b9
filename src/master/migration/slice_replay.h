#pragma once

#include <vector>

#include "log/side_log.h"
#include "master/migration/pulled_slice.h"
#include "master/migration/room_claim.h"
#include "store/arriving_range.h"
#include "store/store_replay.h"
#include "store/tablet_table.h"

namespace ramcore::master {

/// Checks the entries that the source of a move has sent, and takes them into a side log and the index, a few at a
/// time. Executor: that of the side log.
class SliceReplay {
 public:
  /// Everything is borrowed and outlives this.
  struct Parts {
    store::StoreReplay& replay;
    RoomClaim& room;
    const store::Tablet& tablet;
    const store::ArrivingRange& arriving;
    Version version_ceiling;  ///< above all versions of the source
    bool returns;             ///< the tablet is handed back: what the source has removed is taken, too
  };
  SliceReplay(const Parts& parts, log::SideLog& side) : parts_(parts), side_(side) {}

  /// From now on, what is taken comes out of the room that is held for objects.
  void useHeldRoom();
  /// Takes some entries. Keys that the source has lost are noted in `slice` and in the range that arrives.
  /// @param rest     of the slice's entries; cut to those that were not taken
  /// @param objects  raised by the objects that were taken
  /// @return Corrupt, BadRequest: the source may not send this; or as StoreReplay::replayBatch() and noteLost()
  Status step(PulledSlice& slice, ByteSpan& rest, uint64_t& objects);

 private:
  Status decode(const PulledSlice& slice, ByteSpan bytes);
  bool isAlone(const log::EntryView& entry) const;
  Status takeAlone(PulledSlice& slice, const log::EntryView& entry);
  Status noteLost(PulledSlice& slice, const log::EntryView& entry);

  const Parts parts_;
  log::SideLog& side_;
  std::vector<log::EntryView> batch_;
  bool uses_held_room_ = false;
  uint64_t spent_bytes_ = 0;  // of the side log, what does not count as held any more
};

}  // namespace ramcore::master
