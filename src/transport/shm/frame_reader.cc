#include "transport/shm/frame_reader.h"

#include "runtime/executor.h"

namespace ramcore::transport::shm {

bool FrameReader::makesSense(const wire::FrameHeader& header) const {
  if (header.message_bytes > wire::kMessageBytesMax || header.head_bytes > header.message_bytes) return false;
  if (header.head_bytes > wire::kHeadBytesMax || header.slot >= slot_count_ || header.reserved != 0) return false;
  return header.priority < runtime::kPriorityCount;
}

FrameStep FrameReader::step(uint64_t room_bytes) {
  if (!has_header_) {
    if (ring_.availableBytes() < sizeof(header_)) return FrameStep::Nothing;
    ring_.read(reinterpret_cast<std::byte*>(&header_), sizeof(header_));
    if (!makesSense(header_)) return FrameStep::Bad;
    if (header_.kind == wire::FrameKind::Close) {
      return header_.message_bytes == 0 ? FrameStep::Close : FrameStep::Bad;
    }
    if (header_.kind != wire::FrameKind::Request && header_.kind != wire::FrameKind::Response) return FrameStep::Bad;
    has_header_ = true;
  }
  if (block_ == nullptr) {
    if (header_.message_bytes > room_bytes && header_.message_bytes >= MessagePool::kCountedBytesMin) {
      return FrameStep::NoRoom;
    }
    block_ = pool_->take(header_.message_bytes);
    copied_bytes_ = 0;
  }
  // What is available is a multiple of 8, so when the last bytes of the message are there, its padding is there too.
  const uint32_t piece = std::min(header_.message_bytes - copied_bytes_, ring_.availableBytes());
  ring_.read(block_->bytes() + copied_bytes_, piece);
  copied_bytes_ += piece;
  received_bytes_ += piece;
  if (copied_bytes_ < header_.message_bytes) return FrameStep::Nothing;
  ring_.skip(alignUp(header_.message_bytes, 8) - header_.message_bytes);
  has_header_ = false;
  ++message_count_;
  return FrameStep::Message;
}

RxMessage FrameReader::takeMessage() {
  MessageBlock* block = std::exchange(block_, nullptr);
  return RxMessage(ByteSpan(block->bytes(), header_.message_bytes), {}, pool_, reinterpret_cast<uint64_t>(block));
}

}  // namespace ramcore::transport::shm
