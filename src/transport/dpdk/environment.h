#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/trace.h"

struct rte_mempool;

namespace ramcore::transport::dpdk {

/// How DPDK is to be started in this process.
struct EnvironmentOptions {
  std::vector<std::string> ports;  ///< device strings; they tell which drivers to load
  uint32_t memory_mb = 128;        ///< that DPDK takes for itself: the frames of all ports
  bool huge_pages = false;         ///< take that memory from reserved huge pages
  std::string arguments;           ///< more of its own command line, separated by spaces
};

/// DPDK in this process: one at most, from the first use to the end, because it can be started only once. Later options
/// are not looked at.
class Environment {
 public:
  /// Failure: BadConfig, NoSpace, IoError, with what DPDK said. Once it failed it stays so.
  static Outcome<Environment*> start(const EnvironmentOptions& options, Trace& trace);

  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  /// Whether the device is made by a driver in software ("net_..."). Such a device reads memory as this process does.
  static bool isVirtual(const std::string& device);
  /// What DPDK warned of last, for error messages; empty: nothing.
  static std::string lastWarning();
  /// Makes memory known to DPDK, once for all ports. Failure: NoSpace, IoError.
  Outcome<bool> addMemory(std::byte* base, size_t bytes);

 private:
  Environment() = default;
};

/// A device string, "net_memif0,role=server,id=0": driver or address, and its arguments.
struct DeviceName {
  std::string name;
  std::string arguments;
  static DeviceName split(const std::string& device);
  /// The name without its number: that of the driver, where the device is virtual.
  std::string driver() const;
};

}  // namespace ramcore::transport::dpdk
