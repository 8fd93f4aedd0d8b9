#pragma once

#include "base/result.h"
#include "transport/os/descriptor.h"
#include "transport/shm/ring_layout.h"

namespace ramcore::transport::shm {

/// The memory that the two processes of a session share, mapped. Its size is sealed, so that no access can fail because
/// the other side cut it short.
class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory() { unmap(); }

  /// Makes it, with both rings empty and both sides awake; for the server. The descriptor is needed only until it has
  /// been sent. `ring_bytes`: a power of two in [kRingBytesMin, kRingBytesMax] (checked).
  /// Failure: IoError (no memory, no descriptor left).
  static Outcome<SharedMemory> create(uint32_t ring_bytes, Descriptor& descriptor);

  /// Maps what a server sent. Nothing of it is believed: Refused if the offer makes no sense, if the descriptor is no
  /// memory of the offered size, or if that size is not sealed.
  static Outcome<SharedMemory> map(const SharedOffer& offer, const Descriptor& descriptor);

  explicit operator bool() const { return base_ != nullptr; }
  SharedControl& control() const { return *reinterpret_cast<SharedControl*>(base_); }
  uint32_t ringBytes() const { return ring_bytes_; }
  std::byte* ringToServer() const { return base_ + kControlBytes; }
  std::byte* ringToClient() const { return base_ + kControlBytes + ring_bytes_; }

 private:
  SharedMemory(std::byte* base, uint32_t ring_bytes) : base_(base), ring_bytes_(ring_bytes) {}
  static Outcome<SharedMemory> mapDescriptor(int fd, uint32_t ring_bytes);
  void unmap();

  std::byte* base_ = nullptr;
  uint32_t ring_bytes_ = 0;
};

/// True if both rings of a session may have this size.
bool isRingSize(uint32_t ring_bytes);

}  // namespace ramcore::transport::shm
