#include "transport/registry/advertising.h"

#include <algorithm>
#include <iterator>

namespace ramcore::transport {
namespace {

// A handshake can tell 16 locators of 256 bytes each (wire/handshake_messages.h). The others are for the places at
// which the process listens besides.
constexpr size_t kAdvertisedMax = 8;
constexpr size_t kAdvertisedBytesMax = 256;

Failure bad(const Locator& locator, const std::string& why) {
  return {Status::BadConfig, "--advertise " + locator.toString() + ": " + why};
}

bool isOfInternet(const Locator& locator) { return locator.scheme == "tcp" || locator.scheme == "verbs"; }

// True for 224.0.0.0 to 255.255.255.255 and for ff00::/8: addresses of many machines, or of none.
bool isOfMany(const std::string& host) {
  if (host.find(':') != std::string::npos) return host.starts_with("ff") || host.starts_with("FF");
  if (host.find_first_not_of("0123456789.") != std::string::npos) return false;
  return host.size() >= 7 && host.find('.') == 3 && host.substr(0, 3) >= "224";
}

bool isAddress6(const std::string& host) { return host.find(':') != std::string::npos; }

std::string listed(const std::vector<std::string>& addresses) {
  std::string text;
  for (const std::string& address : addresses) text += (text.empty() ? "" : ", ") + address;
  return text;
}

Locator withHost(Locator locator, const std::string& host) {
  locator.host = host;
  return locator;
}

// The addresses of the machine at which `bound`, which listens at all of them, is reached.
std::vector<std::string> candidatesFor(const Locator& bound, const AdvertisingFacts& facts) {
  const auto of = [&](bool is6) {
    std::vector<std::string> addresses;
    std::ranges::copy_if(facts.own_addresses, std::back_inserter(addresses),
                         [&](const std::string& address) { return isAddress6(address) == is6; });
    return addresses;
  };
  std::vector<std::string> addresses = of(false);
  if (addresses.empty() && isAddress6(bound.host)) addresses = of(true);
  return addresses;
}

// The locators to be told for `bound`, which listens at every address and for which nobody has named one.
Outcome<std::vector<Locator>> chooseFor(const Locator& bound, const AdvertisingFacts& facts,
                                        std::vector<std::string>& chosen) {
  const std::vector<std::string> candidates = candidatesFor(bound, facts);
  std::vector<Locator> locators;
  for (const std::string& address : candidates) locators.push_back(withHost(bound, address));
  if (!facts.is_told_to_others) return locators.empty() ? std::vector<Locator>{bound} : locators;
  const std::string text = bound.toString();
  if (candidates.empty()) {
    return Failure{Status::BadConfig, "cannot tell others where " + text +
                                          " is: this machine has no address that others reach; name one, for example "
                                          "--advertise " +
                                          bound.scheme + "://HOST:0"};
  }
  if (candidates.size() > 1) {
    return Failure{Status::BadConfig, "cannot tell others where " + text + " is: this machine has several addresses (" +
                                          listed(candidates) + "); name the one that others reach: --advertise " +
                                          withHost({bound.scheme, "", 0, "", {}}, candidates.front()).toString()};
  }
  chosen.push_back("advertising " + locators.front().toString() + " for " + text +
                   ": this machine has no other address; --advertise names another one");
  return locators;
}

// The ports at which a transport listens.
std::vector<uint16_t> portsOf(std::span<const Locator> bound, const std::string& scheme) {
  std::vector<uint16_t> ports;
  for (const Locator& locator : bound) {
    if (locator.scheme == scheme && std::ranges::find(ports, locator.port) == ports.end()) {
      ports.push_back(locator.port);
    }
  }
  return ports;
}

}  // namespace

bool isEveryAddress(const Locator& locator) {
  return isOfInternet(locator) && !locator.host.empty() && locator.host.find_first_not_of("0.:") == std::string::npos;
}

Outcome<std::vector<Locator>> parseAdvertised(std::span<const std::string> texts) {
  std::vector<Locator> wanted;
  for (const std::string& text : texts) {
    auto locator = Locator::parse(text);
    if (!locator.ok()) {
      return Failure{Status::BadConfig,
                     "--advertise: " + (text.starts_with("all:") ? "'" + text + "': name each transport, tcp://HOST:0"
                                                                 : locator.error().message)};
    }
    if (!isOfInternet(*locator)) {
      return bad(*locator, "others reach what is listened at over " + locator->scheme +
                               " only as it is; name locators of tcp and verbs");
    }
    if (isEveryAddress(*locator)) {
      return bad(*locator,
                 "means every address of a machine, and nobody can connect to that; name one that others reach");
    }
    if (isOfMany(locator->host)) {
      return bad(*locator, "is the address of no single machine; name one that others reach");
    }
    if (text.size() > kAdvertisedBytesMax) return bad(*locator, "is longer than 256 bytes; name a shorter one");
    if (std::ranges::find(wanted, *locator) == wanted.end()) wanted.push_back(std::move(locator).value());
  }
  if (wanted.size() > kAdvertisedMax) {
    return Failure{Status::BadConfig, "--advertise: " + std::to_string(wanted.size()) + " locators; name at most " +
                                          std::to_string(kAdvertisedMax)};
  }
  return wanted;
}

Outcome<Advertising> planAdvertising(std::span<const Locator> bound, std::span<const Locator> wanted,
                                     const AdvertisingFacts& facts) {
  Advertising result;
  ptrdiff_t tcp_count = 0;
  for (const Locator& locator : wanted) {
    const std::vector<uint16_t> ports = portsOf(bound, locator.scheme);
    if (ports.empty()) {
      return bad(locator, "this process does not listen over " + locator.scheme + "; add that to --listen");
    }
    if (locator.port == 0 && ports.size() > 1) {
      return bad(locator, "port 0 means the one that is listened at, and there are several; name one");
    }
    Locator told = locator;
    if (told.port == 0) told.port = ports.front();
    const auto place = told.scheme == "tcp" ? result.locators.begin() + tcp_count++ : result.locators.end();
    result.locators.insert(place, std::move(told));
  }
  for (const Locator& locator : bound) {
    const auto isOfScheme = [&](const Locator& other) { return other.scheme == locator.scheme; };
    if (std::ranges::any_of(wanted, isOfScheme)) continue;
    if (!isEveryAddress(locator)) {
      result.locators.push_back(locator);
    } else if (!wanted.empty()) {
      // The hosts that were named for one transport reach the machine over the other one, too.
      for (const Locator& named : wanted) result.locators.push_back(withHost(locator, named.host));
    } else {
      auto locators = chooseFor(locator, facts, result.chosen);
      if (!locators.ok()) return std::move(locators).error();
      result.locators.insert(result.locators.end(), locators->begin(), locators->end());
    }
  }
  return result;
}

}  // namespace ramcore::transport
