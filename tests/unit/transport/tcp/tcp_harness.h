#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/real/system_clock.h"
#include "transport/tcp/tcp_transport.h"

namespace ramcore::transport::tcp {

/// Records what an endpoint tells of its sessions, and hands each request to `on_request`.
struct Sink : MessageSink {
  void onRequests(std::span<RxMessage> requests) override {
    for (RxMessage& request : requests) on_request(request);
  }
  void onSessionOpen(SessionId session) override { opened.push_back(session); }
  void onSessionLost(SessionId session, Status reason) override { lost.emplace_back(session, reason); }
  std::function<void(RxMessage&)> on_request = [](RxMessage&) {};
  std::vector<SessionId> opened;
  std::vector<std::pair<SessionId, Status>> lost;
};

/// One process of a test: an endpoint with everything that it needs.
struct Side {
  Side(const TcpOptions& options, Role role, uint64_t id)
      : sleeper(clock),
        identity{.role = role, .id = id, .cluster_name = "tcp", .secret = "s3cret"},
        transport(options, TcpContext{clock, entropy, silentTrace(), sleeper}),
        endpoint(transport.makeEndpoint(identity)) {}
  void step(uint32_t message_max = 32) {
    endpoint->poll(sink, message_max);
    endpoint->flush();
  }
  runtime::SystemClock clock;
  runtime::SystemEntropy entropy;
  AsioSleeper sleeper;
  Identity identity;
  TcpTransport transport;
  Sink sink;
  std::unique_ptr<Endpoint> endpoint;
};

/// A call whose outcome is kept.
struct Call : PendingCall {
  Call()
      : PendingCall([](PendingCall& call, Status outcome, RxMessage message) {
          static_cast<Call&>(call).status = outcome;
          static_cast<Call&>(call).response = std::move(message);
          ++static_cast<Call&>(call).completions;
        }) {}
  int completions = 0;
  Status status = Status::Internal;
  RxMessage response;
};

}  // namespace ramcore::transport::tcp
