#pragma once

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "transport/shm/ring_layout.h"

namespace ramcore::transport::shm {

inline constexpr size_t kLineBytes = 64;
inline constexpr size_t kPreparedLines = 3;
inline constexpr size_t kFetchedLines = 6;

/// The writing end of a ring: copies bytes in and publishes them together. The peer may write anything into the shared
/// memory: its position is read once per refresh() and checked before it is used, and nothing else of the memory is
/// ever read. One thread.
class RingWriter {
 public:
  RingWriter() = default;
  RingWriter(RingIndices& indices, std::byte* data, uint32_t ring_bytes)
      : indices_(&indices), data_(data), mask_(ring_bytes - 1) {}

  /// Bytes that may be written, by the last refresh. A multiple of 8 whenever the last write ended at one.
  uint32_t freeBytes() const { return static_cast<uint32_t>(ringBytes() - (written_ - consumed_)); }

  /// Looks how far the reader is. Returns false if what it says cannot be true.
  [[nodiscard]] bool refresh() {
    const uint64_t consumed = indices_->consumed.load(std::memory_order_acquire);
    if (consumed - consumed_ > published_ - consumed_ || !isAligned(consumed, 8)) return false;
    consumed_ = consumed;
    return true;
  }

  /// True if the reader has read on since the last refresh.
  bool hasNewRoom() const { return indices_->consumed.load(std::memory_order_acquire) != consumed_; }

  /// Copies `bytes` <= freeBytes() bytes behind those written before.
  void write(const std::byte* from, size_t bytes) {
    RC_DCHECK(bytes <= freeBytes());
    const size_t at = written_ & mask_;
    const size_t until_end = ringBytes() - at;
    if (bytes <= until_end) [[likely]] {
      std::memcpy(data_ + at, from, bytes);
    } else {
      std::memcpy(data_ + at, from, until_end);
      std::memcpy(data_, from + until_end, bytes - until_end);
    }
    written_ += bytes;
  }
  /// Writes zero bytes up to the next multiple of 8.
  void pad() {
    constexpr std::byte kZeros[8] = {};
    write(kZeros, alignUp(written_, 8) - written_);
  }

  uint64_t unpublishedBytes() const { return written_ - published_; }
  /// Lets the reader see what was written, up to a multiple of 8. A plain store: a locked one would begin to fetch the
  /// line of the position only when all lines of the message are there, which costs a line's way in each direction.
  void publish() {
    published_ = publishable();
    indices_->produced.store(published_, std::memory_order_release);
  }
  /// Fetches the lines of the next small message for writing, while there is nothing to do but to wait.
  void prepareNext() {
    for (size_t i = 0; i < kPreparedLines; ++i) {
      // A processor that does not know the instruction does nothing, so it need not be checked.
      asm volatile("prefetchw (%0)" : : "r"(data_ + ((written_ + i * kLineBytes) & mask_)));
    }
  }
  /// How far the reader was at the last refresh, to notice its progress.
  uint64_t consumed() const { return consumed_; }

 private:
  size_t ringBytes() const { return mask_ + 1; }
  uint64_t publishable() const { return written_ & ~uint64_t{7}; }

  RingIndices* indices_ = nullptr;
  std::byte* data_ = nullptr;
  size_t mask_ = 0;
  uint64_t written_ = 0;
  uint64_t published_ = 0;
  uint64_t consumed_ = 0;  // copy of the peer's index, checked
};

/// The reading end of a ring: copies bytes out to private memory. Every byte of the ring is read once, because the peer
/// can change it at any time. One thread.
class RingReader {
 public:
  RingReader() = default;
  RingReader(RingIndices& indices, const std::byte* data, uint32_t ring_bytes)
      : indices_(&indices), data_(data), mask_(ring_bytes - 1) {}

  /// Bytes that can be read, by the last refresh. A multiple of 8 whenever the last read ended at one.
  uint32_t availableBytes() const { return static_cast<uint32_t>(produced_ - read_); }

  /// True if the writer has published something since the last refresh: the look of the idle loop, one load.
  bool hasNews() const { return indices_->produced.load(std::memory_order_relaxed) != produced_; }

  /// Looks how far the writer is. Returns false if what it says cannot be true.
  [[nodiscard]] bool refresh() {
    const uint64_t produced = indices_->produced.load(std::memory_order_acquire);
    if (produced - read_ > ringBytes() || produced - read_ < produced_ - read_ || !isAligned(produced, 8)) return false;
    produced_ = produced;
    // All lines are fetched at once: the second line of a message must not wait for the first one, which has the
    // length.
    const size_t lines = std::min<size_t>(availableBytes() / kLineBytes + 1, kFetchedLines);
    for (size_t i = 0; i < lines; ++i) __builtin_prefetch(data_ + ((read_ + i * kLineBytes) & mask_));
    return true;
  }

  /// Copies `bytes` <= availableBytes() bytes out.
  void read(std::byte* to, size_t bytes) {
    RC_DCHECK(bytes <= availableBytes());
    const size_t at = read_ & mask_;
    const size_t until_end = ringBytes() - at;
    if (bytes <= until_end) [[likely]] {
      std::memcpy(to, data_ + at, bytes);
    } else {
      std::memcpy(to, data_ + at, until_end);
      std::memcpy(to + until_end, data_, bytes - until_end);
    }
    read_ += bytes;
  }
  /// Passes over bytes without looking at them.
  void skip(size_t bytes) {
    RC_DCHECK(bytes <= availableBytes());
    read_ += bytes;
  }

  /// Gives the space that was read back to the writer once it is a quarter of the ring, so that the writer's core
  /// fetches the line of the position rarely. A writer that found no room can rely on it: it waits only when the ring
  /// is full, and then more than a quarter is read. Returns true if it did give back: then a writer that sleeps has to
  /// be woken.
  [[nodiscard]] bool giveBackInQuarters() {
    if (read_ - given_back_ < ringBytes() / 4) return false;
    const uint64_t whole = read_ & ~uint64_t{7};
    if (whole == given_back_) return false;
    given_back_ = whole;
    indices_->consumed.store(whole, std::memory_order_release);
    return true;
  }

 private:
  size_t ringBytes() const { return mask_ + 1; }

  RingIndices* indices_ = nullptr;
  const std::byte* data_ = nullptr;
  size_t mask_ = 0;
  uint64_t read_ = 0;
  uint64_t produced_ = 0;  // copy of the peer's index, checked
  uint64_t given_back_ = 0;
};

}  // namespace ramcore::transport::shm
