#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/await.h"
#include "sim/cluster/rpc_process.h"

namespace ramcore::rpc {

using sim::NotedCall;
using sim::RpcProcess;

class RpcTest : public ::testing::Test {
 protected:
  static transport::SimNetworkOptions streams(uint16_t slots) {
    transport::SimNetworkOptions options;
    options.mode = transport::SimMode::Stream;
    options.slots_per_session = slots;
    return options;
  }
  RpcTest() : RpcTest(32) {}
  explicit RpcTest(uint16_t slots) : scheduler(7), log(scheduler), network(scheduler, streams(slots)) {}

  RpcProcess& add(const std::string& name, const RpcProcess::Options& options) {
    return *processes.emplace_back(std::make_unique<RpcProcess>(scheduler, log, network, name, options));
  }
  static PeerAddress addressOf(const RpcProcess& process, uint64_t id) {
    return {.id = id, .locators = {process.locator()}};
  }
  static transport::TxMessage message(RpcProcess& from, ByteSpan bytes) {
    transport::TxMessage out = from.caller->allocate(static_cast<uint32_t>(bytes.size()));
    out.appendHead(bytes);
    return out;
  }
  static transport::TxMessage request(RpcProcess& from, wire::Opcode opcode, uint64_t target, std::string_view body) {
    transport::TxMessage out = from.caller->allocate(static_cast<uint32_t>(sizeof(wire::RequestHeader) + body.size()));
    out.appendHead(wire::RequestHeader{.opcode = opcode, .target = ServerId(target)});
    out.appendHead(asBytes(body));
    return out;
  }
  void start(RpcProcess& from, NotedCall& call, const PeerAddress& to) {
    from.onDispatch([&] {
      const auto ended = call.ended;
      from.caller->connection(to).start(call);
      EXPECT_EQ(call.ended, ended) << "a call never ends inside start()";
    });
  }
  bool runUntil(const std::function<bool()>& done) {
    return scheduler.runUntil(done, 10'000'000) == runtime::SimScheduler::Stop::Done;
  }
  bool await(NotedCall& call) {
    return runUntil([&] { return call.ended != 0; });
  }
  void runFor(int64_t ns) { scheduler.runUntil(scheduler.nowNs() + ns, 10'000'000); }

  runtime::SimScheduler scheduler;
  runtime::SimTraceLog log;
  transport::SimNetwork network;
  std::deque<std::unique_ptr<RpcProcess>> processes;
};

/// Answers with what it was sent, in several ways.
class EchoService {
 public:
  void addTo(ServiceTable& table, const OpcodeRules& rules) {
    table.add<&EchoService::echo>(wire::Opcode::Read, *this, rules);
    table.addBatch<&EchoService::echoBatch>(wire::Opcode::Read, *this);
    table.add<&EchoService::echo>(wire::Opcode::Write, *this, rules);
    table.add<&EchoService::keep>(wire::Opcode::Scan, *this, rules);
    OpcodeRules long_rules = rules;
    long_rules.weight = Weight::Long;
    table.add<&EchoService::echo>(wire::Opcode::MultiRead, *this, long_rules);
    table.add<&EchoService::echoLater>(wire::Opcode::Remove, *this, rules);
    table.add<&EchoService::handOn>(wire::Opcode::Increment, *this, rules);
  }
  void echo(Request request) {
    note(request);
    answer(std::move(request));
  }
  void echoBatch(std::span<Request> requests) {
    batches.push_back(requests.size());
    for (Request& request : requests) echo(std::move(request));
  }
  /// Waits on its executor before it answers.
  runtime::Task<void> echoLater(Request request) {
    co_await runtime::sleepFor(request.executor(), runtime::kNanosPerMilli);
    note(request);
    answer(std::move(request));
  }
  /// Goes to a worker the first time.
  void handOn(Request request) {
    if (request.dispatch().isCurrent() && request.dispatch().hasWorkers()) {
      ++handed_on;
      return request.dispatch().handToWorker(std::move(request));
    }
    echo(std::move(request));
  }
  void keep(Request request) { kept.push_back(std::make_unique<Request>(std::move(request))); }
  void answerKept() {
    for (auto& request : kept) answer(std::move(*request));
    kept.clear();
  }
  static void answer(Request request) {
    std::string body(asText(request.head().subspan(sizeof(wire::RequestHeader))));
    for (const ByteSpan& span : request.message().tail()) body += asText(span);
    transport::TxMessage response = request.allocate(static_cast<uint32_t>(sizeof(wire::ResponseHeader) + body.size()));
    response.appendHead(wire::ResponseHeader{.status = Status::Ok});
    response.appendHead(asBytes(body));
    request.reply(std::move(response));
  }

  std::vector<std::string> heard;
  std::vector<bool> on_dispatch;
  std::vector<size_t> batches;
  int handed_on = 0;
  std::vector<std::unique_ptr<Request>> kept;

 private:
  void note(const Request& request) {
    heard.emplace_back(asText(request.head().subspan(sizeof(wire::RequestHeader))));
    on_dispatch.push_back(request.dispatch().isCurrent());
    EXPECT_TRUE(request.executor().isCurrent());
  }
};

}  // namespace ramcore::rpc
