#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ramcore::transport {

/// Where a process listens, as a URL: `tcp://host:port`, `shm:///path`, `verbs://host:port?device=rxe0`,
/// `dpdk://mac@port`, `sim://node`.
struct Locator {
  std::string scheme;
  std::string host;  ///< tcp, verbs: name or address (IPv6 in brackets); sim: node; empty for shm
  uint16_t port = 0;
  std::string path;  ///< shm: absolute path of the UNIX socket; empty otherwise
  std::map<std::string, std::string> options;

  bool operator==(const Locator&) const = default;
  std::string toString() const;

  /// Failure: BadConfig with what is wrong and an example of a right one.
  static Outcome<Locator> parse(std::string_view text);
};

/// True if only processes of this machine can reach it (127.0.0.0/8, ::1, localhost, shm, sim).
bool isLocalOnly(const Locator& locator);
/// True if a network may let the handshake through but not the messages: the handshake of verbs goes over tcp, and that
/// of dpdk is in short Ethernet frames, where messages may be in longer ones. (sim stands for them in tests.)
bool mayOpenAndNotWork(const Locator& locator);

}  // namespace ramcore::transport
