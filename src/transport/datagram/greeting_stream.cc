#include "transport/datagram/greeting_stream.h"

#include <algorithm>

namespace ramcore::transport::datagram {

bool GreetingStream::onPacket(uint32_t offset, uint32_t received_bytes, ByteSpan bytes) {
  bool is_news = false;
  // The peer cannot have received what was not sent: such a packet is forged.
  const size_t waiting = handshake_.toSend().size();
  if (received_bytes < acknowledged_bytes_ || received_bytes - acknowledged_bytes_ > waiting) return false;
  if (received_bytes != acknowledged_bytes_) {
    handshake_.sent(received_bytes - acknowledged_bytes_);
    acknowledged_bytes_ = received_bytes;
    is_news = true;
  }
  if (offset != received_bytes_) return is_news;
  while (!bytes.empty() && handshake_.state() == Handshake::State::Running) {
    const size_t count = std::min<size_t>(bytes.size(), handshake_.wantedBytes());
    if (count == 0) break;
    handshake_.receive(bytes.first(count));
    bytes = bytes.subspan(count);
    received_bytes_ += static_cast<uint32_t>(count);
    is_news = true;
  }
  return is_news;
}

}  // namespace ramcore::transport::datagram
