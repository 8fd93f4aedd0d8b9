#pragma once

#include <memory>

#include "transport/os/epoll_sleeper.h"

namespace boost::asio {
class io_context;
}

namespace ramcore::transport::tcp {

/// The sleeper of a thread with tcp endpoints. They connect and look up names with Asio, whose reactor cannot be put
/// into another epoll set: while such an operation is going on, the thread sleeps in that reactor, which watches ours.
/// That is seldom; sessions and listeners are in our own set. Outlives those endpoints.
class AsioSleeper final : public EpollSleeper {
 public:
  explicit AsioSleeper(runtime::Clock& clock);
  ~AsioSleeper() override;

  boost::asio::io_context& ioContext();
  /// To be called around each asynchronous operation of Asio, the latter in its handler. Only on the sleeper's own
  /// thread.
  void operationBegins() { ++operations_; }
  void operationEnds() { --operations_; }

 private:
  struct Reactor;

  bool hasGuest() const override { return operations_ != 0; }
  void runGuest(bool may_block) override;

  std::unique_ptr<Reactor> reactor_;
  uint32_t operations_ = 0;
};

}  // namespace ramcore::transport::tcp
