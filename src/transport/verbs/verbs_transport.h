#pragma once

#include <memory>
#include <string>

#include "transport/verbs/verbs_options.h"

namespace ramcore::transport::verbs {

class Device;
class Regions;

/// Messages over InfiniBand or RoCE, on reliable connected queue pairs. One transport for each dispatch thread: its
/// endpoints share context and device. See docs/transport.md and docs/rdma.md.
class VerbsTransport final : public Transport {
 public:
  /// Failure: BadConfig: no device, or not the one asked for; NoSpace: the limit of locked memory; IoError.
  static Outcome<std::unique_ptr<VerbsTransport>> open(const VerbsOptions& options, const VerbsContext& context);
  ~VerbsTransport() override;

  const Limits& limits() const override { return limits_; }
  std::string_view scheme() const override { return "verbs"; }
  /// To be called before the first endpoint is made.
  Outcome<RegionId> registerMemory(std::byte* base, size_t bytes, Access access) override;
  std::unique_ptr<Endpoint> makeEndpoint(const Identity& identity) override;
  /// Does the same, but fails if the endpoint could not work: if there are no queues, no events, or no memory for some
  /// messages, which is tried and given back. Failure: NoSpace: the limit of locked memory; IoError.
  Outcome<std::unique_ptr<Endpoint>> openEndpoint(const Identity& identity);
  /// "rxe0 port 1 gid 1", for people.
  std::string describeDevice() const;

 private:
  VerbsTransport(const VerbsOptions& options, const VerbsContext& context, std::unique_ptr<Device> device);

  const VerbsOptions options_;
  const VerbsContext context_;
  Limits limits_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Regions> regions_;
};

}  // namespace ramcore::transport::verbs
