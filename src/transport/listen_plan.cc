#include "transport/listen_plan.h"

#include <algorithm>
#include <utility>

namespace ramcore::transport {
namespace {

constexpr std::string_view kAll = "all://";

Failure badAll(std::string_view text) {
  return Failure{Status::BadConfig,
                 "bad locator '" + std::string(text) +
                     "': all wants a host and a port and nothing else; write e.g. "
                     "all://127.0.0.1:0, and choose devices with flags (--rdma-device, --dpdk-port)"};
}

bool isNamed(std::span<const ListenWish> wishes, std::string_view scheme) {
  return std::ranges::any_of(wishes,
                             [&](const ListenWish& wish) { return !wish.is_all && wish.locator.scheme == scheme; });
}

}  // namespace

Outcome<ListenWish> ListenWish::parse(std::string_view text) {
  const bool is_all = text.starts_with(kAll);
  auto locator = Locator::parse(is_all ? "tcp://" + std::string(text.substr(kAll.size())) : std::string(text));
  if (is_all && (!locator.ok() || !locator->options.empty())) return badAll(text);
  if (!locator.ok()) return std::move(locator).error();
  return ListenWish{.locator = std::move(locator).value(), .is_all = is_all};
}

std::string notListeningOver(std::string_view scheme, std::string_view why) {
  return "not listening over " + std::string(scheme) + ": " + std::string(why);
}

ListenPlan planListening(std::span<const ListenWish> wishes, const ListenMeans& means) {
  ListenPlan plan;
  const auto first = std::ranges::find_if(wishes, &ListenWish::is_all);
  for (const ListenWish& wish : wishes) {
    const auto is_same = [&](const ListenWish& other) { return !other.is_all && other.locator == wish.locator; };
    const auto is_there = [&](const ListenPlan::Place& place) { return place.locator == wish.locator; };
    if (wish.is_all && (std::ranges::any_of(wishes, is_same) || std::ranges::any_of(plan.places, is_there))) continue;
    plan.places.push_back({.locator = wish.locator});
  }
  if (first == wishes.end()) return plan;

  // An endpoint of these listens at one place only.
  const auto add = [&](const ListenMeans::Means& transport, Locator locator) {
    if (isNamed(wishes, locator.scheme)) return;
    if (transport.is_there) {
      plan.places.push_back({.locator = std::move(locator), .is_must = false});
    } else if (!transport.why_not.empty()) {
      plan.left_out.push_back(notListeningOver(locator.scheme, transport.why_not));
    }
  };
  add(means.shm, Locator{"shm", "", 0, means.shm_path, {}});
  // A free port: that of the locator is taken, by tcp.
  add(means.verbs, Locator{"verbs", first->locator.host, 0, "", {}});
  ListenMeans::Means dpdk = means.dpdk;
  if (dpdk.is_there && !means.has_secret) {
    dpdk = {.is_there = false,
            .why_not =
                "other machines reach its ports, and without a cluster secret only this machine is listened to; "
                "give --secret-file"};
  }
  add(dpdk, Locator{"dpdk", "any", 0, "", {}});
  return plan;
}

}  // namespace ramcore::transport
