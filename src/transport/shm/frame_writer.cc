#include "transport/shm/frame_writer.h"

#include "transport/memory/chunk_copy.h"

namespace ramcore::transport::shm {
namespace {

// A long message is shown to the peer in pieces, so that both sides copy at the same time.
constexpr uint64_t kQuietPublishBytes = 32 * 1024;
// Several small messages of a round are shown to the peer a few at a time, so that it works on the first ones while the
// next are written: with everything shown at the end both sides would take turns waiting.
constexpr uint64_t kEarlyPublishBytes = 384;

void release(TxBuffer& buffer) { TxMessage message(&buffer); }

std::byte* headerOf(TxBuffer& buffer) { return buffer.head - sizeof(wire::FrameHeader); }
uint64_t frameBytesOf(TxBuffer& buffer) {
  return wire::frameBytes(loadAs<wire::FrameHeader>(headerOf(buffer)).message_bytes);
}

TxBuffer* firstBorrowingFrom(TxBuffer* buffer) {
  while (buffer != nullptr && !holdsBorrowed(*buffer)) buffer = buffer->next;
  return buffer;
}

}  // namespace

bool FrameWriter::send(const wire::FrameHeader& header, TxMessage message) {
  TxBuffer* buffer = message.release();
  if (first_ == nullptr) {
    const uint64_t bytes = wire::frameBytes(header.message_bytes);
    if (bytes > ring_.freeBytes() && !ring_.refresh()) {
      release(*buffer);
      return false;
    }
    if (bytes <= ring_.freeBytes()) [[likely]] {
      copyWhole(header, *buffer);
      release(*buffer);
      return true;
    }
  }
  static_assert(sizeof(wire::FrameHeader) <= TxBuffer::kHeaderRoomBytes);
  storeAs(headerOf(*buffer), header);
  queued_bytes_ += frameBytesOf(*buffer);
  buffer->next = nullptr;
  if (last_ == nullptr) {
    first_ = last_ = buffer;
  } else {
    last_->next = buffer;
    last_ = buffer;
  }
  if (first_borrowed_ == nullptr && holdsBorrowed(*buffer)) first_borrowed_ = buffer;
  return first_ != buffer || pump();
}

void FrameWriter::copyWhole(const wire::FrameHeader& header, TxBuffer& buffer) {
  ring_.write(reinterpret_cast<const std::byte*>(&header), sizeof(header));
  ring_.write(buffer.head, buffer.head_bytes);
  for (uint32_t i = 0; i < buffer.chunk_count; ++i) {
    const Chunk& chunk = buffer.chunks[i];
    if (chunk.bytes != 0) ring_.write(chunk.address, chunk.bytes);
    if (ring_.unpublishedBytes() >= kQuietPublishBytes) ring_.publish();
  }
  ring_.pad();
  if (ring_.unpublishedBytes() >= kEarlyPublishBytes) ring_.publish();
}

bool FrameWriter::pump() {
  if (first_ == nullptr) return true;
  if (!ring_.refresh()) return false;
  while (first_ != nullptr && copySome(*first_)) takeFromQueue();
  return true;
}

// Copies as much of the frame as there is room for; true when all of it is in.
bool FrameWriter::copySome(TxBuffer& buffer) {
  if (part_ == 0) {
    if (!copyPart(headerOf(buffer), sizeof(wire::FrameHeader) + buffer.head_bytes)) return false;
  }
  while (part_ <= buffer.chunk_count) {
    const Chunk& chunk = buffer.chunks[part_ - 1];
    if (!copyPart(chunk.address, chunk.bytes)) return false;
  }
  ring_.pad();  // there is room: free space is a multiple of 8 at the end of every frame
  return true;
}

bool FrameWriter::copyPart(const std::byte* from, uint32_t bytes) {
  while (part_offset_bytes_ < bytes) {
    const uint32_t room = ring_.freeBytes();
    if (room == 0) {
      ring_.publish();
      return false;
    }
    const uint32_t piece = std::min({bytes - part_offset_bytes_, room, static_cast<uint32_t>(kQuietPublishBytes)});
    ring_.write(from + part_offset_bytes_, piece);
    part_offset_bytes_ += piece;
    if (ring_.unpublishedBytes() >= kQuietPublishBytes) ring_.publish();
  }
  ++part_;
  part_offset_bytes_ = 0;
  return true;
}

void FrameWriter::takeFromQueue() {
  TxBuffer* done = first_;
  queued_bytes_ -= frameBytesOf(*done);
  first_ = done->next;
  if (first_borrowed_ == done) first_borrowed_ = firstBorrowingFrom(first_);
  if (first_ == nullptr) last_ = nullptr;
  part_ = 0;
  part_offset_bytes_ = 0;
  release(*done);
}

void FrameWriter::dropQueue() {
  while (first_ != nullptr) takeFromQueue();
}

std::optional<uint64_t> FrameWriter::copyOutQueue(uint64_t bytes_max, int64_t borrowed_until_ns) {
  uint64_t bytes = 0;
  for (const TxBuffer* buffer = first_; buffer != nullptr; buffer = buffer->next) {
    const bool is_meant = buffer->borrowed_since_ns <= borrowed_until_ns;
    for (uint32_t i = 0; i < buffer->chunk_count; ++i) {
      if (is_meant || buffer->chunks[i].owner == &chunk_copies) bytes += buffer->chunks[i].bytes;
    }
  }
  if (bytes > bytes_max) return std::nullopt;
  uint64_t copied = 0;
  for (TxBuffer* buffer = first_; buffer != nullptr; buffer = buffer->next) {
    if (buffer->borrowed_since_ns <= borrowed_until_ns) copied += chunk_copies.replaceAll(*buffer, true) ? 1 : 0;
  }
  first_borrowed_ = firstBorrowingFrom(first_);
  return copied;
}

void FrameWriter::tryFinish(const wire::FrameHeader& header) {
  if (isBlocked() || !ring_.refresh() || ring_.freeBytes() < sizeof(header)) return;
  ring_.write(reinterpret_cast<const std::byte*>(&header), sizeof(header));
  ring_.publish();
}

}  // namespace ramcore::transport::shm
