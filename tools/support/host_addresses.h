#pragma once

#include <string>
#include <vector>

#include "transport/locator.h"

namespace ramcore::tools {

/// Numeric addresses of this machine's network interfaces, those of IPv4 first; no loopback and no link-local ones.
std::vector<std::string> ownAddresses();

/// Where a locator leads, seen from this machine.
enum class Whereabouts {
  ThisMachineOnly,  ///< loopback, shm: on every machine it means that machine
  ThisMachine,      ///< an address of one of its interfaces
  Elsewhere,
  Unknown,  ///< its name has no address now, or its transport has no addresses of the Internet
};
/// Looks names up, which may take some seconds where the name service does not answer.
Whereabouts whereaboutsOf(const transport::Locator& locator);

}  // namespace ramcore::tools
