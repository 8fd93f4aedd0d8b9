#include "transport/shm/frame_reader.h"

#include "transport/session/frame_check.h"

namespace ramcore::transport::shm {

FrameStep FrameReader::step(uint64_t room_bytes) {
  if (!has_header_) {
    if (ring_.availableBytes() < sizeof(header_)) return FrameStep::Nothing;
    ring_.read(reinterpret_cast<std::byte*>(&header_), sizeof(header_));
    if (!isValidFrame(header_, slot_count_)) return FrameStep::Bad;
    if (header_.kind == wire::FrameKind::Close) return FrameStep::Close;
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
