#pragma once

#include <algorithm>

#include "transport/memory/rx_block.h"
#include "wire/frame.h"

namespace ramcore::transport::tcp {

/// The block that the sessions of an endpoint read into one after the other. A session leaves whole messages in it and
/// takes the beginning of an unfinished one away, so that an idle session holds no memory.
class SharedBlock {
 public:
  explicit SharedBlock(RxBlockPool& pool) : pool_(pool) {}
  SharedBlock(const SharedBlock&) = delete;
  SharedBlock& operator=(const SharedBlock&) = delete;
  ~SharedBlock();

 private:
  friend class FrameReader;
  static constexpr uint32_t kRoomMin = 16 * 1024;

  /// Makes room behind the bytes that are still in use.
  void prepare();

  RxBlockPool& pool_;
  RxBlock* block_ = nullptr;
  uint32_t used_bytes_ = 0;
};

enum class FrameStep : uint8_t {
  Nothing,  ///< more bytes are needed
  Message,  ///< header() and takeMessage()
  Close,    ///< the peer ends the session in order
  Bad,      ///< bytes that no honest peer sends; the session is to be closed
};

/// Cuts the byte stream of one session into messages, which stay where they were read. One thread.
class FrameReader {
 public:
  FrameReader(RxBlockPool& pool, SharedBlock& shared, uint16_t slot_count)
      : pool_(pool), shared_(shared), slot_count_(slot_count) {}
  FrameReader(const FrameReader&) = delete;
  FrameReader& operator=(const FrameReader&) = delete;
  ~FrameReader() { dropBlock(); }

  /// Returns where the next bytes are to be read; never empty. To be called only after step() returned Nothing. Until
  /// received() no other reader of the same SharedBlock may call it.
  MutableByteSpan room();
  /// To be called when `bytes` bytes were put there; 0 if there were none.
  void received(uint32_t bytes);
  /// Looks at the next frame. After Message, takeMessage() comes before the next step().
  FrameStep step();
  const wire::FrameHeader& header() const { return header_; }
  RxMessage takeMessage();

  /// After step() said Nothing: true if the beginning of a frame is there.
  bool hasPart() const { return block_ != nullptr; }
  /// Memory that belongs to that beginning alone.
  uint32_t heldBytes() const { return block_ != nullptr && !is_shared_ ? block_->capacity() : 0; }
  /// Memory that room() will take for the rest of the frame; 0 if it has room already.
  uint32_t wantedBytes() const { return needsOwnBlock() ? std::max(neededBytes(), RxBlockPool::kBlockBytes) : 0; }
  /// All bytes and messages so far.
  uint64_t receivedBytes() const { return received_bytes_; }
  uint64_t messageCount() const { return message_count_; }

 private:
  bool needsOwnBlock() const {
    return block_ != nullptr && (is_shared_ || begin_ + neededBytes() > block_->capacity());
  }
  /// Bytes the frame at begin_ is known to need: at least a header.
  uint32_t neededBytes() const;
  void dropBlock();
  void moveToOwnBlock();

  RxBlockPool& pool_;
  SharedBlock& shared_;
  const uint16_t slot_count_;
  RxBlock* block_ = nullptr;  // holds [begin_, end_), the bytes that are not yet delivered
  bool is_shared_ = false;    // block_ is (or was) the shared one: others read behind end_
  bool has_header_ = false;
  uint32_t begin_ = 0;
  uint32_t end_ = 0;
  wire::FrameHeader header_{};
  uint64_t received_bytes_ = 0;
  uint64_t message_count_ = 0;
};

}  // namespace ramcore::transport::tcp
