#include "transport/tcp/send_queue.h"

#include "transport/memory/chunk_copy.h"

#include <algorithm>
#include <utility>

namespace ramcore::transport::tcp {
namespace {

using wire::FrameHeader;

static_assert(sizeof(FrameHeader) <= TxBuffer::kHeaderRoomBytes);

constexpr std::byte kPadding[8] = {};

FrameHeader headerOf(const TxBuffer& buffer) { return loadAs<FrameHeader>(buffer.head - sizeof(FrameHeader)); }
bool isAnswer(const TxBuffer& buffer) { return headerOf(buffer).kind == wire::FrameKind::Response; }
uint64_t frameBytesOf(const TxBuffer& buffer) { return wire::frameBytes(headerOf(buffer).message_bytes); }

TxBuffer* firstBorrowingFrom(TxBuffer* buffer) {
  while (buffer != nullptr && !holdsBorrowed(*buffer)) buffer = buffer->next;
  return buffer;
}

// Lists pieces from some byte on, as far as there is room.
class Gatherer {
 public:
  Gatherer(std::span<ByteSpan> pieces, uint64_t skip_bytes) : pieces_(pieces), skip_bytes_(skip_bytes) {}
  bool isFull() const { return count_ == pieces_.size(); }
  size_t count() const { return count_; }
  void add(const std::byte* address, size_t bytes) {
    if (bytes <= skip_bytes_) {
      skip_bytes_ -= bytes;
      return;
    }
    if (isFull()) return;
    pieces_[count_++] = ByteSpan(address, bytes).subspan(skip_bytes_);
    skip_bytes_ = 0;
  }

 private:
  std::span<ByteSpan> pieces_;
  uint64_t skip_bytes_;
  size_t count_ = 0;
};

}  // namespace

void SendQueue::push(TxMessage message, FrameHeader header) {
  header.message_bytes = message.messageBytes();
  const uint32_t contiguous = message->contiguous_bytes != 0 ? message->contiguous_bytes : message->head_bytes;
  header.head_bytes = std::min({contiguous, wire::kHeadBytesMax, header.message_bytes});
  TxBuffer* buffer = message.release();
  storeAs(buffer->head - sizeof(header), header);
  buffer->next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = buffer;
  last_ = buffer;
  if (first_borrowed_ == nullptr && holdsBorrowed(*buffer)) first_borrowed_ = buffer;
  countUnsent(wire::frameBytes(header.message_bytes));
  if (isAnswer(*buffer)) answer_bytes_ += wire::frameBytes(header.message_bytes);
}

uint64_t SendQueue::unsentAnswerBytes() const {
  if (answer_bytes_ == 0) return 0;
  return answer_bytes_ - (isAnswer(*first_) ? first_sent_bytes_ : 0);
}

size_t SendQueue::gather(std::span<ByteSpan> pieces) const {
  Gatherer gatherer(pieces, first_sent_bytes_);
  for (const TxBuffer* buffer = first_; buffer != nullptr && !gatherer.isFull(); buffer = buffer->next) {
    gatherer.add(buffer->head - sizeof(FrameHeader), sizeof(FrameHeader) + buffer->head_bytes);
    for (uint32_t i = 0; i < buffer->chunk_count; ++i) gatherer.add(buffer->chunks[i].address, buffer->chunks[i].bytes);
    const uint32_t message_bytes = headerOf(*buffer).message_bytes;
    gatherer.add(kPadding, alignUp(message_bytes, 8) - message_bytes);
  }
  return gatherer.count();
}

size_t SendQueue::advance(size_t bytes) {
  size_t finished = 0;
  RC_CHECK(bytes <= unsent_bytes_);
  countSent(bytes);
  first_sent_bytes_ += bytes;
  while (first_ != nullptr && first_sent_bytes_ >= frameBytesOf(*first_)) {
    first_sent_bytes_ -= frameBytesOf(*first_);
    popFirst();
    ++finished;
  }
  return finished;
}

void SendQueue::popFirst() {
  if (isAnswer(*first_)) answer_bytes_ -= frameBytesOf(*first_);
  if (first_borrowed_ == first_) first_borrowed_ = firstBorrowingFrom(first_->next);
  TxMessage done(std::exchange(first_, first_->next));
  if (first_ == nullptr) last_ = nullptr;
}

uint64_t SendQueue::bytesInCopies(int64_t borrowed_until_ns) const {
  uint64_t bytes = 0;
  for (const TxBuffer* buffer = first_; buffer != nullptr; buffer = buffer->next) {
    const bool is_meant = buffer->borrowed_since_ns <= borrowed_until_ns;
    for (uint32_t i = 0; i < buffer->chunk_count; ++i) {
      const Chunk& chunk = buffer->chunks[i];
      if (is_meant || chunk.owner == &chunk_copies) bytes += chunk.bytes;
    }
  }
  return bytes;
}

size_t SendQueue::copyOut(int64_t borrowed_until_ns) {
  size_t copied = 0;
  for (TxBuffer* buffer = first_; buffer != nullptr; buffer = buffer->next) {
    if (buffer->borrowed_since_ns > borrowed_until_ns) continue;
    copied += chunk_copies.replaceAll(*buffer, true) ? 1 : 0;
  }
  first_borrowed_ = firstBorrowingFrom(first_);
  return copied;
}

void SendQueue::copyUnowned(uint16_t slot, uint32_t sequence) {
  for (TxBuffer* buffer = first_; buffer != nullptr; buffer = buffer->next) {
    const FrameHeader header = headerOf(*buffer);
    if (header.kind != wire::FrameKind::Request || header.slot != slot || header.sequence != sequence) continue;
    for (uint32_t i = 0; i < buffer->chunk_count; ++i) {
      if (buffer->chunks[i].owner == nullptr) chunk_copies.replace(buffer->chunks[i]);
    }
  }
}

void SendQueue::clear() {
  while (first_ != nullptr) popFirst();
  first_sent_bytes_ = 0;
  countSent(unsent_bytes_);
}

void SendQueue::countUnsent(uint64_t bytes) {
  unsent_bytes_ += bytes;
  unsent_bytes_of_all_ += bytes;
}

void SendQueue::countSent(uint64_t bytes) {
  unsent_bytes_ -= bytes;
  unsent_bytes_of_all_ -= bytes;
}

}  // namespace ramcore::transport::tcp
