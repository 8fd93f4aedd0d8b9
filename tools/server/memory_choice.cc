#include "tools/server/memory_choice.h"

#include <algorithm>
#include <string>

#include "log/bookkeeping.h"
#include "log/format/entry_ref.h"
#include "tools/server/sizing.h"
#include "tools/support/display.h"

namespace ramcore::tools {
namespace {

constexpr uint64_t kMemoryStepBytes = uint64_t{1} << 20;

uint64_t leastMemory() { return kMemoryBytesMin; }

uint64_t mostMemory() {
  uint64_t most = log::EntryRef::kMemoryBytesMax;
  while (!logConfigOf(most).validate().ok()) most /= 2;
  return most;
}

// The most memory, in whole megabytes, that fits into `bytes` with what comes on top of it; 0: none fits.
uint64_t memoryWithin(uint64_t bytes) {
  uint64_t fits = 0;
  uint64_t too_much = bytes / kMemoryStepBytes + 1;
  while (too_much - fits > 1) {
    const uint64_t middle = fits + (too_much - fits) / 2;
    const uint64_t memory_bytes = middle * kMemoryStepBytes;
    (memory_bytes + bytesBeside(memory_bytes) <= bytes ? fits : too_much) = middle;
  }
  return fits * kMemoryStepBytes;
}

Outcome<uint64_t> chooseByItself(const runtime::MemoryLimit& limit) {
  // A sixteenth stays free: for files that the system caches, and for other processes.
  const uint64_t fitting = std::min(memoryWithin(limit.free_bytes / 16 * 15), mostMemory());
  const uint64_t least = leastMemory();
  if (fitting >= least) return fitting;
  return Failure{Status::BadConfig, "--memory auto: " + limit.who + " has " + formatBytes(limit.free_bytes) +
                                        " free, and the smallest server needs " +
                                        formatBytes(least + bytesBeside(least)) +
                                        "; give it more, or stop other processes"};
}

}  // namespace

log::LogConfig logConfigOf(uint64_t memory_bytes) { return log::LogConfig::forMemory(memory_bytes); }

uint64_t bytesBeside(uint64_t memory_bytes) {
  constexpr uint64_t kMessagesBytes = uint64_t{64} << 20;
  return memory_bytes / 8 + log::bookkeepingBytes(logConfigOf(memory_bytes)) + kMessagesBytes;
}

Outcome<uint64_t> chooseMemory(std::optional<uint64_t> wanted, const runtime::MemoryLimit& limit) {
  if (!wanted) return chooseByItself(limit);
  const uint64_t least = leastMemory();
  const std::string given = "--memory " + formatSize(*wanted);
  const bool is_too_much = *wanted > limit.bytes || *wanted + bytesBeside(*wanted) > limit.bytes;
  if (*wanted >= least && limit.bytes != 0 && is_too_much) {
    const uint64_t example = std::max(least, memoryWithin(limit.bytes / 16 * 15));
    return Failure{Status::BadConfig, given + " and about " + formatBytes(bytesBeside(*wanted)) +
                                          " of index and buffers are more than " + limit.who + " has, " +
                                          formatBytes(limit.bytes) +
                                          ": the system kills a process that takes more; give less, for example " +
                                          formatSize(example) + ", or --memory auto"};
  }
  if (*wanted >= least && logConfigOf(*wanted).validate().ok()) return *wanted;
  return Failure{Status::BadConfig, given + " is too " + (*wanted < least ? "little" : "much") + " for a log; give " +
                                        formatSize(least) + " to " + formatSize(mostMemory()) +
                                        ", for example --memory " + formatSize(std::max(least, uint64_t{1} << 30))};
}

}  // namespace ramcore::tools
