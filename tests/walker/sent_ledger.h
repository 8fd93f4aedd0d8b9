#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace ramcore::walker {

/// The bytes that a process has handed to a device: sums over its gather lists or chains, as they were found there.
/// Words of 8 bytes in a file (RAMCORE_SENT_LEDGER) that the judge reads meanwhile: sent_ledger.py, which has the same
/// order.
///
/// Whether a byte is in the log is decided by its address alone: registered memory of at least RAMCORE_SENT_LOG_BYTES
/// is the log. The transport's own decisions and counts are not used.
struct SentLedger {
  using Word = std::atomic<uint64_t>;

  Word log_regions;    ///< registered ones as large as the log
  Word messages;       ///< requests and answers; of frames: those that hold a piece of one
  Word payload_bytes;  ///< all that was handed over, but for the headers of frames
  Word log_bytes;      ///< of these, in the log
  Word log_pieces;     ///< entries of gather lists, or segments, in the log
  Word stray_pieces;   ///< those elsewhere that hold kLongBytes or more of what follows a message's own head
  Word stray_bytes_max;
  Word again_bytes;  ///< in the log, of packets that had been sent before

  static constexpr uint64_t kLongBytes = 256;

  /// Of this process; it ends when there is no file.
  static SentLedger& ofProcess() {
    static SentLedger* const ledger = open();
    return *ledger;
  }
  void addStray(uint64_t bytes) {
    if (bytes < kLongBytes) return;
    add(stray_pieces, 1);
    if (bytes > stray_bytes_max.load(std::memory_order_relaxed)) {
      stray_bytes_max.store(bytes, std::memory_order_relaxed);
    }
  }
  static void add(Word& word, uint64_t count) { word.fetch_add(count, std::memory_order_relaxed); }

 private:
  static SentLedger* open() {
    const char* const path = std::getenv("RAMCORE_SENT_LEDGER");
    const int file = path != nullptr ? ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    void* at = MAP_FAILED;
    if (file >= 0 && ::ftruncate(file, sizeof(SentLedger)) == 0) {
      at = ::mmap(nullptr, sizeof(SentLedger), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    if (at == MAP_FAILED) std::abort();
    ::close(file);
    return static_cast<SentLedger*>(at);
  }
};

/// The log's memory, once it is registered. Written before anything is sent.
class RegisteredLog {
 public:
  static void note(const void* base, size_t bytes) {
    const char* const least = std::getenv("RAMCORE_SENT_LOG_BYTES");
    if (least == nullptr) std::abort();
    if (bytes < std::strtoull(least, nullptr, 10)) return;
    begin = reinterpret_cast<uint64_t>(base);
    end = begin + bytes;
    SentLedger::add(SentLedger::ofProcess().log_regions, 1);
  }
  static bool holds(uint64_t address, uint64_t bytes) { return address >= begin && address + bytes <= end; }

 private:
  static inline uint64_t begin = 0;
  static inline uint64_t end = 0;
};

}  // namespace ramcore::walker
