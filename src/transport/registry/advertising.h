#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/locator.h"

namespace ramcore::transport {

/// Parses the locators that others are to be told instead of those at which the process listens (--advertise). Failure:
/// BadConfig: a locator that nobody could connect to, or one of a transport that is reached only where it listens
/// (other than tcp and verbs).
Outcome<std::vector<Locator>> parseAdvertised(std::span<const std::string> texts);

/// True for every address of the machine ("0.0.0.0", "::"): a place to listen at, and none to connect to.
bool isEveryAddress(const Locator& locator);

/// What advertising needs to know of the machine.
struct AdvertisingFacts {
  /// Numeric addresses of its network interfaces, those of IPv4 first; no loopback and no link-local ones.
  std::vector<std::string> own_addresses;
  /// True for servers: the coordinator tells others where they are. False for a coordinator, which is found by the
  /// locators that people write.
  bool is_told_to_others = true;
};

/// Where others are told to reach a process that listens at `bound`.
struct Advertising {
  std::vector<Locator> locators;    ///< that of tcp first, if there is one
  std::vector<std::string> chosen;  ///< lines for the log about addresses that nobody has named
};

/// For each transport that `wanted` names, its locators take the place of those that are listened at; port 0 in them
/// means the port that is listened at. A locator of any other transport is told as it is, unless it listens at every
/// address of the machine. Then it gets the hosts in `wanted`; or, if `wanted` is empty, the only address that the
/// machine has (IPv4 before IPv6). A process that is not told to others gets all its addresses instead, or stays as it
/// is. Failure: BadConfig: the machine has several addresses or none, and nobody names one; or the process does not
/// listen over a transport that is wanted; or port 0 is wanted where it listens at several ports.
Outcome<Advertising> planAdvertising(std::span<const Locator> bound, std::span<const Locator> wanted,
                                     const AdvertisingFacts& facts);

}  // namespace ramcore::transport
