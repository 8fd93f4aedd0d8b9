#pragma once

#include <atomic>
#include <memory>

#include "base/bytes.h"
#include "base/result.h"
#include "log/format/entry_ref.h"

namespace ramcore::log {

/// Which pages the memory of a log lies in.
enum class Pages : uint8_t {
  Transparent,  ///< huge ones where the kernel has them just then
  Reserved,     ///< huge ones of 2 MB that the machine has set aside for programs that ask (vm.nr_hugepages)
};

/// The one mapping that holds a server's log: aligned to 2 MB, in huge pages where the kernel gives them, not in core
/// dumps, not in children. Never grows or moves, so a transport can register it once.
class LogMemory {
 public:
  static constexpr uint64_t kAlignmentBytes = 2u << 20;

  /// Reserves the address range; no page is touched yet.
  /// @param bytes  1..EntryRef::kMemoryBytesMax
  /// Failure: BadConfig: `bytes` is outside of its range; NoSpace: the machine has not set aside as much
  /// (Pages::Reserved); IoError.
  static Outcome<std::unique_ptr<LogMemory>> open(uint64_t bytes, Pages pages = Pages::Transparent);
  ~LogMemory();
  LogMemory(const LogMemory&) = delete;
  LogMemory& operator=(const LogMemory&) = delete;

  /// Touches the next piece (64 MB) of the memory that no thread has taken, so that no request pays for first touch
  /// (0.45 GB/s per thread on a virtual machine). Any number of threads call it until it returns false: nothing is left
  /// to take, or a piece could not be filled. All is filled when every caller has seen false, and prefaulted() says so.
  bool prefaultNext();
  /// Failure, NoSpace: the machine had no page for a part of the memory. Touching that part would end the process. Any
  /// thread, when every caller of prefaultNext() has seen false.
  Outcome<bool> prefaulted() const;
  /// Bytes filled so far, for progress lines. Any thread.
  uint64_t prefaultedBytes() const { return prefaulted_bytes_.load(std::memory_order_relaxed); }

  std::byte* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  std::byte* at(EntryRef ref) const { return base_ + ref.offsetBytes(); }
  std::byte* at(uint64_t offset_bytes) const { return base_ + offset_bytes; }

 private:
  LogMemory(std::byte* mapping, uint64_t mapping_bytes, std::byte* base, uint64_t bytes)
      : mapping_(mapping), mapping_bytes_(mapping_bytes), base_(base), bytes_(bytes) {}

  std::byte* const mapping_;
  const uint64_t mapping_bytes_;
  std::byte* const base_;
  const uint64_t bytes_;
  std::atomic<uint64_t> next_piece_bytes_{0};
  std::atomic<uint64_t> prefaulted_bytes_{0};
  std::atomic<int> prefault_error_{0};  ///< errno of the last prefaulting that failed
};

}  // namespace ramcore::log
