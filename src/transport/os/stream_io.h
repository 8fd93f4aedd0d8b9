#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace ramcore::transport {

/// What one look at a stream socket gave.
enum class StreamLook : uint8_t { Bytes, Nothing, Ended };

/// Reads what is there, without blocking. Descriptors that the peer sends are dropped by the kernel.
StreamLook receiveSome(int fd, MutableByteSpan into, size_t& received_bytes);
/// Sends what fits, without blocking and without SIGPIPE. Returns false if the stream is broken.
[[nodiscard]] bool sendSome(int fd, ByteSpan bytes, size_t& sent_bytes);

}  // namespace ramcore::transport
