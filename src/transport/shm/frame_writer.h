#pragma once

#include <memory>
#include <optional>

#include "runtime/clock.h"
#include "transport/message.h"
#include "transport/shm/ring.h"
#include "wire/frame.h"

namespace ramcore::transport::shm {

/// Puts frames into a ring. A frame that fits is copied in at once, so that the log is unpinned and the buffer is back
/// in its pool before the caller goes on; what does not fit waits in a queue and flows as the peer reads. One thread.
///
/// The queue is bounded by the session's slots: one request or one response for each.
class FrameWriter {
 public:
  explicit FrameWriter(RingWriter ring) : ring_(ring) {}
  FrameWriter(const FrameWriter&) = delete;
  FrameWriter& operator=(const FrameWriter&) = delete;
  ~FrameWriter() { dropQueue(); }

  /// Sends `header` and the message, of which it becomes the owner. Not visible to the peer before publish(), unless
  /// the message is long. Returns false if the peer's position makes no sense; the message is taken all the same.
  [[nodiscard]] bool send(const wire::FrameHeader& header, TxMessage message);

  /// Writes messages that wait, as far as there is room. Returns false if the peer's position makes no sense.
  [[nodiscard]] bool pump();
  bool isBlocked() const { return first_ != nullptr; }
  /// Bytes of the frames that wait, those included that are partly out.
  uint64_t queuedBytes() const { return queued_bytes_; }

  /// Lets the peer see everything that was written, also the beginning of a frame.
  void publish() { ring_.publish(); }
  void prepareNext() { ring_.prepareNext(); }
  /// How far the peer has read, to tell a slow one from one that stands still.
  uint64_t peerPosition() const { return ring_.consumed(); }

  bool hasNewRoom() const { return ring_.hasNewRoom(); }

  /// TxBuffer::borrowed_since_ns of the first waiting message whose owners still wait for its bytes; kNever if none do.
  int64_t oldestBorrowedNs() const {
    return first_borrowed_ == nullptr ? runtime::kNever : first_borrowed_->borrowed_since_ns;
  }
  /// Copies the bytes of waiting messages that were borrowed at `borrowed_until_ns` or before to the heap, and releases
  /// their owners, so that memory of the log can be freed. Returns how many messages that were. If there would be more
  /// than `bytes_max` bytes in copies, it does nothing and returns nullopt.
  [[nodiscard]] std::optional<uint64_t> copyOutQueue(uint64_t bytes_max, int64_t borrowed_until_ns);

  /// Puts an empty frame behind everything if there is room for it now.
  void tryFinish(const wire::FrameHeader& header);

 private:
  void copyWhole(const wire::FrameHeader& header, TxBuffer& buffer);
  bool copySome(TxBuffer& buffer);
  bool copyPart(const std::byte* from, uint32_t bytes);
  void takeFromQueue();
  void dropQueue();

  RingWriter ring_;
  TxBuffer* first_ = nullptr;  // its header stands in front of its head
  TxBuffer* last_ = nullptr;
  TxBuffer* first_borrowed_ = nullptr;  // the first one that holdsBorrowed(), or nullptr
  uint32_t part_ = 0;                   // of first_: 0 = header and head, n = chunk n - 1
  uint32_t part_offset_bytes_ = 0;
  uint64_t queued_bytes_ = 0;
};

}  // namespace ramcore::transport::shm
