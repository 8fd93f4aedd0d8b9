#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/trace.h"
#include "rpc/job_queues.h"
#include "rpc/polled_endpoint.h"
#include "rpc/request_runner.h"
#include "rpc/service_table.h"
#include "runtime/executor.h"
#include "transport/transport.h"

namespace ramcore::rpc {

struct DispatchOptions {
  HandOff hand_off = HandOff::Auto;
  /// Longest spin without finding anything before the thread sleeps. Longer: lower latency for the next request after a
  /// pause, more CPU. A thread whose waits are mostly longer does not spin (SpinGauge). 0: sleep at once.
  int64_t spin_ns_max = 50 * runtime::kNanosPerMicro;
  /// Never sleep; for cores that belong to this process alone.
  bool poll_always = false;
  uint32_t burst_messages_max = 32;  ///< taken from one endpoint before the next has its turn
  uint32_t jobs_per_round_max = 32;  ///< queued jobs run before the endpoints are polled again, and at
                                     ///< most one of them of Priority::Background
};

/// Is told when sessions open and end. A dispatch has none by default. Runs on the dispatch thread.
class SessionObserver {
 public:
  virtual ~SessionObserver() = default;
  virtual void onSessionOpen(transport::Endpoint& endpoint, transport::SessionId session) = 0;
  virtual void onSessionLost(transport::Endpoint& endpoint, transport::SessionId session, Status reason) = 0;
};

/// The polling core: one thread that polls endpoints, runs timers and jobs, checks requests, and runs their handlers or
/// hands them to workers. It is the executor of everything that runs on it.
///
/// A process drives it with run(), the client library with step() on a thread of the program, and the simulator with
/// step() from an event.
/// Threads: post(), stop(), stopping(), isCurrent(), setOwnId() and the counters on any thread. The getters of what is
/// fixed before the first step, too: endpoints(), workers(), hasWorkers(), backgroundExecutor(), trace(), clock(). The
/// rest on the driving thread.
class Dispatch final : public runtime::Executor, private transport::MessageSink {
 public:
  /// @param sleeper  lets the thread of run() sleep, and wakes it; the simulator's schedules a step. Borrowed.
  Dispatch(runtime::Clock& clock, Trace& trace, transport::Sleeper& sleeper, const DispatchOptions& options);
  ~Dispatch() override;

  /// Adds an endpoint to poll. Before the first step. Borrowed until the dispatch is destroyed.
  void addEndpoint(transport::Endpoint& endpoint);
  /// Names the workers, which run the handlers that must not run here. Borrowed. Without workers all run here.
  void setWorkers(std::vector<runtime::Executor*> workers) { requests_.setWorkers(std::move(workers)); }
  ServiceTable& services() { return requests_.services(); }
  /// Sets the id that requests must name as their target. It is 0 until the coordinator has given one. A request with
  /// another target is refused, unless its opcode takes any target.
  void setOwnId(uint64_t id) { requests_.setOwnId(id); }
  /// Sets the hooks, before the first step. on_start runs with the first step, after_round at the end of each step,
  /// before_sleep and after_sleep around each sleep of the driver, and on_stop when run() ends. A driver that uses
  /// step() calls finished() for that.
  void setHooks(const runtime::ExecutorHooks& hooks) { hooks_ = hooks; }
  void setObserver(SessionObserver* observer) { observer_ = observer; }

  /// One round: polls every endpoint, runs due timers and queued jobs, flushes. Returns true if there was anything to
  /// do.
  /// @param reads_clock  false: the round runs timers only if it knows the time anyway. For drivers that make many
  ///                     short rounds, in which reading the clock costs most
  bool step(bool reads_clock = true);
  /// Called after a step that found nothing: publishes "asleep" and looks once more.
  /// @return true if the driver may sleep until earliestNs() or a wake; awake() must follow
  bool prepareSleep();
  void awake();
  int64_t earliestNs() const { return timers_.earliestNs(); }
  /// Steps, spins and sleeps until stop().
  void run();
  void stop();
  /// From now on answers requests with RetryLater, because the process ends. Requests in service go on. When
  /// hasRequests() is false none is left, and workers and dispatch may end.
  void refuseRequests() { requests_.refuseAll(); }
  bool hasRequests() const { return requests_.records().count() != 0; }
  /// Requests whose handlers have not answered yet, oldest first: queued, running or suspended. Dispatch thread.
  std::vector<RequestInService> requestsInService() { return requests_.records().inService(clock_.nowNs()); }
  /// Runs the on_stop hook: the driver makes no further step.
  void finished();
  bool stopping() const { return stop_.load(std::memory_order_relaxed); }

  // runtime::Executor
  using runtime::Executor::post;
  void post(runtime::Job& job, runtime::Priority priority) override;
  bool isCurrent() const override {
    return running_thread_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  void arm(runtime::Timer& timer, int64_t deadline_ns) override { timers_.arm(timer, deadline_ns); }
  runtime::Clock& clock() override { return clock_; }

  /// Runs the handler of `request` again from the start, on a worker. Only a handler on the dispatch thread calls it,
  /// if it would have to wait there. Without workers the request is queued on the dispatch thread, behind what waits
  /// there.
  void handToWorker(Request request) { requests_.handOver(*request.release()); }
  bool hasWorkers() const { return !workers().empty(); }
  std::span<runtime::Executor* const> workers() const { return requests_.workers(); }
  /// The worker that background work of this process runs on; the dispatch itself if there is none.
  runtime::Executor& backgroundExecutor() { return hasWorkers() ? *workers().front() : *this; }

  std::span<transport::Endpoint* const> endpoints() const { return endpoints_; }
  /// The open sessions of endpoints()[index]. Dispatch thread.
  const OpenSessions& openSessions(size_t index) const { return polled_[index]->openSessions(); }
  Trace& trace() { return trace_; }
  const OpcodeStats& stats(wire::Opcode opcode) const { return requests_.answers().stats(opcode); }
  /// Requests of all opcodes that were handled. Any thread.
  uint64_t requestCount() const { return requests_.answers().requestCount(); }
  /// The counts of endpoints()[index], as they were some rounds ago. Any thread.
  const EndpointCounts& endpointCounts(size_t index) const { return polled_[index]->counts(); }
  uint64_t wakeups() const { return wakeups_.load(std::memory_order_relaxed); }
  uint64_t sleeps() const override { return wakeups(); }
  /// Requests that were not started, because their session had ended while they waited. Any thread.
  uint64_t orphanedRequests() const { return requests_.orphanedRequests(); }
  uint64_t badRequests() const { return requests_.badRequests(); }

 private:
  friend class Request;
  friend class RequestRunner;

  // transport::MessageSink
  void onRequests(std::span<transport::RxMessage> requests) override;
  void onSessionOpen(transport::SessionId session) override;
  void onSessionLost(transport::SessionId session, Status reason) override;

  uint32_t runJobs();
  void publishCounts();
  bool inboxesEmpty() const;

  runtime::Clock& clock_;
  Trace& trace_;
  transport::Sleeper& sleeper_;
  const DispatchOptions options_;
  std::vector<transport::Endpoint*> endpoints_;
  std::vector<std::unique_ptr<PolledEndpoint>> polled_;  // as endpoints_
  PolledEndpoint* polling_ = nullptr;                    // the one whose poll() is running
  uint32_t rounds_ = 0;
  SessionObserver* observer_ = nullptr;
  runtime::ExecutorHooks hooks_;
  bool started_ = false;

  runtime::TimerHeap timers_;
  JobQueues queues_;
  std::array<runtime::JobInbox, runtime::kPriorityCount> inboxes_;
  std::atomic<bool> asleep_{false};
  std::atomic<bool> stop_{false};
  std::atomic<std::thread::id> running_thread_{};

  RequestRunner requests_;
  bool found_requests_ = false;
  std::atomic<uint64_t> wakeups_{0};
};

}  // namespace ramcore::rpc
