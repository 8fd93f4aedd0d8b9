#include "tools/support/advertise.h"

#include <algorithm>
#include <string>

#include "tools/support/host_addresses.h"
#include "transport/registry/advertising.h"

namespace ramcore::tools {
namespace {

using transport::Locator;

constexpr const char* kRemedy =
    "listen at an address that others reach, --listen all://ADDRESS:0, or name one with "
    "--advertise";

bool hasAddress(const Locator& locator) { return locator.scheme == "tcp" || locator.scheme == "verbs"; }

// The coordinator that is farthest away, and where that is.
struct Farthest {
  Whereabouts where = Whereabouts::ThisMachineOnly;
  std::string locator;
};

Farthest farthestOf(std::span<const Locator> coordinators) {
  Farthest farthest;
  for (const Locator& locator : coordinators) {
    // Locators without an address are left out: where one of DPDK leads is not known, and one of shm is for processes
    // of its own machine.
    if (!hasAddress(locator)) continue;
    const Whereabouts where = whereaboutsOf(locator);
    if (where == Whereabouts::ThisMachineOnly || farthest.where == Whereabouts::Elsewhere) continue;
    if (where == Whereabouts::Elsewhere || farthest.locator.empty()) farthest = {where, locator.toString()};
  }
  return farthest;
}

std::string listed(std::span<const Locator> locators) {
  std::string text;
  for (const Locator& locator : locators) text += (text.empty() ? "" : ", ") + locator.toString();
  return text;
}

Outcome<std::vector<Locator>> withoutThisMachineOnly(std::vector<Locator> locators, std::span<const Locator> wanted,
                                                     std::span<const Locator> coordinators, Trace& trace) {
  const auto isThisMachineOnly = [](const Locator& locator) {
    return hasAddress(locator) && whereaboutsOf(locator) == Whereabouts::ThisMachineOnly;
  };
  // Mostly no locator is for this machine only; then the coordinator's name need not be looked up here.
  if (std::ranges::none_of(locators, isThisMachineOnly)) return locators;
  const Farthest coordinator = farthestOf(coordinators);
  if (coordinator.where == Whereabouts::ThisMachineOnly) return locators;
  std::vector<Locator> told;
  std::vector<Locator> left_out;
  for (Locator& locator : locators) {
    if (!isThisMachineOnly(locator)) {
      told.push_back(std::move(locator));
      continue;
    }
    const bool is_named = std::ranges::any_of(wanted, [&](const Locator& one) { return one.host == locator.host; });
    if (!is_named && coordinator.where == Whereabouts::Elsewhere) {
      left_out.push_back(std::move(locator));
      continue;
    }
    trace.warning("advertising " + locator.toString() + ", which means this machine only, though the coordinator at " +
                  coordinator.locator + " may have others: they will not reach this server; " + kRemedy);
    told.push_back(std::move(locator));
  }
  if (left_out.empty()) return told;
  const std::string why = listed(left_out) + " means this machine only, and the coordinator at " + coordinator.locator +
                          " is on another one; " + kRemedy;
  if (std::ranges::all_of(told, [](const Locator& locator) { return locator.scheme == "shm"; })) {
    return Failure{Status::BadConfig, "nobody would reach this server: " + why};
  }
  trace.warning("not advertised: " + why);
  return told;
}

}  // namespace

Outcome<std::vector<Locator>> whatToAdvertise(std::span<const Locator> bound, std::span<const Locator> wanted,
                                              std::span<const Locator> coordinators, Trace& trace) {
  transport::AdvertisingFacts facts{.own_addresses = {}, .is_told_to_others = !coordinators.empty()};
  if (std::ranges::any_of(bound, &transport::isEveryAddress)) facts.own_addresses = ownAddresses();
  auto plan = transport::planAdvertising(bound, wanted, facts);
  if (!plan.ok()) return std::move(plan).error();
  for (const std::string& line : plan->chosen) trace.info(line);
  if (coordinators.empty()) return std::move(plan->locators);
  return withoutThisMachineOnly(std::move(plan->locators), wanted, coordinators, trace);
}

}  // namespace ramcore::tools
