#pragma once

#include <atomic>

#include "log/memory/log_stats.h"
#include "runtime/pins.h"
#include "transport/message.h"

namespace ramcore::master {

struct PinningOptions {
  /// The most that answers in transmission may pin. It bounds two things, each by itself: the sum of their values, and
  /// the memory that has left the log and is kept only for them. Beyond it values are copied, at most as many bytes
  /// again. A higher value means fewer copies while many long values are read at once. A lower value means less memory
  /// that writes have to do without for a moment. It never counts as more than an eighth of the log's memory.
  uint64_t pinned_bytes_max = 128 * 1024 * 1024;
  /// The log's memory as the transports have registered it; 0: they have not.
  transport::RegionId region = 0;
};

/// Values that answers borrow from where they lie in the log, each under a pin that the transport gives back.
///
/// One pin keeps all memory that leaves the log after it was taken from being used again (runtime/pins.h). So both are
/// bounded: the values that are borrowed, and the memory that waits for their pins. The transport bounds how long a pin
/// is held (transport::Endpoint). An answer that waits for anything but the transport holds no pin: it might wait for
/// replication, which waits for a new log head, which waits for memory.
///
/// Any thread. Outlives the messages that borrow its values.
class PinnedValues final : private transport::ChunkOwner {
 public:
  /// @param memory_bytes  of the log
  /// @param log, pins     borrowed; outlive this
  PinnedValues(const PinningOptions& options, uint64_t memory_bytes, const log::LogStats& log,
               runtime::PinRegistry& pins);
  PinnedValues(const PinnedValues&) = delete;
  PinnedValues& operator=(const PinnedValues&) = delete;
  /// All values have been given back (checked).
  ~PinnedValues();

  /// A chunk with `value`, which is not empty and was found in the current read section. The value is pinned, or copied
  /// if the bound is reached. A chunk without an address means that copies have reached their bound, too. `pin_slot`:
  /// Threads::pinSlotOf.
  [[nodiscard]] transport::Chunk borrow(ByteSpan value, uint32_t pin_slot);
  /// Replaces all pinned values of `message` by copies, for an answer that waits before it is sent. Returns false if
  /// copies have reached their bound; then some values may still be pinned.
  [[nodiscard]] bool copyOut(transport::TxBuffer& message);

  struct Stats {
    std::atomic<uint64_t> pinned_bytes{0};   ///< bytes of values that answers borrow from the log now
    std::atomic<uint64_t> copied_bytes{0};   ///< bytes of values that answers have copies of now
    std::atomic<uint64_t> values_copied{0};  ///< values copied, because too much was pinned, or the answer had to wait
    std::atomic<uint64_t> refused{0};        ///< values refused, because too much was copied, too
    std::atomic<uint64_t> values_borrowed{0};  ///< values borrowed from the log
    std::atomic<uint64_t> values_back{0};      ///< values of these that the transport has given back
  };
  const Stats& stats() const { return stats_; }
  /// The bound of pinned bytes, and also that of copied bytes.
  uint64_t bytesMax() const { return bytes_max_; }
  /// True while messages have values of this object, borrowed or copied.
  bool isBorrowed() const;

 private:
  struct Loan;

  static bool takeRoom(std::atomic<uint64_t>& used, uint64_t bytes, uint64_t bytes_max);
  transport::Chunk copyOf(ByteSpan value);
  void releaseChunk(uint64_t token) noexcept override;

  const uint64_t bytes_max_;
  const transport::RegionId region_;
  const log::LogStats& log_;
  runtime::PinRegistry& pins_;
  Stats stats_;
};

}  // namespace ramcore::master
