#pragma once

// The only include of Asio. Boost 1.74 needs <utility> before it in C++20. Of Asio we use sockets, descriptors, names
// and the reactor, always with an error_code: no exceptions, no awaitable, no strands, no thread pool.
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

namespace ramcore::transport::tcp {

namespace asio = boost::asio;
using Error = boost::system::error_code;
using Tcp = asio::ip::tcp;

}  // namespace ramcore::transport::tcp
