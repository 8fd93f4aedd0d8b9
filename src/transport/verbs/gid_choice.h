#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "transport/verbs/ibverbs.h"

namespace ramcore::transport::verbs {

/// What is wanted of a port's table of GIDs.
struct GidWanted {
  uint8_t port = 1;
  bool is_ethernet = true;           ///< RoCE; otherwise InfiniBand
  int index = -1;                    ///< this very entry; -1: the best one
  std::optional<ibv_gid> host = {};  ///< the address that others reach this process at
};

/// The GID of a numeric IPv4 or IPv6 address; none: it is something else. IPv4 addresses stand in GIDs as IPv6
/// addresses that carry them.
std::optional<ibv_gid> gidOf(const std::string& host);

bool isSameGid(const ibv_gid& a, const ibv_gid& b);

/// Chooses the entry to use from a table with those of all ports; nullptr: none will do.
///
/// InfiniBand: the first one of the port, which its subnet manager made. RoCE: the host's address before others; then
/// version 2, which routers know and all adapters of today, before version 1; then an IPv4 address before an IPv6
/// address that is routed, and last one of the link alone, which every port has. Of equals the first one. Entries that
/// the header of a packet cannot name (beyond 255) are not used.
const ibv_gid_entry* chooseGid(std::span<const ibv_gid_entry> entries, const GidWanted& wanted);

}  // namespace ramcore::transport::verbs
