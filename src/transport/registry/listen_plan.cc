#include "transport/registry/listen_plan.h"

#include <algorithm>
#include <utility>

namespace ramcore::transport {
namespace {

constexpr std::string_view kAll = "all://";

// `text` begins with "all".
Failure badAll(std::string_view text, std::string_view why) {
  return Failure{Status::BadConfig, "bad locator '" + std::string(text) + "': " + std::string(why) +
                                        "; write e.g. all://127.0.0.1:0, and choose devices with flags (--rdma-device, "
                                        "--dpdk-port)"};
}

// What is wrong with "all://" + `place`.
std::string whyBadPlace(const std::string& place) {
  const size_t colon = place.rfind(':');
  if (colon != std::string::npos && Locator::parse("tcp://" + place.substr(0, colon) + ":0").ok()) {
    return "'" + place.substr(colon + 1) + "' is no port: 1 to 65535, or 0 for any free one";
  }
  return "all wants a host and a port and nothing else";
}

}  // namespace

bool isNamed(std::span<const ListenWish> wishes, std::string_view scheme) {
  return std::ranges::any_of(wishes,
                             [&](const ListenWish& wish) { return !wish.is_all && wish.locator.scheme == scheme; });
}

void ListenPlan::leaveOut(std::string_view scheme, std::string_view why, TraceLevel level) {
  left_out.push_back({.line = "not listening over " + std::string(scheme) + ": " + std::string(why), .level = level});
}

Outcome<ListenWish> ListenWish::parse(std::string_view text) {
  if (text.starts_with(kAll)) {
    const std::string place(text.substr(kAll.size()));
    auto locator = Locator::parse("tcp://" + place);
    if (!locator.ok()) return badAll(text, whyBadPlace(place));
    if (!locator->options.empty()) return badAll(text, "all takes no options");
    return ListenWish{.locator = std::move(locator).value(), .is_all = true};
  }
  if (text == "all" || text.starts_with("all:")) return badAll(text, whyBadPlace(""));
  auto locator = Locator::parse(text);
  if (!locator.ok()) {
    // The message of Locator::parse ends with examples.
    return Failure{locator.error().status, locator.error().message + ", or all://127.0.0.1:0 for every transport"};
  }
  return ListenWish{.locator = std::move(locator).value(), .is_all = false};
}

ListenPlan planListening(std::span<const ListenWish> wishes, const ListenMeans& means) {
  ListenPlan plan;
  const auto first = std::ranges::find_if(wishes, &ListenWish::is_all);
  const auto addNamed = [&](bool is_tcp) {
    for (const ListenWish& wish : wishes) {
      if ((wish.locator.scheme == "tcp") != is_tcp) continue;
      const auto is_same = [&](const ListenWish& other) { return !other.is_all && other.locator == wish.locator; };
      const auto is_there = [&](const ListenPlan::Place& place) { return place.locator == wish.locator; };
      if (wish.is_all && (std::ranges::any_of(wishes, is_same) || std::ranges::any_of(plan.places, is_there))) continue;
      plan.places.push_back({.locator = wish.locator});
    }
  };
  addNamed(true);
  addNamed(false);
  if (first == wishes.end()) return plan;

  // Endpoints of shm, verbs and dpdk listen at one place only, so `all://` adds nothing to one that is named.
  const auto add = [&](const ListenMeans::Means& transport, Locator locator) {
    if (isNamed(wishes, locator.scheme)) return;
    if (transport.is_there) {
      plan.places.push_back({.locator = std::move(locator), .is_must = false});
    } else if (!transport.why_not.empty()) {
      plan.leaveOut(locator.scheme, transport.why_not, transport.level);
    }
  };
  add(means.shm, Locator{"shm", "", 0, means.shm_path, {}});
  // Port 0 means a free one: tcp has taken that of the locator.
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
