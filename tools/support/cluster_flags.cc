#include "tools/support/cluster_flags.h"

#include <utility>

#include "log/format/segment_format.h"
#include "runtime/real/secret_file.h"
#include "tools/support/command_line.h"
#include "tools/support/dpdk_flags.h"
#include "tools/support/rdma_flags.h"
#include "transport/session/cluster_name.h"
#include "wire/handshake_messages.h"

namespace ramcore::tools {

void addCoordinatorFlag(Command& command, std::vector<std::string>& coordinators) {
  command
      .addOption("--coordinator", coordinators,
                 "Locator of the coordinator: tcp://HOST:PORT, verbs://HOST:PORT, dpdk://ADDRESS@NUMBER or "
                 "shm:///PATH. Repeat the flag, or write LOCATOR,LOCATOR, to name other locators of the coordinator or "
                 "other coordinators: the first that answers is used, and another one when it is away")
      .environment("RAMCORE_COORDINATOR")
      .oneValueEach()
      .splitAt(',')
      .showDefault()
      .typeName("LOCATOR");
}

Outcome<std::vector<transport::Locator>> parseLocators(const std::vector<std::string>& texts) {
  std::vector<transport::Locator> locators;
  for (const std::string& text : texts) {
    Outcome<transport::Locator> locator = transport::Locator::parse(text);
    if (!locator) return locator.error();
    locators.push_back(std::move(locator).value());
  }
  return locators;
}

void ClusterFlags::addTo(Command& command) {
  coordinators = {"tcp://127.0.0.1:11100"};
  addCoordinatorFlag(command, coordinators);
  command.addOption("--cluster", cluster_name, "Name of the cluster; both ends must have the same")
      .environment("RAMCORE_CLUSTER")
      .showDefault()
      .typeName("NAME");
  command
      .addOption("--secret-file", secret_file,
                 "File with the cluster's secret; without it this program talks to its own machine only")
      .environment("RAMCORE_SECRET_FILE")
      .typeName("FILE");
  command
      .addOption(
          "--rdma-device", rdma_device,
          "RDMA device to reach servers with, NAME, NAME:PORT or NAME:PORT:GID; without it the first active one, "
          "if there is any")
      .ofAdapters()
      .environment("RAMCORE_RDMA_DEVICE")
      .typeName("DEVICE");
  addRdmaClassFlags(command, rdma_class);
  addDpdkFlags(command, dpdk);
  command.setVersion(std::string("ramcore ") + RAMCORE_VERSION + " (wire format " +
                     std::to_string(wire::kProtocolVersion) + ", segment format " +
                     std::to_string(log::kSegmentFormat) + ")");
}

Outcome<ClusterAccess> ClusterFlags::open(transport::Role role) const {
  ClusterAccess access;
  access.role = role;
  const Outcome<bool> named = transport::checkClusterName(cluster_name);
  if (!named) return named.error();
  access.cluster_name = cluster_name;
  auto locators = parseLocators(coordinators);
  if (!locators) return locators.error();
  access.coordinators = std::move(locators).value();
  Outcome<std::string> secret = runtime::readSecretFile(secret_file);
  if (!secret) return secret.error();
  access.secret = std::move(secret).value();
  if (!rdma_device.empty()) {
    auto device = transport::VerbsDeviceChoice::parse(rdma_device);
    if (!device) return device.error();
    access.transports.verbs_device = std::move(device).value();
    access.transports.verbs = transport::TransportChoices::Wanted::Yes;
  }
  access.transports.rdma_class = rdma_class;
  access.transports.dpdk = dpdk;
  return access;
}

Failure explainTooFew(Status status, const std::string& what) {
  const std::string fate = status == Status::OutcomeUnknown ? "sent, and may happen yet; "
                                                            : "not done (" + std::string(name(status)) + "); ";
  return {
      status,
      what + ": " + fate +
          "fewer servers keep replicas than --min-replicas of the servers asks for, or their storage is full: start "
          "servers, or one alone with --local-replica; or remove objects ('ramcore status' says which is the case)"};
}

Failure explain(Status status, const std::string& what, const client::CoordinatorStub& coordinator) {
  const std::string status_name(name(status));
  switch (status) {
    case Status::Unreachable:
    case Status::SessionLost:
    case Status::DeadlineExceeded:
      if (!coordinator.isReached()) return {status, coordinator.whyNoAnswer()};
      return {status, "no answer about " + what + " (" + status_name +
                          "), though the coordinator is there; 'ramcore status' says whether its servers are"};
    case Status::Refused:
      if (!coordinator.isReached()) return {status, coordinator.whyNoAnswer()};
      return {status, "the process that listens at the address of a server of the cluster refuses this client, about " +
                          what +
                          "; check that --cluster, --secret-file and version are those of the servers, whose logs say "
                          "which differs"};
    case Status::StateBehind:
      return {status, what + ": the coordinator at " + coordinator.places() +
                          " has an older copy of the cluster's state, and serves nobody; its log says what it misses"};
    case Status::WrongCluster:
      return {status, what + ": the coordinator at " + coordinator.places() +
                          " is of another cluster than the one before; it was probably started on another --storage"};
    case Status::NoSuchTable:
      return {status, what + " does not exist; create it first, 'ramcore list' shows those that do"};
    case Status::RetryLater:
      return {status, what + ": the cluster is busy with it or a server does not answer; try again"};
    case Status::OutcomeUnknown:
      return {status, what + ": sent, and no answer came; look whether it has happened before you repeat it"};
    case Status::TooLarge:
      return {status, what + ": too long; keys have at most 65535 bytes and values at most 1048576"};
    case Status::BadRequest:
      return {status, what + ": makes no sense; names and keys have at least 1 byte and at most 65535"};
    case Status::TooFewReplicas:
      return explainTooFew(status, what);
    case Status::NoSpace:
      return {status, what + ": the servers' memory is full; remove objects, or add servers or memory"};
    case Status::CoordinatorFull:
      return {status,
              what + ": the disk of the coordinator's storage is full; make room there, then what was begun goes on"};
    case Status::LimitReached:
      return {status, what + ": the cluster has as many tables, tablets or clients as it may; drop some first"};
    default:
      return {status, what + ": " + status_name + " (docs/operating.md says what it means)"};
  }
}

}  // namespace ramcore::tools
