#include "transport/tcp/tcp_transport.h"

#include "transport/tcp/tcp_endpoint.h"
#include "wire/frame.h"

namespace ramcore::transport::tcp {

TcpTransport::TcpTransport(const TcpOptions& options, const TcpContext& context)
    : options_(options), context_(context) {
  RC_CHECK(options.slots_per_session >= 1 && options.slots_per_session <= wire::kSlotCountMax);
  limits_.name = "tcp";
  limits_.message_bytes_max = wire::kMessageBytesMax;
  limits_.gather_count_max = TxBuffer::kChunkCountMax;
  limits_.burst_messages_max = 256;
  limits_.slots_per_session = options.slots_per_session;
  limits_.zero_copy_bytes_min = options.zero_copy_bytes_min;
  limits_.idle_poll_is_syscall_free = false;
}

Outcome<RegionId> TcpTransport::registerMemory(std::byte*, size_t, Access) { return RegionId{0}; }

std::unique_ptr<Endpoint> TcpTransport::makeEndpoint(const Identity& identity) {
  return std::make_unique<TcpEndpoint>(options_, context_, limits_, identity, listening_);
}

}  // namespace ramcore::transport::tcp
