#pragma once

#include "transport/shm/message_pool.h"
#include "transport/shm/ring.h"
#include "wire/frame.h"

namespace ramcore::transport::shm {

/// What one step of a FrameReader gave.
enum class FrameStep : uint8_t {
  Nothing,  ///< the rest of the frame, or of all frames, has not come yet
  Message,  ///< a whole message: header() and takeMessage()
  Close,    ///< the peer ends the session in order
  NoRoom,   ///< the next message is longer than allowed for now; step() may be called again later
  Bad,      ///< bytes that make no sense; nothing more can be read
};

/// Takes frames out of a ring. Every byte is copied to private memory once, headers before they are checked, and the
/// message into a block of the pool. So a message that was taken out does not change, whatever the peer does. One
/// thread.
class FrameReader {
 public:
  /// @param slot_count  slots of the session; frames that name others are bad.
  FrameReader(RingReader ring, MessagePool& pool, uint16_t slot_count)
      : ring_(ring), pool_(&pool), slot_count_(slot_count) {}
  FrameReader(const FrameReader&) = delete;
  FrameReader& operator=(const FrameReader&) = delete;
  ~FrameReader() {
    if (block_ != nullptr) pool_->drop(block_);
  }

  /// One load: whether step() can have anything new to do since it last said Nothing.
  bool hasNews() const { return ring_.hasNews(); }

  /// Looks once how far the writer is. Returns false if that makes no sense.
  [[nodiscard]] bool refresh() { return ring_.refresh(); }
  /// Takes out the next frame, as far as it was there at the last refresh.
  /// @param room_bytes  a longer message is not begun now, if MessagePool counts it (kCountedBytesMin).
  FrameStep step(uint64_t room_bytes = UINT64_MAX);

  /// True while the beginning of a message is there, with memory for all of it.
  bool hasPart() const { return block_ != nullptr; }
  uint32_t heldBytes() const { return block_ != nullptr ? header_.message_bytes : 0; }
  /// Bytes of messages, and messages, that were taken out so far.
  uint64_t receivedBytes() const { return received_bytes_; }
  uint64_t messageCount() const { return message_count_; }

  /// The header of the message that step() gave.
  const wire::FrameHeader& header() const { return header_; }
  RxMessage takeMessage();

  /// Gives ring space back now and then; true if it did: see RingReader::giveBackInQuarters.
  [[nodiscard]] bool giveBack() { return ring_.giveBackInQuarters(); }

 private:
  RingReader ring_;
  MessagePool* pool_;
  uint16_t slot_count_;
  bool has_header_ = false;
  wire::FrameHeader header_;
  MessageBlock* block_ = nullptr;
  uint32_t copied_bytes_ = 0;
  uint64_t received_bytes_ = 0;
  uint64_t message_count_ = 0;
};

}  // namespace ramcore::transport::shm
