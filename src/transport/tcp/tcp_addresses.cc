#include "transport/tcp/tcp_addresses.h"

#include <algorithm>

namespace ramcore::transport::tcp {

bool parseAddress(const std::string& host, asio::ip::address& address) {
  Error error;
  address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  return !error;
}

std::vector<Tcp::endpoint> inOrderOfTrial(const Tcp::resolver::results_type& results) {
  std::vector<Tcp::endpoint> addresses;
  for (const auto& result : results) addresses.push_back(result.endpoint());
  std::reverse(addresses.begin(), addresses.end());
  return addresses;
}

Outcome<std::vector<Tcp::endpoint>> addressesOf(const Locator& where, asio::io_context& io) {
  asio::ip::address address;
  if (parseAddress(where.host, address)) return std::vector<Tcp::endpoint>{Tcp::endpoint(address, where.port)};
  Error error;
  Tcp::resolver resolver(io);
  const auto results = resolver.resolve(where.host, std::to_string(where.port), error);
  if (error || results.empty()) {
    return Failure{Status::BadConfig, "cannot listen at " + where.toString() + ": host '" + where.host +
                                          "' is unknown (" + error.message() + "); write an address of this machine"};
  }
  return inOrderOfTrial(results);
}

}  // namespace ramcore::transport::tcp
