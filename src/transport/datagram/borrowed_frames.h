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
class BorrowedFrames final : public RxOwner {
 public:
  BorrowedFrames() = default;
  BorrowedFrames(const BorrowedFrames&) = delete;
  BorrowedFrames& operator=(const BorrowedFrames&) = delete;
  ~BorrowedFrames() {
    takeBack();
    RC_CHECK_MSG(borrowed_count_ == 0, "a received message outlives the endpoint that borrowed it");
  }

  /// Called at the beginning and at the end of the endpoint's round.
  void enter() { home_.enter(); }
  void leave() { home_.leave(); }
  const HomeThread& home() const { return home_; }
  uint32_t count() const { return borrowed_count_; }

  /// @return The token of the message.
  uint64_t borrow(FramePort& port, const InFrame& frame) {
    if (free_ == nullptr) free_ = all_.emplace_back(std::make_unique<Borrowed>()).get();
    Borrowed* const borrowed = std::exchange(free_, free_->next);
    borrowed->port = &port;
    borrowed->frame = frame;
    ++borrowed_count_;
    return reinterpret_cast<uint64_t>(borrowed);
  }
  void releaseMessage(uint64_t token) noexcept override {
    auto* const borrowed = reinterpret_cast<Borrowed*>(token);
    if (home_.isHere()) {
      borrowed->next = std::exchange(given_, borrowed);
      return;
    }
    borrowed->next = returned_.load(std::memory_order_relaxed);
    while (!returned_.compare_exchange_weak(borrowed->next, borrowed, std::memory_order_release,
                                            std::memory_order_relaxed)) {
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
  struct Borrowed {
    Borrowed* next = nullptr;
    FramePort* port = nullptr;
    InFrame frame;
  };
  void giveAllBack(Borrowed* borrowed) noexcept {
    while (borrowed != nullptr) {
      Borrowed* const next = borrowed->next;
      borrowed->port->release(borrowed->frame);
      borrowed->next = std::exchange(free_, borrowed);
      --borrowed_count_;
      borrowed = next;
    }
  }

  HomeThread home_;
  std::vector<std::unique_ptr<Borrowed>> all_;
  Borrowed* free_ = nullptr;
  Borrowed* given_ = nullptr;  // frames of messages that were released in a round
  uint32_t borrowed_count_ = 0;
  std::atomic<Borrowed*> returned_{nullptr};
};

}  // namespace ramcore::transport::datagram
