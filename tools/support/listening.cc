#include "tools/support/listening.h"

#include <algorithm>
#include <string>
#include <utility>

#include "transport/shm/socket_folder.h"

namespace ramcore::tools {
namespace {

using transport::ListenMeans;
using transport::ListenPlan;
using transport::ListenWish;
using transport::Locator;

// Another process that looks for dead sockets may hold the lock of one that is just being made.
constexpr int kPathsTried = 3;

Outcome<Locator> listenAtPlace(transport::TransportSet& network, const Locator& locator, bool has_secret) {
  const std::string text = locator.toString();
  if (!has_secret && !transport::isLocalOnly(locator)) {
    const bool has_loopback = locator.scheme != "dpdk";
    return Failure{Status::BadConfig,
                   "will not listen at " + text + " without a cluster secret: " +
                       (has_loopback ? "give --secret-file, or listen at 127.0.0.1"
                                     : "other machines reach the ports of DPDK; give --secret-file")};
  }
  transport::Endpoint* const endpoint = network.endpointFor(locator);
  if (endpoint == nullptr) {
    return Failure{Status::BadConfig, "cannot listen at " + text + ": this process has " + network.schemes()};
  }
  return endpoint->listen(locator);
}

ListenMeans::Means meansOf(const transport::TransportSet& network, const std::string& scheme) {
  if (network.endpointFor(Locator{scheme, "", 0, "", {}}) != nullptr) return {.is_there = true, .why_not = ""};
  return {.is_there = false, .why_not = network.whyAbsent(scheme)};
}

// Opens a folder for sockets, and removes sockets of dead processes from it. Empty: there is no folder, and `shm` says
// why.
std::string prepareFolder(ListenMeans::Means& shm, Trace& trace) {
  const auto opened = transport::shm::openSocketFolder(transport::shm::SocketFolderPlaces::ofEnvironment());
  if (opened.path.empty()) {
    shm = {.is_there = false,
           .why_not = opened.why_not,
           .level = opened.is_disturbed ? TraceLevel::Warning : TraceLevel::Info};
    return "";
  }
  if (!opened.passed_over.empty()) trace.info("the socket is in " + opened.path + ": " + opened.passed_over);
  const uint32_t dead = transport::shm::removeDeadSockets(opened.path);
  if (dead != 0) trace.info("removed " + std::to_string(dead) + " socket(s) of dead processes in " + opened.path);
  shm.is_there = true;
  return opened.path;
}

}  // namespace

Outcome<std::vector<Locator>> listenAt(transport::TransportSet& network, std::span<const ListenWish> wishes,
                                       bool has_secret, runtime::Entropy& entropy, Trace& trace) {
  ListenMeans means;
  means.has_secret = has_secret;
  means.verbs = meansOf(network, "verbs");
  // The transport set has already said why a device that is there is not used.
  if (!network.whyNoVerbs().empty()) means.verbs.why_not.clear();
  means.dpdk = meansOf(network, "dpdk");
  // Ports of DPDK are used if they are named, and a named port that cannot be used is an error: if none is named,
  // nobody has wanted dpdk.
  means.dpdk.level = TraceLevel::Debug;
  std::string folder;
  if (std::ranges::any_of(wishes, &ListenWish::is_all) && !transport::isNamed(wishes, "shm")) {
    folder = prepareFolder(means.shm, trace);
    if (means.shm.is_there) means.shm_path = transport::shm::newSocketPath(folder, entropy);
  }
  ListenPlan plan = transport::planListening(wishes, means);
  std::vector<Locator> locators;
  for (ListenPlan::Place& place : plan.places) {
    auto bound = listenAtPlace(network, place.locator, has_secret);
    for (int tried = 1; !bound.ok() && !place.is_must && place.locator.scheme == "shm" && tried < kPathsTried;
         ++tried) {
      place.locator.path = transport::shm::newSocketPath(folder, entropy);
      bound = listenAtPlace(network, place.locator, has_secret);
    }
    if (bound.ok()) {
      locators.push_back(std::move(bound).value());
    } else if (place.is_must) {
      return std::move(bound).error();
    } else {
      plan.leaveOut(place.locator.scheme, bound.error().message);
    }
  }
  for (const ListenPlan::LeftOut& left_out : plan.left_out) {
    if (trace.enabled(left_out.level)) trace.write(left_out.level, left_out.line);
  }
  return locators;
}

}  // namespace ramcore::tools
