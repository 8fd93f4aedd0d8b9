#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/locator.h"

namespace ramcore::transport {

/// What somebody wants others to be told in place of where the process listens. Failure: BadConfig: a locator that
/// nobody could connect to, or of a transport whose places others reach only as they are.
Outcome<std::vector<Locator>> parseAdvertised(std::span<const std::string> texts);

/// Every address of the machine ("0.0.0.0", "::"): a place to listen at, and none to connect to.
bool isEveryAddress(const Locator& locator);

/// What advertising needs to know of the machine.
struct AdvertisingFacts {
  /// Numeric, of its network interfaces, those of IPv4 first; no loopback and no link-local ones.
  std::vector<std::string> own_addresses;
  /// Others are told by whom the process belongs to (servers); a coordinator is found by what people write.
  bool is_told_to_others = true;
};

/// Where others are told to reach a process that listens at `bound`.
struct Advertising {
  std::vector<Locator> locators;    ///< that of tcp first, if there is one
  std::vector<std::string> chosen;  ///< lines about what nobody has named, for the log
};

/// The locators of each transport that `wanted` names take the place of those that are listened at; port 0: the one
/// that is listened at. Every address of the machine becomes the only one that it has. Failure: BadConfig: it has
/// several and nobody says which, or none; or what is wanted is not listened at.
Outcome<Advertising> planAdvertising(std::span<const Locator> bound, std::span<const Locator> wanted,
                                     const AdvertisingFacts& facts);

}  // namespace ramcore::transport
