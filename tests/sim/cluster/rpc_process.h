#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rpc/caller.h"
#include "runtime/sim/sim_node.h"
#include "sim/cluster/sim_dispatch.h"
#include "transport/sim/sim_network.h"
#include "transport/sim/sim_transport.h"

namespace ramcore::sim {

/// One process on the simulated network: a dispatch, two workers that take part only if asked for, and a caller.
class RpcProcess {
 public:
  struct Options {
    transport::Role role = transport::Role::Client;
    uint64_t id = 0;
    std::string cluster_name = "rpc";
    uint32_t worker_count = 0;
    rpc::DispatchOptions dispatch = {};
    int64_t connect_ns = runtime::kNanosPerSecond;
  };

  RpcProcess(runtime::SimScheduler& simulated, runtime::SimTraceLog& log, transport::SimNetwork& network,
             const std::string& name, const Options& options)
      : scheduler(simulated),
        node(scheduler, log, name, {}),
        driver(node, options.dispatch),
        identity{.role = options.role, .id = options.id, .cluster_name = options.cluster_name, .secret = {}},
        transport(network, node.clock(), name, [this] { driver.wake(); }),
        endpoint(transport.makeEndpoint(identity)) {
    dispatch().addEndpoint(*endpoint);
    dispatch().setOwnId(options.id);
    std::vector<runtime::Executor*> executors;
    for (uint32_t i = 0; i < options.worker_count; ++i) {
      workers.push_back(&node.makeExecutor("worker" + std::to_string(i)));
      executors.push_back(workers.back());
    }
    dispatch().setWorkers(executors);
    caller = std::make_unique<rpc::Caller>(dispatch(), options.connect_ns);
    driver.wake();
  }
  ~RpcProcess() {
    driver.runNow([this] { caller->shutDown(); });
    RC_CHECK(driver.drain(100'000) && node.drain(100'000) && driver.drain(100'000));
    driver.end();
    node.kill();
  }

  rpc::Dispatch& dispatch() { return driver.dispatch(); }
  transport::Locator locator() const { return transport::Locator::parse("sim://" + node.name()).value(); }
  void listen() { RC_CHECK(endpoint->listen(locator()).ok()); }

  /// Runs `action` on the dispatch executor and waits for it.
  void onDispatch(std::function<void()> action) {
    struct Once : runtime::Job {
      Once()
          : Job([](runtime::Job& job) {
              auto& once = static_cast<Once&>(job);
              once.action();
              once.done = true;
            }) {}
      std::function<void()> action;
      bool done = false;
    } once;
    once.action = std::move(action);
    dispatch().post(once, runtime::Priority::Membership);
    driver.wake();
    scheduler.runUntil([&] { return once.done; }, 1'000'000);
    RC_CHECK(once.done);
  }

  runtime::SimScheduler& scheduler;
  runtime::SimNode node;
  SimDispatch driver;
  transport::Identity identity;
  transport::SimTransport transport;
  std::unique_ptr<transport::Endpoint> endpoint;
  std::vector<runtime::SimExecutor*> workers;
  std::unique_ptr<rpc::Caller> caller;
};

/// A call that notes how it ended.
struct NotedCall : rpc::OutgoingCall {
  NotedCall() : OutgoingCall(&NotedCall::onDone) {}
  static void onDone(OutgoingCall& call) {
    auto& self = static_cast<NotedCall&>(call);
    ++self.ended;
    if (self.then) self.then();
  }
  std::string text() const {
    std::string out(asText(response.head()));
    for (const ByteSpan& span : response.tail()) out += asText(span);
    return out.size() <= sizeof(wire::ResponseHeader) ? std::string() : out.substr(sizeof(wire::ResponseHeader));
  }

  int ended = 0;
  std::function<void()> then;
};

}  // namespace ramcore::sim
