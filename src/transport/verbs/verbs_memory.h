#pragma once

#include <atomic>

#include "transport/verbs/head_pool.h"
#include "transport/verbs/place_pool.h"

namespace ramcore::transport::verbs {

/// Owns received messages that were read by a transfer, and counts what transfers hold. Any thread.
class ReadMessages final : public RxOwner {
 public:
  /// The pool of the blocks, which is borrowed.
  explicit ReadMessages(RegisteredPool& blocks) : blocks_(blocks) {}

  /// Counts a block of `bytes` bytes as held: it is read into from now on.
  void hold(uint32_t bytes) { held_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  /// Ends that for a block of which no message was made.
  void letGo(uint32_t bytes) { held_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  /// Makes a message of a block that counts as held; it goes back to its pool with the message.
  RxMessage makeMessage(Block& block, uint32_t message_bytes) {
    return {ByteSpan(block.bytes(), message_bytes), {}, this, reinterpret_cast<uint64_t>(&block)};
  }
  void releaseMessage(uint64_t token) noexcept override {
    auto* const block = reinterpret_cast<Block*>(token);
    letGo(block->capacity);
    blocks_.drop(block);
  }
  /// Bytes of messages that are being read from where peers announced them, or were and are borrowed.
  uint64_t heldBytes() const { return held_bytes_.load(std::memory_order_relaxed); }

 private:
  RegisteredPool& blocks_;
  std::atomic<uint64_t> held_bytes_{0};
};

/// The registered memory of one endpoint, apart from its receive buffers. The order here is the order in which things
/// depend on each other. Any thread.
struct VerbsMemory {
  /// @param uses_windows  whether memory windows open the memory of a transfer to one queue pair only
  VerbsMemory(const Device& device, bool uses_windows) : blocks(device), places(device, uses_windows) {}

  RegisteredPool blocks;
  HeadPool heads{blocks};
  PlacePool places;
  ReadMessages read_messages{blocks};
};

}  // namespace ramcore::transport::verbs
