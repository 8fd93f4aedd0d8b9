#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "runtime/executor.h"

namespace ramcore::runtime {

/// One request to flush a file. Owned by the caller, which keeps it alive until it has run.
struct Flush : Job {
  /// @param run  called on `executor` when the flush is over, with `status` set
  Flush(Run run, Executor& executor, Priority priority) : Job(run), executor(executor), priority(priority) {}

  Executor& executor;
  Priority priority;
  /// Ok: everything that was written before StorageFile::flush was called survives a power loss.
  /// IoError: nothing is known about it, now or later; the file is condemned.
  Status status = Status::Internal;
};

/// A file whose size was fixed when it was made and whose space on the disk is allocated, so that writing into it
/// cannot run out of space. Thread: any, but not two writes or reads of the same bytes at once. Destroyed after its
/// flushes are over (checked) and before its Storage.
class StorageFile {
 public:
  virtual ~StorageFile() = default;
  virtual uint64_t bytes() const = 0;

  /// Writes `pieces` one behind the other. On return they survive the end of this process, but not yet a crash of the
  /// machine. May block for as long as the system takes to free page cache.
  /// @return BadRequest if they reach beyond the end; IoError
  [[nodiscard]] virtual Status write(uint64_t offset_bytes, std::span<const ByteSpan> pieces) = 0;
  [[nodiscard]] Status write(uint64_t offset_bytes, ByteSpan bytes) {
    return write(offset_bytes, std::span<const ByteSpan>(&bytes, 1));
  }
  /// How often the calling thread has waited for something so far. If this is the same before and after a slow write,
  /// the thread had lost its processor, and the disk is not the cause. A simulated file always returns 0. About 0.2 us.
  virtual uint64_t threadWaits() const { return 0; }
  /// Fills all of `out`. May block on the disk.
  /// @return BadRequest if it reaches beyond the end; IoError
  [[nodiscard]] virtual Status read(uint64_t offset_bytes, MutableByteSpan out) = 0;
  /// A hint: those of these bytes that are durable need not be kept in memory, so that the next read shows what the
  /// disk has.
  virtual void forgetCached([[maybe_unused]] uint64_t offset_bytes, [[maybe_unused]] uint64_t bytes) {}

  /// Makes all that was written before durable; flushes that are asked for at the same time share the work. Never
  /// blocks.
  ///
  /// A flush that failed is final: the system forgets which bytes it could not write, so a second try "succeeds" and
  /// means nothing. All later writes and flushes of this object give IoError; reading goes on.
  virtual void flush(Flush& flush) = 0;
  /// True after a failed flush.
  virtual bool isCondemned() const = 0;
};

/// A period in which a machine did not lose what was written and not flushed: from one start of its operating system to
/// the next. None: the period is not known; it may differ from every other one.
using PowerEpoch = Id<struct PowerEpochTag, uint64_t>;

struct StorageCapacity {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  ///< available for new files
};

/// The files of one directory, which belongs to this object alone while it lives: others get InUse. Names have 1..100
/// characters of a-z, 0-9, '_' and '-'. Everything here may block for long: it is for the start and for background work
/// only.
class Storage {
 public:
  virtual ~Storage() = default;

  /// Makes a file of `bytes` bytes of value zero. On return the file, with its name and space, survives a power loss; a
  /// crash before leaves nothing. Failure: InUse (there is such a file), NoSpace, BadConfig (the name), IoError.
  virtual Outcome<std::unique_ptr<StorageFile>> create(std::string_view name, uint64_t bytes) = 0;
  /// Failure: NotFound, BadConfig (the name), IoError.
  virtual Outcome<std::unique_ptr<StorageFile>> open(std::string_view name) = 0;
  /// Names of all files, sorted. Failure: IoError.
  virtual Outcome<std::vector<std::string>> list() = 0;
  /// Removes a file that is not open, durably. Failure: NotFound, BadConfig (the name), IoError.
  [[nodiscard]] virtual Status remove(std::string_view name) = 0;
  /// Failure: IoError.
  virtual Outcome<StorageCapacity> capacity() = 0;
  /// The present power epoch. Never blocks. Bytes that were written when another object of this directory had the same
  /// power epoch are still there. If it had another one, only what had been flushed is certain.
  virtual PowerEpoch powerEpoch() const = 0;

  static bool isValidName(std::string_view name);
};

}  // namespace ramcore::runtime
