#pragma once

#include <algorithm>
#include <string>

#include "transport/message.h"
#include "wire/message_header.h"

namespace ramcore::rpc {

/// Reads a received message from front to back; its bytes may lie in several spans. Every step checks how many bytes
/// are left. After the first failure every step fails. Reads each byte once, because a peer may still change it.
class MessageCursor {
 public:
  explicit MessageCursor(const transport::RxMessage& message)
      : span_(message.head()), tail_(message.tail()), left_(message.messageBytes()) {}

  /// Also fails if the message is not valid.
  template <wire::Message T>
  [[nodiscard]] bool take(T& out) {
    if (sizeof(T) <= span_.size()) [[likely]] {
      out = loadAs<T>(span_.data());
      advance(sizeof(T));
    } else if (!copy(reinterpret_cast<std::byte*>(&out), sizeof(T))) {
      return false;
    }
    return out.isValid() || fail();
  }
  [[nodiscard]] bool copy(std::byte* to, size_t bytes) {
    if (bytes > left_) return fail();
    while (bytes > 0) {
      nextSpan();
      const size_t piece = std::min(bytes, span_.size());
      std::memcpy(to, span_.data(), piece);
      advance(piece);
      to += piece;
      bytes -= piece;
    }
    return true;
  }
  [[nodiscard]] bool skip(size_t bytes) {
    if (bytes > left_) return fail();
    while (bytes > 0) {
      nextSpan();
      const size_t piece = std::min(bytes, span_.size());
      advance(piece);
      bytes -= piece;
    }
    return true;
  }
  /// Replaces `out` by the next `bytes` bytes.
  [[nodiscard]] bool takeText(std::string& out, size_t bytes) {
    if (bytes > left_) return fail();
    if (bytes <= span_.size()) [[likely]] {
      out.assign(reinterpret_cast<const char*>(span_.data()), bytes);
      advance(bytes);
      return true;
    }
    out.resize(bytes);
    return copy(reinterpret_cast<std::byte*>(out.data()), bytes);
  }
  /// Skips the padding of an item of `item_bytes` to a multiple of 8.
  [[nodiscard]] bool takePadding(size_t item_bytes) { return skip(alignUp(item_bytes, 8) - item_bytes); }
  size_t bytesLeft() const { return left_; }
  bool atEnd() const { return left_ == 0 && !failed_; }

 private:
  bool fail() {
    failed_ = true;
    left_ = 0;
    span_ = {};
    tail_ = {};
    return false;
  }
  void advance(size_t bytes) {
    span_ = span_.subspan(bytes);
    left_ -= bytes;
  }
  void nextSpan() {
    while (span_.empty()) {
      span_ = tail_.front();
      tail_ = tail_.subspan(1);
    }
  }

  ByteSpan span_;
  std::span<const ByteSpan> tail_;
  size_t left_;
  bool failed_ = false;
};

}  // namespace ramcore::rpc
