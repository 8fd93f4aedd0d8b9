#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "base/trace.h"
#include "client/async_calls.h"
#include "client/cluster_client.h"
#include "client/driver.h"
#include "ramcore/client.h"
#include "runtime/fork_mark.h"
#include "runtime/random.h"
#include "transport/registry/registry.h"

namespace ramcore {

/// The parts of a Client: clock, transports, dispatch, the core (ClusterClient), and the driver, which decides which
/// thread polls.
struct Client::Impl {
  static Outcome<std::unique_ptr<Impl>> open(const ClientOptions& options);
  /// Ends a client. In a forked process it leaves the copy of the client as it is.
  static void end(std::unique_ptr<Impl> impl);
  ~Impl();

  /// True in a process that was forked after the client was made. Everything of the client belongs to the other process
  /// then (its connections, rings, lease and sequences), and its locks may be held by threads that are not here:
  /// nothing of it may be touched. Every public call asks this first.
  bool isForked() const { return fork_mark_.isForked(); }

  client::Driver& driver() { return *driver_; }
  client::ClusterClient& cluster() { return *cluster_; }
  client::AsyncCalls& async() { return *async_; }
  int64_t nowNs() { return clock_->nowNs(); }
  int64_t timeoutNs(const std::optional<std::chrono::nanoseconds>& timeout) const {
    return timeout ? std::max<int64_t>(0, timeout->count()) : default_timeout_ns_;
  }

  /// Runs the coroutine that `make(cluster, deadline_ns)` starts to its end.
  /// @return its value, if it has one; in a forked process Forked in its place
  template <typename Make>
  auto runTask(const std::optional<std::chrono::nanoseconds>& timeout, Make make);

 private:
  struct Background;

  Impl() = default;
  /// The value that a coroutine gives in a forked process.
  template <typename T>
  static T forked() {
    if constexpr (std::is_constructible_v<T, Status>) {
      return T(Status::Forked);
    } else {
      return T{.status = Status::Forked};
    }
  }
  Status connect(int64_t timeout_ns);

  const runtime::ForkMark fork_mark_;
  Impl* next_left_ = nullptr;  // list of the clients that end() left as they are
  int64_t default_timeout_ns_ = 0;
  std::unique_ptr<runtime::Clock> clock_;
  std::unique_ptr<runtime::Entropy> entropy_;
  transport::Identity identity_;
  std::unique_ptr<transport::TransportSet> transports_;
  std::unique_ptr<rpc::Dispatch> dispatch_;
  std::unique_ptr<rpc::Caller> caller_;
  std::unique_ptr<client::ClusterClient> cluster_;
  std::unique_ptr<client::Driver> driver_;
  std::unique_ptr<client::AsyncCalls> async_;
  std::unique_ptr<Background> background_;
};

namespace client {

/// A coroutine that a thread of the program waits for.
template <typename T, typename Make>
struct WaitedTask final : Driver::Waited {
  WaitedTask(Driver& owner, ClusterClient& cluster_client, int64_t deadline, Make& make_task)
      : Waited(&WaitedTask::begin), driver(owner), cluster(cluster_client), deadline_ns(deadline), make(make_task) {}

  static void begin(runtime::Job& job) {
    auto& self = static_cast<WaitedTask&>(job);
    carry(self).detach();
  }
  static runtime::Task<void> carry(WaitedTask& self) {
    if constexpr (std::is_void_v<T>) {
      co_await self.make(self.cluster, self.deadline_ns);
    } else {
      auto value = co_await self.make(self.cluster, self.deadline_ns);
      self.value.emplace(std::move(value));
    }
    self.driver.finished(self);
  }

  struct Nothing {};
  Driver& driver;
  ClusterClient& cluster;
  int64_t deadline_ns;
  Make& make;
  std::optional<std::conditional_t<std::is_void_v<T>, Nothing, T>> value;
};

template <typename T>
T taskValue(const runtime::Task<T>*);

}  // namespace client

template <typename Make>
auto Client::Impl::runTask(const std::optional<std::chrono::nanoseconds>& timeout, Make make) {
  using Made = decltype(make(*cluster_, int64_t{}));
  using T = decltype(client::taskValue(static_cast<const Made*>(nullptr)));
  if (isForked()) [[unlikely]] {
    if constexpr (std::is_void_v<T>) {
      return;
    } else {
      return forked<T>();
    }
  }
  client::WaitedTask<T, Make> waited(*driver_, *cluster_, client::addNs(nowNs(), timeoutNs(timeout)), make);
  driver_->runToEnd(waited);
  if constexpr (!std::is_void_v<T>) return std::move(*waited.value);
}

}  // namespace ramcore
