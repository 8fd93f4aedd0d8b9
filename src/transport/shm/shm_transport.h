#pragma once

#include "transport/shm/shm_options.h"

namespace ramcore::transport::shm {

/// Messages between processes of one machine and one user, through rings in shared memory. See docs/shm.md.
class ShmTransport final : public Transport {
 public:
  /// Endpoints of one transport share the context and so the sleeper: one transport a dispatch thread.
  ShmTransport(const ShmOptions& options, const ShmContext& context);

  const Limits& limits() const override { return limits_; }
  std::string_view scheme() const override { return "shm"; }
  /// Everything is copied into the ring, so there is nothing to register: gives 0.
  Outcome<RegionId> registerMemory(std::byte* base, size_t bytes, Access access) override;
  std::unique_ptr<Endpoint> makeEndpoint(const Identity& identity) override;

 private:
  ShmOptions options_;
  ShmContext context_;
  Limits limits_;
};

}  // namespace ramcore::transport::shm
