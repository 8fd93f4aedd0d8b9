#include "tools/support/host_addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

namespace ramcore::tools {
namespace {

bool isLoopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in ip4;
    std::memcpy(&ip4, &address, sizeof(ip4));
    return ntohl(ip4.sin_addr.s_addr) >> 24 == 127;
  }
  sockaddr_in6 ip6;
  std::memcpy(&ip6, &address, sizeof(ip6));
  if (IN6_IS_ADDR_V4MAPPED(&ip6.sin6_addr)) return ip6.sin6_addr.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&ip6.sin6_addr);
}

bool isLinkLocal(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in ip4;
    std::memcpy(&ip4, &address, sizeof(ip4));
    return ntohl(ip4.sin_addr.s_addr) >> 16 == 0xa9fe;  // 169.254/16
  }
  sockaddr_in6 ip6;
  std::memcpy(&ip6, &address, sizeof(ip6));
  return IN6_IS_ADDR_LINKLOCAL(&ip6.sin6_addr);
}

bool isOfInternet(const sockaddr* address) {
  return address != nullptr && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

std::string numeric(const sockaddr& address) {
  std::array<char, NI_MAXHOST> text{};
  const socklen_t bytes = address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  const int error = ::getnameinfo(&address, bytes, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text.data() : "";
}

}  // namespace

std::vector<std::string> ownAddresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, &::freeifaddrs);
  std::vector<std::string> addresses;
  std::vector<std::string> addresses6;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (!isOfInternet(one->ifa_addr) || (one->ifa_flags & IFF_UP) == 0) continue;
    if (isLoopback(*one->ifa_addr) || isLinkLocal(*one->ifa_addr)) continue;
    std::string text = numeric(*one->ifa_addr);
    std::vector<std::string>& found = one->ifa_addr->sa_family == AF_INET ? addresses : addresses6;
    if (!text.empty() && std::ranges::find(found, text) == found.end()) found.push_back(std::move(text));
  }
  addresses.insert(addresses.end(), addresses6.begin(), addresses6.end());
  return addresses;
}

Whereabouts whereaboutsOf(const transport::Locator& locator) {
  if (transport::isLocalOnly(locator)) return Whereabouts::ThisMachineOnly;
  if (locator.scheme != "tcp" && locator.scheme != "verbs") return Whereabouts::Unknown;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  if (::getaddrinfo(locator.host.c_str(), nullptr, &hints, &first) != 0) return Whereabouts::Unknown;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(first, &::freeaddrinfo);
  const std::vector<std::string> own = ownAddresses();
  auto result = Whereabouts::ThisMachineOnly;
  for (const addrinfo* one = first; one != nullptr; one = one->ai_next) {
    if (!isOfInternet(one->ai_addr) || isLoopback(*one->ai_addr)) continue;
    if (std::ranges::find(own, numeric(*one->ai_addr)) == own.end()) return Whereabouts::Elsewhere;
    result = Whereabouts::ThisMachine;
  }
  return result;
}

}  // namespace ramcore::tools
