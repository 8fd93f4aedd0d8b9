#include "transport/tcp/frame_reader.h"

#include <cstring>

#include "transport/session/frame_check.h"

namespace ramcore::transport::tcp {

SharedBlock::~SharedBlock() {
  if (block_ != nullptr) pool_.drop(block_);
}

void SharedBlock::prepare() {
  if (block_ != nullptr && used_bytes_ != 0 && block_->isExclusive()) used_bytes_ = 0;
  if (block_ != nullptr && block_->capacity() - used_bytes_ >= kRoomMin) return;
  if (block_ != nullptr) pool_.drop(block_);
  block_ = pool_.take(RxBlockPool::kBlockBytes);
  used_bytes_ = 0;
}

MutableByteSpan FrameReader::room() {
  if (block_ == nullptr) {
    // received() takes the reference: mostly no bytes come.
    shared_.prepare();
    RxBlock& shared = *shared_.block_;
    return MutableByteSpan(shared.bytes() + shared_.used_bytes_, shared.capacity() - shared_.used_bytes_);
  }
  if (needsOwnBlock()) moveToOwnBlock();
  return MutableByteSpan(block_->bytes() + end_, block_->capacity() - end_);
}

void FrameReader::received(uint32_t bytes) {
  if (bytes == 0) return;
  received_bytes_ += bytes;
  if (block_ == nullptr) {
    block_ = shared_.block_;
    block_->addReference();
    is_shared_ = true;
    begin_ = end_ = shared_.used_bytes_;
    shared_.used_bytes_ = static_cast<uint32_t>(alignUp(end_ + bytes, 8));
  }
  RC_DCHECK(bytes <= block_->capacity() - end_);
  end_ += bytes;
}

FrameStep FrameReader::step() {
  const uint32_t there = end_ - begin_;
  if (there < sizeof(header_)) {
    if (there == 0 && block_ != nullptr) dropBlock();
    return FrameStep::Nothing;
  }
  if (!has_header_) {
    header_ = loadAs<wire::FrameHeader>(block_->bytes() + begin_);
    if (!isValidFrame(header_, slot_count_)) return FrameStep::Bad;
    has_header_ = true;
  }
  if (there < neededBytes()) return FrameStep::Nothing;
  return header_.kind == wire::FrameKind::Close ? FrameStep::Close : FrameStep::Message;
}

RxMessage FrameReader::takeMessage() {
  const ByteSpan message(block_->bytes() + begin_ + sizeof(header_), header_.message_bytes);
  begin_ += neededBytes();
  has_header_ = false;
  ++message_count_;
  block_->addReference();
  return RxMessage(message, {}, &pool_, RxBlockPool::tokenOf(block_));
}

uint32_t FrameReader::neededBytes() const {
  return has_header_ ? static_cast<uint32_t>(wire::frameBytes(header_.message_bytes)) : sizeof(header_);
}

void FrameReader::dropBlock() {
  if (block_ == nullptr) return;
  pool_.drop(std::exchange(block_, nullptr));
  begin_ = end_ = 0;
  is_shared_ = false;
}

void FrameReader::moveToOwnBlock() {
  RxBlock* own = pool_.take(neededBytes());
  const uint32_t there = end_ - begin_;
  std::memcpy(own->bytes(), block_->bytes() + begin_, there);
  pool_.drop(block_);
  block_ = own;
  is_shared_ = false;
  begin_ = 0;
  end_ = there;
}

}  // namespace ramcore::transport::tcp
