#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace ramcore::transport::shm {

/// Two cache lines: the hardware fetches lines in pairs, so neighbours that different cores write must be this far
/// apart.
inline constexpr size_t kLinePairBytes = 128;

/// Positions of one ring: bytes ever written and bytes ever read. Each is written by one side only and is a multiple of
/// 8. The byte at position p stands at p modulo the ring's size.
struct RingIndices {
  alignas(kLinePairBytes) std::atomic<uint64_t> produced;
  alignas(kLinePairBytes) std::atomic<uint64_t> consumed;
};

/// Whether a side has to be woken. Written by the side itself; a side that wakes the other one sets it back to Awake,
/// so that one sleep is ended by one wake-up.
enum class Wakefulness : uint32_t {
  Awake = 0,
  Asleep = 1,  ///< wants to be woken for new bytes and for new room
};

/// The head of the memory that both sides of a session map; the ring to the server and the ring to the client follow.
/// All of it can be changed by the other side at any time.
struct SharedControl {
  RingIndices to_server;
  RingIndices to_client;
  alignas(kLinePairBytes) std::atomic<uint32_t> server_wakefulness;
  alignas(kLinePairBytes) std::atomic<uint32_t> client_wakefulness;
};

inline constexpr size_t kControlBytes = 4096;
static_assert(sizeof(SharedControl) <= kControlBytes && alignof(SharedControl) == kLinePairBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

inline constexpr uint32_t kRingBytesMin = 4096;
inline constexpr uint32_t kRingBytesMax = 16 * 1024 * 1024;

/// Size of the shared memory of a session with rings of `ring_bytes`.
constexpr size_t sharedBytes(uint32_t ring_bytes) { return kControlBytes + 2 * size_t{ring_bytes}; }

/// What the server sends over the UNIX socket when the handshake has succeeded; the memory's descriptor comes with it.
struct SharedOffer {
  static constexpr uint64_t kMagic = 0x31474e4952435253;  // "SRCRING1"
  uint64_t magic = kMagic;
  uint32_t ring_bytes = 0;  ///< of each ring; a power of two in [kRingBytesMin, kRingBytesMax]
  uint32_t reserved = 0;    ///< zero, verified

  constexpr bool isValid() const { return magic == kMagic && reserved == 0; }
};
static_assert(Fixed<SharedOffer> && sizeof(SharedOffer) == 16);

}  // namespace ramcore::transport::shm
