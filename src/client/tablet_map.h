#pragma once

#include <string>
#include <vector>

#include "base/durability.h"
#include "base/ids.h"
#include "rpc/caller.h"

namespace ramcore::client {

/// What a client knows of one tablet.
struct TabletInfo {
  TabletId id;
  TableId table;
  HashRange range;
  TabletEpoch epoch;
  ServerId owner;
  bool is_available = true;  ///< false: its owner is dead and its contents are not back yet
  bool is_moving = false;
};

/// Where the tablets of one table are, as the coordinator said: sorted by range, without overlaps, every owner that is
/// available among `owners`. Gaps are possible.
struct TableMap {
  TableId table;
  std::string name;
  std::vector<TabletInfo> tablets;
  std::vector<rpc::PeerAddress> owners;
  Durability durability = Durability::Buffered;
};

}  // namespace ramcore::client
