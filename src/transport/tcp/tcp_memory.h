#pragma once

#include <cstdint>

#include "transport/memory/rx_block.h"
#include "transport/tcp/frame_reader.h"

namespace ramcore::transport::tcp {

/// The memory that the peers of one endpoint make it hold: messages that are not yet whole or in service, and bytes
/// that wait to be sent. One thread, except the release of received messages.
struct TcpMemory {
  TcpMemory() : shared_block(blocks) {}

  uint64_t heldBytes() const { return blocks.borrowedBytes() + unsent_bytes; }

  RxBlockPool blocks;
  SharedBlock shared_block;   ///< into which all sessions read
  uint64_t unsent_bytes = 0;  ///< in the queues of all sessions
  bool is_short = false;      ///< a client's message waits for memory
};

}  // namespace ramcore::transport::tcp
