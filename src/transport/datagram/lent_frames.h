#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/check.h"
#include "transport/datagram/frame_port.h"
#include "transport/memory/home_thread.h"

namespace ramcore::transport::datagram {

/// Received Ethernet frames whose bytes messages borrow. A message may be released on any thread. The frame goes back
/// to its port on the endpoint's thread, because no other thread may use a port.
class LentFrames final : public RxOwner {
 public:
  LentFrames() = default;
  LentFrames(const LentFrames&) = delete;
  LentFrames& operator=(const LentFrames&) = delete;
  ~LentFrames() {
    takeBack();
    RC_CHECK_MSG(lent_count_ == 0, "a received message outlives the endpoint that lent it");
  }

  /// Called at the beginning and at the end of the endpoint's round.
  void enter() { home_.enter(); }
  void leave() { home_.leave(); }
  const HomeThread& home() const { return home_; }
  uint32_t count() const { return lent_count_; }

  /// @return The token of the message.
  uint64_t lend(FramePort& port, const InFrame& frame) {
    if (free_ == nullptr) free_ = all_.emplace_back(std::make_unique<Lent>()).get();
    Lent* const lent = std::exchange(free_, free_->next);
    lent->port = &port;
    lent->frame = frame;
    ++lent_count_;
    return reinterpret_cast<uint64_t>(lent);
  }
  void releaseMessage(uint64_t token) noexcept override {
    auto* const lent = reinterpret_cast<Lent*>(token);
    if (home_.isHere()) {
      lent->next = std::exchange(given_, lent);
      return;
    }
    lent->next = returned_.load(std::memory_order_relaxed);
    while (!returned_.compare_exchange_weak(lent->next, lent, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
  /// Gives frames whose messages were released back to the ports. On the endpoint's thread, where no peer waits for it:
  /// behind what the endpoint sends.
  void takeBack() {
    if (given_ != nullptr) giveAllBack(std::exchange(given_, nullptr));
    if (returned_.load(std::memory_order_relaxed) == nullptr) return;
    giveAllBack(returned_.exchange(nullptr, std::memory_order_acquire));
  }

 private:
  struct Lent {
    Lent* next = nullptr;
    FramePort* port = nullptr;
    InFrame frame;
  };
  void giveAllBack(Lent* lent) noexcept {
    while (lent != nullptr) {
      Lent* const next = lent->next;
      lent->port->release(lent->frame);
      lent->next = std::exchange(free_, lent);
      --lent_count_;
      lent = next;
    }
  }

  HomeThread home_;
  std::vector<std::unique_ptr<Lent>> all_;
  Lent* free_ = nullptr;
  Lent* given_ = nullptr;  // frames of messages that were released in a round
  uint32_t lent_count_ = 0;
  std::atomic<Lent*> returned_{nullptr};
};

}  // namespace ramcore::transport::datagram
