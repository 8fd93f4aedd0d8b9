#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "base/result.h"
#include "transport/verbs/queue_pair.h"

namespace ramcore::rcnic {

/// The other end of a verbs probe: takes SENDs into buffers that it posts again at once, on a thread of its own, and
/// has memory that the sender may READ and WRITE.
class VerbsReceiver {
 public:
  /// @param bytes_each  of a receive buffer, and of a place for one-sided transfers; there are kPlaces of these.
  static Outcome<std::unique_ptr<VerbsReceiver>> open(const transport::verbs::DeviceChoice& choice,
                                                      uint32_t bytes_each);
  ~VerbsReceiver();
  VerbsReceiver(const VerbsReceiver&) = delete;
  VerbsReceiver& operator=(const VerbsReceiver&) = delete;

  static constexpr uint32_t kBuffers = 512;
  static constexpr uint32_t kPlaces = 64;

  const transport::verbs::Device& device() const { return device_; }
  wire::VerbsAddress address() const { return pair_->address(0); }
  /// From then on SENDs are taken.
  Outcome<bool> connect(const wire::VerbsAddress& peer, const transport::verbs::ConnectionTiming& timing);
  /// Where the sender may read and write.
  uint64_t place(uint32_t index) const {
    return reinterpret_cast<uint64_t>(places_.get()) + index * size_t{bytes_each_};
  }
  uint32_t placesKey() const { return places_region_->rkey; }

 private:
  VerbsReceiver(transport::verbs::Device device, uint32_t bytes_each);
  Outcome<bool> prepare();
  bool postBuffer(uint32_t index);
  void run();

  transport::verbs::Device device_;
  const uint32_t bytes_each_;
  const std::unique_ptr<std::byte[]> buffers_;
  const std::unique_ptr<std::byte[]> places_;
  transport::verbs::MemoryRegion buffers_region_;
  transport::verbs::MemoryRegion places_region_;
  transport::verbs::CompletionQueue completions_;
  transport::verbs::SharedReceiveQueue receives_;
  std::unique_ptr<transport::verbs::QueuePair> pair_;
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace ramcore::rcnic
