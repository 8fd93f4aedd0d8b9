#pragma once

#include <span>

#include "runtime/clock.h"
#include "transport/message.h"
#include "wire/frame.h"

namespace ramcore::transport::tcp {

/// The messages that one session has still to write, in order, as the pieces of memory they consist of. Releases the
/// owners of a message when its last byte was taken. One thread.
class SendQueue {
 public:
  /// @param unsent_bytes_of_all  counts the unsent bytes of this queue and of others; borrowed
  explicit SendQueue(uint64_t& unsent_bytes_of_all) : unsent_bytes_of_all_(unsent_bytes_of_all) {}
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;
  ~SendQueue() { clear(); }

  /// Appends a message behind its header. Fields of `header` that say how long it is are filled in.
  void push(TxMessage message, wire::FrameHeader header);
  bool empty() const { return first_ == nullptr; }
  /// Bytes of all frames that are not written yet.
  uint64_t unsentBytes() const { return unsent_bytes_; }
  /// Unsent bytes of responses.
  uint64_t unsentAnswerBytes() const;
  /// True if the next byte is the first of a frame.
  bool isAtFrame() const { return first_sent_bytes_ == 0; }

  /// Lists the next bytes to be written. Returns the number of pieces, 0 if there is nothing.
  size_t gather(std::span<ByteSpan> pieces) const;
  /// The first `bytes` bytes of what gather() listed were written. Returns how many messages that finished.
  size_t advance(size_t bytes);

  /// TxBuffer::borrowed_since_ns of the first message whose owners still wait for its bytes; kNever if there is none.
  int64_t oldestBorrowedNs() const {
    return first_borrowed_ == nullptr ? runtime::kNever : first_borrowed_->borrowed_since_ns;
  }
  /// Bytes that would lie in copies after copyOut(borrowed_until_ns).
  uint64_t bytesInCopies(int64_t borrowed_until_ns) const;
  /// Copies all borrowed bytes of messages that were borrowed at `borrowed_until_ns` or before and are not copied yet,
  /// and releases their owners. Returns how many messages that were.
  size_t copyOut(int64_t borrowed_until_ns);
  /// Copies bytes that have no owner out of the request with this slot and sequence, if it still waits: its caller
  /// takes them back.
  void copyUnowned(uint16_t slot, uint32_t sequence);
  /// Drops everything; owners are released.
  void clear();

 private:
  void popFirst();
  void countUnsent(uint64_t bytes);
  void countSent(uint64_t bytes);

  TxBuffer* first_ = nullptr;
  TxBuffer* last_ = nullptr;
  TxBuffer* first_borrowed_ = nullptr;  // the first one that holdsBorrowed(), or nullptr
  uint64_t first_sent_bytes_ = 0;       // of the first message's frame
  uint64_t unsent_bytes_ = 0;
  uint64_t& unsent_bytes_of_all_;
  uint64_t answer_bytes_ = 0;  // of the frames of responses, also of a first one that is partly sent
};

}  // namespace ramcore::transport::tcp
