#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/support/cluster_session.h"

namespace ramcore::tools {

class Command;

/// Adds --coordinator, which may be given several times or with several locators. Borrows `coordinators`, which has the
/// default.
void addCoordinatorFlag(Command& command, std::vector<std::string>& coordinators);
/// Failure: BadConfig, for the first text that is no locator.
Outcome<std::vector<transport::Locator>> parseLocators(const std::vector<std::string>& texts);

/// The flags by which a tool finds its cluster.
struct ClusterFlags {
  std::vector<std::string> coordinators;
  std::string cluster_name = "ramcore";
  std::string secret_file;
  std::string rdma_device;
  transport::RdmaClass rdma_class;
  transport::DpdkChoice dpdk;

  /// Declares the flags, and --version. After parsing their values are in this object, which outlives the parsing.
  void addTo(Command& command);
  /// Parses the locators and reads the secret. Failure: one line with cause and remedy.
  Outcome<ClusterAccess> open(transport::Role role) const;
};

/// What went wrong with a call about `what` ("table 'x'"), made by the client that asks `coordinator`: status, cause
/// and remedy.
Failure explain(Status status, const std::string& what, const client::CoordinatorStub& coordinator);
/// The same for a call that failed because servers take no writes while too few others keep replicas.
Failure explainTooFew(Status status, const std::string& what);

}  // namespace ramcore::tools
