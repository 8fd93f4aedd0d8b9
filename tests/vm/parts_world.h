#pragma once

#include <memory>

#include "contract/transport_suite.h"
#include "runtime/real/system_clock.h"
#include "transport/verbs/device.h"
#include "transport/verbs/regions.h"
#include "transport/verbs/verbs_endpoint.h"

namespace ramcore::transport::verbs {

/// An endpoint over queue pairs and what it stands on, put together here and not by VerbsTransport, so that a test
/// sees the parts: it may register memory in the protection domain of the endpoint's queue pairs, and look into it.
class PartsNode final : public contract::Node {
 public:
  PartsNode(const VerbsOptions& options, runtime::Clock& clock, runtime::Entropy& entropy, const Identity& identity);

  Endpoint& endpoint() override { return *endpoint_; }
  Sleeper* sleeper() override { return &sleeper_; }
  VerbsEndpoint& verbs() { return *endpoint_; }
  const Device& device() const { return device_; }

 private:
  EpollSleeper sleeper_;
  Device device_;
  Regions regions_;
  Limits limits_;
  std::unique_ptr<VerbsEndpoint> endpoint_;
};

/// Servers at one software device and clients at the other, with options of the test's choice.
class PartsWorld final : public contract::World {
 public:
  explicit PartsWorld(const VerbsOptions& options);

  std::unique_ptr<contract::Node> makeNode(const contract::NodeOptions& options, const Identity& identity) override;
  Locator placeToListen(contract::Node&, int) override { return Locator::parse("verbs://127.0.0.1:0").value(); }
  Locator emptyPlace() override { return Locator::parse("verbs://127.0.0.1:1").value(); }
  int64_t nowNs() override { return clock_.nowNs(); }

 private:
  const VerbsOptions options_;
  runtime::SystemClock clock_;
  runtime::SystemEntropy entropy_;
};

/// Options with short timeouts.
VerbsOptions impatientOptions();

inline PartsNode& partsOf(contract::Process& process) { return static_cast<PartsNode&>(*process.node); }

}  // namespace ramcore::transport::verbs
