#include "transport/tcp/asio_sleeper.h"

#include "transport/tcp/asio.h"

namespace ramcore::transport::tcp {

struct AsioSleeper::Reactor {
  asio::io_context io{1};
  // Keeps the context from stopping as soon as nothing is registered.
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(io);
  asio::posix::stream_descriptor own_set{io};
  bool is_watched = false;
};

AsioSleeper::AsioSleeper(runtime::Clock& clock) : EpollSleeper(clock), reactor_(std::make_unique<Reactor>()) {
  Error error;
  reactor_->own_set.assign(descriptor(), error);
  RC_CHECK_MSG(!error, "a descriptor that the reactor does not take");
}

// The descriptor is released and not closed: it belongs to EpollSleeper.
AsioSleeper::~AsioSleeper() { reactor_->own_set.release(); }

asio::io_context& AsioSleeper::ioContext() { return reactor_->io; }

void AsioSleeper::runGuest(bool may_block) {
  Reactor& reactor = *reactor_;
  if (may_block) {
    // A new wait looks at the present state of our set, so that events that it has already end the wait.
    if (!std::exchange(reactor.is_watched, true)) {
      reactor.own_set.async_wait(asio::posix::descriptor_base::wait_read,
                                 [&reactor](const Error&) { reactor.is_watched = false; });
    }
    reactor.io.run_one();
  }
  reactor.io.poll();
}

}  // namespace ramcore::transport::tcp
