#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "transport/message.h"

namespace ramcore::rpc {

/// Which sessions of one endpoint have ended. A worker asks before it starts on a request: if the session has ended,
/// the answer would go nowhere. Written by the dispatch thread, read by any thread in about 2 ns.
class SessionEnds {
 public:
  SessionEnds() = default;
  SessionEnds(const SessionEnds&) = delete;
  SessionEnds& operator=(const SessionEnds&) = delete;
  ~SessionEnds() {
    for (const auto& block : blocks_) delete block.load(std::memory_order_relaxed);
  }

  /// Notes that a session has ended. Dispatch thread.
  void note(transport::SessionId session) {
    if (session.index >= kBlocks * kBlockSessions) return;
    std::atomic<Block*>& place = blocks_[session.index / kBlockSessions];
    Block* block = place.load(std::memory_order_relaxed);
    if (block == nullptr) place.store(block = new Block(), std::memory_order_release);
    (*block)[session.index % kBlockSessions].store(session.generation, std::memory_order_relaxed);
  }
  /// False may be outdated. Always false for indices beyond the number of sessions that endpoints take.
  bool hasEnded(transport::SessionId session) const {
    if (session.index >= kBlocks * kBlockSessions) return false;
    const Block* block = blocks_[session.index / kBlockSessions].load(std::memory_order_acquire);
    return block != nullptr &&
           (*block)[session.index % kBlockSessions].load(std::memory_order_relaxed) >= session.generation;
  }

 private:
  static constexpr uint32_t kBlockSessions = 1024;
  static constexpr uint32_t kBlocks = 64;
  /// By index: the generation of the last session there that ended. Generations of an index only grow.
  using Block = std::array<std::atomic<uint32_t>, kBlockSessions>;

  std::array<std::atomic<Block*>, kBlocks> blocks_{};
};

}  // namespace ramcore::rpc
