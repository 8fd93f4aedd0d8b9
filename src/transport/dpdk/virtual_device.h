#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "transport/dpdk/environment.h"

/// What is known of the drivers of virtual devices that carry frames (22.11), because DPDK does not tell it.
namespace ramcore::transport::dpdk {

/// Whether the driver takes frames as long as its buffers, and yet says that it takes those of ordinary Ethernet alone:
/// memif and af_packet.
bool understatesMtu(const DeviceName& device);

/// Whether the device is the end of a memif that connects to a process that listens. The driver takes it for that
/// unless its arguments say otherwise.
bool looksForOther(const DeviceName& device);

/// Room that a buffer needs for frames of `frame_bytes` bytes with any driver: a packet socket needs room for what its
/// ring holds, which is more.
uint32_t roomFor(uint32_t frame_bytes);

/// Returns the device with arguments for buffers that have room for such frames: without arguments these drivers take
/// buffers of 2048 bytes. Failure: BadConfig: the arguments ask for less than is needed.
Outcome<DeviceName> withRoomFor(const DeviceName& device, uint32_t frame_bytes);

/// The MTU of the interface below an af_packet, which the driver does not look at; none: there is no such interface, or
/// the device is another one.
std::optional<uint32_t> mtuOfInterface(const DeviceName& device);

}  // namespace ramcore::transport::dpdk
