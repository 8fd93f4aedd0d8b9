#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "runtime/sim/sim_node.h"
#include "transport/sim/sim_network.h"
#include "transport/sim/sim_sleeper.h"
#include "transport/sim/sim_transport.h"

namespace ramcore::transport {

inline SimNetworkOptions networkOf(SimMode mode) {
  SimNetworkOptions options;
  options.mode = mode;
  return options;
}

/// A process on the simulated network that answers every request with its text, and remembers what it heard.
class SimProcess : private MessageSink {
 public:
  struct Call : PendingCall {
    explicit Call(std::string text) : PendingCall(&Call::onComplete), text(std::move(text)) {}
    static void onComplete(PendingCall& pending, Status status, RxMessage response) {
      Call& call = static_cast<Call&>(pending);
      ++call.completions;
      call.status = status;
      call.answer = textOf(response);
    }
    std::string text;
    int completions = 0;
    Status status = Status::Internal;
    std::string answer;
  };
  struct Lost {
    SessionId session;
    Status reason;
  };

  SimProcess(runtime::SimScheduler& scheduler, runtime::SimTraceLog& log, SimNetwork& network,
             const std::string& node_name, const Identity& own_identity, const std::string& life = "")
      : node(scheduler, log, node_name + life, runtime::SimClock::Options{}),
        executor(node.makeExecutor("dispatch")),
        identity(own_identity),
        sleeper(executor, [this] { return round(); }),
        transport(network, node.clock(), node_name, [this] { sleeper.wake(); }),
        endpoint(transport.makeEndpoint(identity)) {}

  static std::string textOf(const RxMessage& message) {
    std::string text(asText(message.head()));
    for (const ByteSpan& span : message.tail()) text.append(asText(span));
    return text;
  }

  Outcome<Locator> listen() { return endpoint->listen(locator()); }
  Locator locator() const { return Locator::parse("sim://" + node.name()).value(); }
  SessionId connect(const SimProcess& to, uint64_t expected_id = 0, int64_t within_ns = runtime::kNanosPerSecond) {
    return endpoint->connect(to.locator(), expected_id, node.clock().nowNs() + within_ns);
  }
  TxMessage messageOf(const std::string& text) {
    TxMessage message = endpoint->allocate(static_cast<uint32_t>(text.size()));
    message.appendHead(asBytes(text));
    return message;
  }
  /// Starts a call whose fate stands in the returned object.
  Call& call(SessionId session, const std::string& text) {
    Call& call = calls.emplace_back(text);
    TxMessage request = messageOf(text);
    call.status = endpoint->call(session, request, CallOptions{}, call);
    endpoint->flush();
    return call;
  }

  runtime::SimNode node;
  runtime::SimExecutor& executor;
  Identity identity;
  SimSleeper sleeper;
  SimTransport transport;
  std::vector<std::string> received;
  std::vector<SessionId> opened;
  std::vector<Lost> lost;
  std::list<Call> calls;
  bool answers = true;
  std::vector<ReplyTo> unanswered;
  std::unique_ptr<Endpoint> endpoint;

 private:
  int64_t round() {
    endpoint->poll(*this, 16);
    endpoint->flush();
    return endpoint->prepareSleep() ? runtime::kNever : 0;
  }
  void onRequests(std::span<RxMessage> requests) override {
    for (RxMessage& request : requests) {
      received.push_back(textOf(request));
      if (answers) {
        endpoint->reply(request.reply_to, messageOf(received.back()));
      } else {
        unanswered.push_back(request.reply_to);
      }
    }
  }
  void onSessionOpen(SessionId session) override { opened.push_back(session); }
  void onSessionLost(SessionId session, Status reason) override { lost.push_back({session, reason}); }
};

}  // namespace ramcore::transport
