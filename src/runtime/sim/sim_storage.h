#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/sim/sim_executor.h"
#include "runtime/sim/sim_scheduler.h"
#include "runtime/sim/zeroed_bytes.h"
#include "runtime/storage.h"

namespace ramcore::runtime {

struct SimDiskOptions {
  uint64_t capacity_bytes = 1ULL << 30;
  int64_t flush_ns_min = 50'000;
  int64_t flush_ns_max = 2'000'000;
  /// A write on the disk's own thread (SimDisk::occupy) takes up to `write_ns_max`. With a probability of
  /// `stall_permille` in a thousand it stalls instead, and takes up to `stall_ns_max`.
  int64_t write_ns_max = 10'000;
  uint32_t stall_permille = 2;
  int64_t stall_ns_max = 50'000'000;
  /// What becomes of each sector that was not flushed, at a power loss: with a probability of `kept_permille` in a
  /// thousand the new bytes got to the disk, with one of `torn_permille` only their first part did. Otherwise the old
  /// bytes are there.
  uint32_t kept_permille = 400;
  uint32_t torn_permille = 200;
};

/// What happened to the disk, for the totals of a run.
struct SimDiskCounts {
  uint64_t flushes = 0;
  uint64_t failed_flushes = 0;
  uint64_t stalls = 0;  ///< writes during which the disk's thread stalled
  uint64_t lies = 0;    ///< flushes that reported Ok and did nothing, while there was something to flush
  uint64_t power_losses = 0;
  uint64_t power_losses_after_lies = 0;  ///< of these, those at which bytes reported as flushed were not flushed
  uint64_t lost_sectors = 0;
  uint64_t torn_sectors = 0;
  uint64_t flipped_bits = 0;
};

/// The directory of one simulated machine's disk. It outlives the processes that open it one after the other, and the
/// scheduler outlives it. Every file has the bytes in the page cache, which readers see and which survive the death of
/// a process, and those on the disk, which survive everything.
class SimDisk {
 public:
  static constexpr uint64_t kSectorBytes = 512;

  /// Draws from the stream "disk.<name>".
  SimDisk(SimScheduler& scheduler, std::string_view name, const SimDiskOptions& options);
  SimDisk(const SimDisk&) = delete;
  SimDisk& operator=(const SimDisk&) = delete;
  /// Called when no process has the disk open (checked).
  ~SimDisk();

  /// Opens the directory for a process. Failure: InUse while another one has it.
  Outcome<std::unique_ptr<Storage>> open();

  /// Writes on `thread`, a thread of the process that has the disk open, take simulated time, and the thread is busy
  /// meanwhile. Their bytes are there from the beginning. Writes on other threads take no time.
  void occupy(SimExecutor& thread) { writer_ = &thread; }

  /// To be called when the process that has the disk open is dead: the directory is free again. Its flushes end with
  /// IoError, and so does all that is done with its objects, which may live on until they are destroyed. What was
  /// written stays.
  void killProcess();
  /// To be called when the machine loses power. As killProcess(); in addition each sector that was not flushed becomes
  /// new, old or torn, by the seed.
  void losePower();

  // Faults.
  /// The next `count` flushes fail, and what they should have flushed never gets to the disk. A flush at whose end
  /// `may_fail` returns false does not fail and does not count.
  void failFlushes(uint32_t count, std::function<bool()> may_fail = {});
  /// From now on flushes report Ok and do nothing. What they left out is flushed by the next one that does not lie,
  /// unless power is lost before.
  void setLying(bool lying) { lying_ = lying; }
  /// True if the disk has reported bytes as flushed that are not on it.
  bool owesFlushes() const;
  /// True if all that was written to these bytes survives everything.
  bool isFlushed(std::string_view name, uint64_t first, uint64_t bytes) const;
  void setFlushTime(int64_t ns_min, int64_t ns_max);
  void setStalls(uint32_t permille, int64_t ns_max);
  PowerEpoch powerEpoch() const { return power_epoch_; }
  /// From now on the power epoch is not known: nothing tells when the machine lost its power.
  void hidePowerEpoch() { power_epoch_ = {}; }
  /// Flips `count` bits, anywhere on the disk.
  void flipBits(uint32_t count);
  void flipBit(std::string_view name, uint64_t bit);

  const SimDiskCounts& counts() const { return counts_; }
  /// What a process that opened the file now would read. Valid until the file is written or removed. Empty: there is no
  /// such file.
  ByteSpan cachedBytes(std::string_view name) const;
  /// What a process would read after a power loss now, if nothing that was not flushed got to the disk. Valid and empty
  /// as cachedBytes().
  ByteSpan flushedBytes(std::string_view name) const;
  /// Grows whenever some of these bytes, or others close to them, may have changed; 0: never written.
  uint64_t lastChange(std::string_view name, uint64_t offset_bytes, uint64_t bytes) const;
  uint64_t usedBytes() const;

 private:
  /// A set of sectors of a file. remove() and clear() take as many steps as there are sectors in it.
  class Sectors {
   public:
    void resize(uint64_t count) { has_.resize(count); }
    void add(uint64_t sector) {
      if (has_[sector]) return;
      has_[sector] = true;
      all_.push_back(sector);
    }
    void remove(const std::vector<uint64_t>& sectors);
    void clear() { remove(std::vector(all_)); }
    bool has(uint64_t sector) const { return has_[sector]; }
    const std::vector<uint64_t>& all() const { return all_; }

   private:
    std::vector<bool> has_;
    std::vector<uint64_t> all_;
  };
  struct Content {
    ZeroedBytes cached;
    ZeroedBytes flushed;
    Sectors dirty;         // sectors that differ, as far as the system knows
    Sectors dropped;       // sectors that differ and that the system takes for flushed
    bool is_owed = false;  // some of them were reported as flushed

    std::vector<uint64_t> changes;  // by block of the cached bytes: number of its last change

    void noteChange(uint64_t number, uint64_t offset_bytes, uint64_t bytes);
    static void copySector(uint64_t sector, const ZeroedBytes& from, ZeroedBytes& to);
  };
  class Mount;
  class File;
  struct FlushEvent;

  void loseUnflushed(Content& content);
  void keepForFlushes(const File& file, uint64_t sector);
  void spendOnWrite();
  bool failsNow();

  SimScheduler& scheduler_;
  SimDiskOptions options_;
  Random random_;
  Random write_random_;
  SimExecutor* writer_ = nullptr;
  std::map<std::string, std::shared_ptr<Content>, std::less<>> files_;
  std::shared_ptr<bool> alive_;  // whether the process that has the disk open is alive; nullptr: none has
  std::list<FlushEvent> flushing_;
  SimDiskCounts counts_;
  uint64_t change_count_ = 0;
  PowerEpoch power_epoch_{1};
  uint32_t flushes_to_fail_ = 0;
  std::function<bool()> may_fail_;
  bool lying_ = false;
};

}  // namespace ramcore::runtime
