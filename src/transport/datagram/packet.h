#pragma once

#include "transport/datagram/mac_address.h"
#include "transport/message.h"
#include "wire/datagram_messages.h"

namespace ramcore::transport::datagram {

/// A packet that arrived, split into its parts.
struct Packet {
  uint32_t port = 0;
  wire::FrameStart start{};
  wire::PacketHeader header{};
  ByteSpan payload;  ///< stands in the Ethernet frame
  MacAddress from() const { return MacAddress{start.from}; }
};

}  // namespace ramcore::transport::datagram
