#pragma once

#include <cstdint>
#include <string>

namespace ramcore::runtime {

/// How much memory this process may have: the least of what the machine has and of what its control groups (those of
/// systemd, of a container, of a batch system) and the groups above them allow. A process that takes more than they
/// allow is killed without a word.
struct MemoryLimit {
  uint64_t bytes = 0;
  /// What sets it, for a person: "this machine", "the control group /system.slice/x.service".
  std::string who;
  /// Of that, what nobody has taken yet; files that the system only caches count as free.
  uint64_t free_bytes = 0;

  static MemoryLimit ofThisProcess() { return read("/proc", ""); }
  /// @param proc  where the system tells of this process and of the machine
  /// @param root  put in front of the places where control groups are mounted
  static MemoryLimit read(const std::string& proc, const std::string& root);
};

}  // namespace ramcore::runtime
