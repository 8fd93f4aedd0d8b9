#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "transport/datagram/mac_address.h"
#include "transport/message.h"

namespace ramcore::transport::datagram {

/// The owner of bytes that stand in an Ethernet frame without having been copied. It is told once for each piece that
/// was attached, when the port will not read the piece again. The call comes on the endpoint's thread and must not call
/// the port.
class FrameOwner {
 public:
  virtual void onPieceGone() noexcept = 0;

 protected:
  ~FrameOwner() = default;
};

/// A frame that arrived: contiguous, from the Ethernet header on, private to this process.
struct InFrame {
  std::byte* bytes = nullptr;
  uint32_t length = 0;
  void* handle = nullptr;  ///< the port's
};

/// A frame that is being made; the port's own.
struct OutFrame {
  void* handle = nullptr;
  explicit operator bool() const { return handle != nullptr; }
};

/// The properties of a port.
struct PortFacts {
  MacAddress address;
  uint32_t frame_bytes_max = 0;     ///< Ethernet header included
  uint32_t pieces_max = 1;          ///< pieces of one frame; a piece is contiguous bytes, attached or written
  uint32_t borrowable_frames = 64;  ///< frames that may be kept from the port; bytes of further ones are copied
  bool is_local = false;            ///< its frames cannot leave this machine
  bool joins_two = false;           ///< one process is at the other end: its link ends with that process
  bool has_wakeups = false;         ///< it ends the thread's sleep when frames arrive
};

/// Sends and receives Ethernet frames at one port, without promises: frames are lost, duplicated, reordered and changed
/// on their way. Endpoints are built on this interface; real ports (dpdk/) and simulated ones implement it.
///
/// Thread: the endpoint's.
class FramePort {
 public:
  virtual ~FramePort() = default;
  virtual const PortFacts& facts() const = 0;
  /// For people.
  virtual std::string describe() const = 0;
  /// Takes frames that have arrived, at most as many as there is room for. No system call where nothing came.
  virtual uint32_t receive(std::span<InFrame> into) = 0;
  virtual void release(const InFrame& frame) noexcept = 0;

  /// Begins a frame with `bytes` writable bytes at `at`, 8-byte aligned. Returns an empty handle if the port has no
  /// memory for now.
  virtual OutFrame make(uint32_t bytes, std::byte*& at) = 0;
  /// Appends `bytes` writable bytes to the frame and returns where they are; nullptr: the port has no memory for now.
  virtual std::byte* extend(OutFrame frame, uint32_t bytes) = 0;
  /// Appends bytes that are sent from where they are. False: the port has no memory for now, and the owner is not told.
  virtual bool attach(OutFrame frame, const std::byte* at, uint32_t bytes, RegionId region, FrameOwner& owner) = 0;
  /// Gives up a frame that is not sent.
  virtual void drop(OutFrame frame) noexcept = 0;
  /// Sends the first of `frames`; returns how many the port took. The others are still the caller's.
  virtual uint32_t send(std::span<const OutFrame> frames) = 0;
  /// Ends the port. The frames that it was given are sent or lost, and the owners of all pieces are told before it
  /// returns. Frames that arrived can still be released.
  virtual void stop() = 0;
  /// Called every 10 ms or so while there are sessions, and rarely otherwise: may make system calls. Returns whether
  /// there is a link.
  virtual bool runTimeouts() { return true; }
  /// Whether bytes of this region can be attached.
  virtual bool canAttach(RegionId region) const = 0;
};

}  // namespace ramcore::transport::datagram
