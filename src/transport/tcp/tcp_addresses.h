#pragma once

#include <string>
#include <vector>

#include "transport/tcp/asio.h"
#include "transport/transport.h"

namespace ramcore::transport::tcp {

/// Reads a host that needs no look-up: an address, or "localhost". Returns false for other names.
bool parseAddress(const std::string& host, asio::ip::address& address);
/// The addresses that a look-up has found, the first one to be tried last.
std::vector<Tcp::endpoint> inOrderOfTrial(const Tcp::resolver::results_type& results);
/// Looks up where to listen, in the same order. Blocks: for the start of a process. Failure: BadConfig: the host is
/// unknown.
Outcome<std::vector<Tcp::endpoint>> addressesOf(const Locator& where, asio::io_context& io);

}  // namespace ramcore::transport::tcp
