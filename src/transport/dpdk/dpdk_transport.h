#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/datagram/datagram_endpoint.h"
#include "transport/dpdk/dpdk_options.h"
#include "transport/dpdk/dpdk_port.h"

namespace ramcore::transport::dpdk {

/// Messages in Ethernet frames over ports of DPDK. One transport with one endpoint for each dispatch thread. See
/// docs/datagram.md and docs/dpdk.md.
class DpdkTransport final : public Transport {
 public:
  /// Failure: BadConfig: a device that is not there; NoSpace: memory; IoError.
  static Outcome<std::unique_ptr<DpdkTransport>> open(const DpdkOptions& options,
                                                      const datagram::DatagramContext& context);
  ~DpdkTransport() override;

  const Limits& limits() const override { return limits_; }
  std::string_view scheme() const override { return "dpdk"; }
  Outcome<RegionId> registerMemory(std::byte* base, size_t bytes, Access access) override;
  /// To be called once, because ports belong to one thread.
  std::unique_ptr<Endpoint> makeEndpoint(const Identity& identity) override;
  /// "02:00:00:00:00:01 at net_memif0, net_memif1", for people.
  std::string describe() const;

 private:
  DpdkTransport(const DpdkOptions& options, const datagram::DatagramContext& context, Environment& environment);

  const DpdkOptions options_;
  const datagram::DatagramContext context_;
  const Limits limits_;
  Environment& environment_;
  std::unique_ptr<FramePools> pools_;
  std::vector<std::unique_ptr<DpdkPort>> ports_;
  std::vector<std::unique_ptr<datagram::FaultyPort>> faulty_;
  RegionId region_count_ = 0;
  bool has_endpoint_ = false;
};

}  // namespace ramcore::transport::dpdk
