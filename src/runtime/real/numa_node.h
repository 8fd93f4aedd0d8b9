#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ramcore::runtime {

/// A NUMA node of this machine: processors, and the memory that is nearest to them.
class NumaNode {
 public:
  /// @param number  as in /sys/devices/system/node
  /// @param root    where to look, for tests
  /// Failure: BadConfig: the machine has no such node, or it has no processors.
  static Outcome<NumaNode> find(uint32_t number, const std::string& root = "/sys/devices/system/node");

  /// Binds the calling thread, and those that it starts from now on, to the node. They run only on those of the node's
  /// processors on which the calling thread was allowed to run before. Memory that they touch for the first time comes
  /// from the node alone: once the node has none left, the kernel ends the process. Call it before any other thread
  /// exists. Failure: BadConfig: the thread may run on none of the node's processors; IoError: the kernel refuses, as
  /// in some containers.
  Outcome<bool> bindThread() const;

  /// Memory that the node has, used or not; 0: not known.
  uint64_t memoryBytes() const { return memory_bytes_; }
  const std::vector<uint32_t>& processors() const { return processors_; }

 private:
  NumaNode(uint32_t number, std::vector<uint32_t> processors, uint64_t memory_bytes)
      : number_(number), processors_(std::move(processors)), memory_bytes_(memory_bytes) {}

  uint32_t number_;
  std::vector<uint32_t> processors_;
  uint64_t memory_bytes_;
};

}  // namespace ramcore::runtime
