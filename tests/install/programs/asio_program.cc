// A program that uses Boost.Asio itself, with settings other than the library's: what is inline in the headers of Asio
// is then other code under the same names. Usage: asio_program LOCATOR
#define BOOST_ASIO_DISABLE_EPOLL 1
#define BOOST_ASIO_DISABLE_EVENTFD 1
#define BOOST_ASIO_DISABLE_TIMERFD 1
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdio>
#include <string>

#include "ramcore/client.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  boost::asio::io_context io;
  int handlers = 0;
  boost::asio::steady_timer timer(io, std::chrono::milliseconds(10));
  timer.async_wait([&](const boost::system::error_code&) { ++handlers; });
  boost::asio::ip::tcp::resolver resolver(io);
  resolver.async_resolve("localhost", "1", [&](const boost::system::error_code&, const auto&) { ++handlers; });

  ramcore::ClientOptions options;
  options.coordinators = {argv[1]};
  auto client = ramcore::Client::connect(options);
  if (!client) {
    std::fprintf(stderr, "%s\n", client.error().message.c_str());
    return 1;
  }
  auto table = client->createTable("asio");
  if (!table) table = client->openTable("asio");
  if (!table || !client->write(*table, "key", "value").ok()) return 3;
  auto pending = client->readAsync(*table, "key");
  io.run();
  const auto found = pending.get();
  if (!found || found->value != "value") return 4;
  return handlers == 2 ? 0 : 5;
}
