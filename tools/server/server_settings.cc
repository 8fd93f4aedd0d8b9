#include "tools/server/server_settings.h"

#include "backup/frame_file.h"
#include "base/bytes.h"
#include "coordinator/tablets/table_manager.h"
#include "log/memory/log_config.h"
#include "tools/server/memory_choice.h"
#include "tools/server/sizing.h"
#include "tools/support/display.h"

namespace ramcore::tools {
namespace {

constexpr uint64_t kMegabyte = uint64_t{1} << 20;

}  // namespace

uint64_t ServerSettings::storageBytes() const {
  return storage_bytes.value_or(storageBytesDefault(logConfigOf(memory_bytes), copies()));
}

backup::WriteThread ServerSettings::writeThread() const {
  if (storage_writes == "inline") return backup::WriteThread::Dispatch;
  return storage_writes == "handoff" ? backup::WriteThread::Disk : backup::WriteThread::Auto;
}

Outcome<bool> ServerSettings::check() const {
  const auto named = checkName();
  if (!named.ok()) return named.error();
  const auto replicated = checkReplication();
  if (!replicated.ok()) return replicated.error();
  return checkStorage();
}

Outcome<bool> ServerSettings::checkName() const {
  if (coordinator::TableManager::isTableName(name)) return true;
  return Failure{Status::BadConfig, "--name of " + std::to_string(name.size()) +
                                        " bytes; names are UTF-8 of 1 to 255 bytes without control characters, for "
                                        "example --name server1"};
}

Outcome<bool> ServerSettings::checkReplication() const {
  const master::ReplicationOptions& wanted = replication;
  if (wanted.local_replica && storage_bytes == 0U) {
    return Failure{Status::BadConfig, "--local-replica needs storage; leave out --storage-bytes 0"};
  }
  if (wanted.local_replica && wanted.replicas == 0) {
    return Failure{Status::BadConfig,
                   "--local-replica keeps one copy and --replicas 0 keeps none; leave out one of the two"};
  }
  if (wanted.replicas != 0 && wanted.min_replicas > wanted.replicas) {
    return Failure{Status::BadConfig, "--min-replicas " + std::to_string(wanted.min_replicas) +
                                          " is more than --replicas " + std::to_string(wanted.replicas) +
                                          "; writes would be refused for ever: lower it"};
  }
  return true;
}

Outcome<bool> ServerSettings::checkStorage() const {
  const uint64_t least = backup::FrameFile::fileBytes(backup::FrameFile::kFrameCountMin, log::LogConfig::kFrameBytes);
  if (storageBytes() == 0 || storageBytes() >= least) return true;
  return Failure{Status::BadConfig, "--storage-bytes " + formatSize(storageBytes()) + " is too little; give at least " +
                                        formatSize(alignUp(least, kMegabyte)) + ", or 0 to keep no replicas"};
}

}  // namespace ramcore::tools
