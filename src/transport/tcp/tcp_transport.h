#pragma once

#include <memory>

#include "transport/tcp/listening_list.h"
#include "transport/tcp/tcp_options.h"

namespace ramcore::transport::tcp {

/// Messages over TCP. One transport for each dispatch thread, because its endpoints share the thread's sleeper.
///
/// The network is trusted: peers prove who they are when they connect, but the frames that follow are neither encrypted
/// nor authenticated. See docs/tcp.md.
class TcpTransport final : public Transport {
 public:
  TcpTransport(const TcpOptions& options, const TcpContext& context);

  const Limits& limits() const override { return limits_; }
  std::string_view scheme() const override { return "tcp"; }
  /// The kernel copies from anywhere, so there is nothing to register: gives 0.
  Outcome<RegionId> registerMemory(std::byte* base, size_t bytes, Access access) override;
  /// The identity is borrowed and outlives the endpoint.
  std::unique_ptr<Endpoint> makeEndpoint(const Identity& identity) override;

 private:
  TcpOptions options_;
  TcpContext context_;
  Limits limits_;
  std::shared_ptr<ListeningList> listening_ = std::make_shared<ListeningList>();
};

}  // namespace ramcore::transport::tcp
