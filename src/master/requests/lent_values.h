#pragma once

#include <atomic>

#include "log/memory/log_stats.h"
#include "runtime/pins.h"
#include "transport/message.h"

namespace ramcore::master {

struct LendingOptions {
  /// What answers in transmission may pin: the sum of their values, and the memory that has left the log and is only
  /// kept for them, each. Beyond it values are copied, at most as many bytes again. More: fewer copies while many long
  /// values are read at once. Less: less memory that writes have to do without for a moment. Never more than an eighth
  /// of the log's memory.
  uint64_t pinned_bytes_max = 128 * 1024 * 1024;
  /// The log's memory as the transports have registered it; 0: they have not.
  transport::RegionId region = 0;
};

/// Values that answers show from where they lie in the log, each under a pin that the transport gives back.
///
/// One pin keeps all memory from being used again that leaves the log after it was taken (runtime/pins.h), so what is
/// bounded is both: what is lent, and what waits for it. How long a pin may be out is the transport's to bound
/// (transport::Endpoint). And no pin is held by an answer that waits for something else than the transport: it might be
/// replication, which waits for a new head, which waits for memory.
///
/// Any thread. Outlives the messages that show its values.
class LentValues final : private transport::ChunkOwner {
 public:
  /// @param memory_bytes  of the log
  /// @param log, pins     borrowed; outlive this
  LentValues(const LendingOptions& options, uint64_t memory_bytes, const log::LogStats& log,
             runtime::PinRegistry& pins);
  LentValues(const LentValues&) = delete;
  LentValues& operator=(const LentValues&) = delete;
  /// Everything is back (checked).
  ~LentValues();

  /// A chunk that shows `value`, which is not empty and was found in the read section that goes on: pinned, or beyond
  /// the bound a copy. Without an address: copies are at their bound, too. `pin_slot`: Threads::pinSlotOf.
  [[nodiscard]] transport::Chunk lend(ByteSpan value, uint32_t pin_slot);
  /// Puts copies in the place of all pinned values of `message`, for whoever waits before it is sent. False, and some
  /// may still be pinned: copies are at their bound.
  [[nodiscard]] bool copyOut(transport::TxBuffer& message);

  struct Stats {
    std::atomic<uint64_t> pinned_bytes{0};   ///< of values that answers show from the log now
    std::atomic<uint64_t> copied_bytes{0};   ///< of values that answers have copies of now
    std::atomic<uint64_t> values_copied{0};  ///< because too much was pinned, or the answer had to wait
    std::atomic<uint64_t> refused{0};        ///< too much was copied, too
    std::atomic<uint64_t> values_lent{0};    ///< shown from the log
    std::atomic<uint64_t> values_back{0};    ///< of these, those that the transport has done with
  };
  const Stats& stats() const { return stats_; }
  /// What both pins and copies may reach.
  uint64_t bytesMax() const { return bytes_max_; }
  /// True while messages show values of this.
  bool isLending() const;

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
