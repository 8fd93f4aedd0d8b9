#pragma once

#include <cstdint>
#include <string>

namespace ramcore::runtime {

/// How much memory this process may have: the least of what the machine has and of what its control groups (those of
/// systemd, of a container, of a batch system) and the groups above them allow. The kernel kills a process that takes
/// more than they allow, without a message.
struct MemoryLimit {
  uint64_t bytes = 0;
  /// What sets the limit, for a person: "this machine", "the control group /system.slice/x.service".
  std::string who;
  /// The least that the machine and these groups have unused now; files that the system only caches count as free.
  uint64_t free_bytes = 0;

  static MemoryLimit ofThisProcess() { return read("/proc", ""); }
  /// @param proc  where the system describes this process and the machine
  /// @param root  prefix of the paths at which control groups are mounted
  static MemoryLimit read(const std::string& proc, const std::string& root);
};

}  // namespace ramcore::runtime
