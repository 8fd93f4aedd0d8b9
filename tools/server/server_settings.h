#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backup/frame_writer.h"
#include "base/result.h"
#include "master/pinned/pinned_values.h"
#include "master/replication/replica_manager.h"
#include "tools/support/process.h"

namespace ramcore::tools {

inline constexpr const char* kServerProgram = "ramcore-server";

/// What the command line of a server says.
struct ServerSettings {
  ProcessSettings process;
  std::vector<std::string> coordinators = {"tcp://127.0.0.1:11100"};
  uint64_t memory_bytes = uint64_t{1} << 30;
  bool memory_is_auto = false;
  std::string name;
  std::string storage = "ramcore-server";
  std::optional<uint64_t> storage_bytes;  // not given: what --memory and --replicas need
  std::string storage_writes = "auto";
  uint64_t scrub_bytes_per_s = uint64_t{16} << 20;
  uint32_t scrub_every_s = 24 * 3600;
  uint64_t scrub_memory_bytes_per_s = uint64_t{16} << 20;
  uint32_t scrub_memory_every_s = 3600;
  std::string failure_domain;
  master::ReplicationOptions replication;
  master::PinningOptions pinning;
  uint32_t cleaners_max = 0;
  bool reserved_huge_pages = false;
  std::optional<uint32_t> numa_node;

  /// Replicas of everything that this server holds.
  uint32_t copies() const { return replication.local_replica ? 1 : replication.replicas; }
  /// The storage that it uses, in bytes; 0: none.
  uint64_t storageBytes() const;
  backup::WriteThread writeThread() const;
  /// Whether the settings make sense together. Failure: BadConfig, in the first case of name, replicas and storage.
  Outcome<bool> check() const;

 private:
  Outcome<bool> checkName() const;
  Outcome<bool> checkReplication() const;
  Outcome<bool> checkStorage() const;
};

}  // namespace ramcore::tools
