#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "runtime/real/system_clock.h"
#include "transport/os/epoll_sleeper.h"
#include "transport/shm/shm_transport.h"

namespace ramcore::transport::shm {

/// A folder for sockets, removed at the end.
class SocketFolder {
 public:
  SocketFolder() {
    char path[] = "/tmp/rcshmXXXXXX";
    EXPECT_NE(::mkdtemp(path), nullptr);
    path_ = path;
  }
  ~SocketFolder() {
    ::unlink(socketPath().c_str());
    ::unlink((socketPath() + ".lock").c_str());
    ::rmdir(path_.c_str());
  }
  std::string socketPath() const { return path_ + "/s"; }
  Locator locator() const { return Locator::parse("shm://" + socketPath()).value(); }

 private:
  std::string path_;
};

/// Records what an endpoint delivers. Answers requests by `respond` if it is set.
class RecordingSink : public MessageSink {
 public:
  void onRequests(std::span<RxMessage> requests) override {
    for (RxMessage& request : requests) {
      ++request_count;
      if (on_request) {
        on_request(request);
      } else {
        held.push_back(std::move(request));
      }
    }
  }
  void onSessionOpen(SessionId session) override { opened.push_back(session); }
  void onSessionLost(SessionId session, Status reason) override { lost.emplace_back(session, reason); }

  std::function<void(RxMessage&)> on_request;
  std::vector<RxMessage> held;
  std::vector<SessionId> opened;
  std::vector<std::pair<SessionId, Status>> lost;
  uint64_t request_count = 0;
};

/// A call whose outcome is kept.
struct TestCall : PendingCall {
  TestCall() : PendingCall(&TestCall::onComplete) {}
  static void onComplete(PendingCall& call, Status status, RxMessage response) {
    auto& self = static_cast<TestCall&>(call);
    ++self.completions;
    self.status = status;
    self.response = std::move(response);
    if (self.then) self.then(self);
  }
  int completions = 0;
  Status status = Status::Internal;
  RxMessage response;
  std::function<void(TestCall&)> then;
};

/// One process' side of a test: an endpoint with what it needs.
struct Side {
  explicit Side(const ShmOptions& options = {}, Role role = Role::Client, uint64_t id = 0)
      : sleeper(clock),
        identity{.role = role, .id = id, .cluster_name = "test", .secret = {}},
        transport(options, ShmContext{clock, entropy, silentTrace(), &sleeper}),
        endpoint(transport.makeEndpoint(identity)) {}
  ~Side() { sink.held.clear(); }  // the endpoint outlives its messages

  uint32_t step() {
    const uint32_t found = endpoint->poll(sink, endpoint->limits().burst_messages_max);
    endpoint->flush();
    return found;
  }

  runtime::SystemClock clock;
  runtime::SystemEntropy entropy;
  EpollSleeper sleeper;
  Identity identity;
  ShmTransport transport;
  RecordingSink sink;
  std::unique_ptr<Endpoint> endpoint;
};

/// Steps all sides until `condition` holds; false after 20 s.
inline bool stepUntil(std::vector<Side*> sides, const std::function<bool()>& condition) {
  runtime::SystemClock clock;
  const int64_t deadline_ns = clock.nowNs() + 20 * runtime::kNanosPerSecond;
  while (!condition()) {
    for (Side* side : sides) side->step();
    if (clock.nowNs() > deadline_ns) return false;
  }
  return true;
}

/// A request or response whose `bytes` bytes follow a pattern that starts with `seed`: a head, and chunks of
/// `chunk_bytes`.
TxMessage makeMessage(Endpoint& endpoint, uint32_t bytes, uint8_t seed);
/// True if the message has that content.
bool hasPattern(const RxMessage& message, uint32_t bytes, uint8_t seed);
/// Answers with the request's bytes.
void echo(Endpoint& endpoint, RxMessage& request);

}  // namespace ramcore::transport::shm
