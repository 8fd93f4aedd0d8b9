#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "bench/support/statistics.h"
#include "runtime/real/system_clock.h"
#include "transport/transport.h"

namespace ramcore::bench {

/// Answers each request of an endpoint with its own bytes, and counts sessions.
struct EchoSink final : transport::MessageSink {
  void onRequests(std::span<transport::RxMessage> requests) override {
    for (transport::RxMessage& request : requests) {
      transport::TxMessage response = endpoint->allocate(request.messageBytes());
      response.appendHead(request.head());
      endpoint->reply(request.reply_to, std::move(response));
    }
  }
  void onSessionOpen(transport::SessionId) override { ++open; }
  void onSessionLost(transport::SessionId, Status) override { ++lost; }
  transport::Endpoint* endpoint = nullptr;  ///< set before the first poll
  int open = 0;
  int lost = 0;
};

/// A call that counts how often it was answered, or lost.
struct EchoCall : transport::PendingCall {
  EchoCall()
      : PendingCall(
            [](transport::PendingCall& call, Status, transport::RxMessage) { ++static_cast<EchoCall&>(call).done; }) {}
  uint64_t done = 0;
};

/// Of so many ns: the median of many samples, each of `batch` rounds, so that reading the clock is not what is
/// measured.
inline double medianNs(int64_t duration_ns, int batch, const std::function<void()>& round) {
  runtime::SystemClock clock;
  std::vector<double> samples;
  const int64_t end_ns = clock.nowNs() + duration_ns;
  for (int64_t last_ns = clock.nowNs(); last_ns < end_ns;) {
    for (int i = 0; i < batch; ++i) round();
    const int64_t now_ns = clock.nowNs();
    samples.push_back(static_cast<double>(now_ns - last_ns) / batch);
    last_ns = now_ns;
  }
  return quantile(std::move(samples), 0.5);
}

}  // namespace ramcore::bench
