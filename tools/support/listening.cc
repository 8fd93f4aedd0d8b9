#include "tools/support/listening.h"

#include <algorithm>
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
    return Failure{Status::BadConfig, "will not listen at " + text +
                                          " without a cluster secret: give --secret-file, or listen at 127.0.0.1"};
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

// What this process has; `folder` is for its socket.
ListenMeans findMeans(const transport::TransportSet& network, bool has_secret, runtime::Entropy& entropy, Trace& trace,
                      std::string& folder) {
  ListenMeans means;
  means.has_secret = has_secret;
  means.verbs = meansOf(network, "verbs");
  // The set has said why a device that is there is not used.
  if (!network.whyNoVerbs().empty()) means.verbs.why_not.clear();
  means.dpdk = meansOf(network, "dpdk");
  auto opened = transport::shm::openSocketFolder(transport::shm::SocketFolderPlaces::ofEnvironment());
  if (!opened.ok()) {
    means.shm.why_not = opened.error().message;
    return means;
  }
  folder = std::move(opened).value();
  const uint32_t dead = transport::shm::removeDeadSockets(folder);
  if (dead != 0) trace.info("removed " + std::to_string(dead) + " socket(s) of dead processes in " + folder);
  means.shm.is_there = true;
  means.shm_path = transport::shm::newSocketPath(folder, entropy);
  return means;
}

}  // namespace

Outcome<std::vector<std::string>> listenAt(transport::TransportSet& network, std::span<const ListenWish> wishes,
                                           bool has_secret, runtime::Entropy& entropy, Trace& trace) {
  ListenMeans means;
  std::string folder;
  if (std::ranges::any_of(wishes, &ListenWish::is_all)) {
    means = findMeans(network, has_secret, entropy, trace, folder);
  }
  ListenPlan plan = transport::planListening(wishes, means);
  std::vector<std::string> locators;
  for (ListenPlan::Place& place : plan.places) {
    auto bound = listenAtPlace(network, place.locator, has_secret);
    for (int tried = 1; !bound.ok() && !place.is_must && place.locator.scheme == "shm" && tried < kPathsTried;
         ++tried) {
      place.locator.path = transport::shm::newSocketPath(folder, entropy);
      bound = listenAtPlace(network, place.locator, has_secret);
    }
    if (bound.ok()) {
      locators.push_back(bound->toString());
    } else if (place.is_must) {
      return std::move(bound).error();
    } else {
      plan.left_out.push_back(transport::notListeningOver(place.locator.scheme, bound.error().message));
    }
  }
  for (const std::string& line : plan.left_out) trace.info(line);
  return locators;
}

}  // namespace ramcore::tools
