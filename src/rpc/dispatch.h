#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/histogram.h"
#include "base/spin_lock.h"
#include "base/trace.h"
#include "rpc/job_queues.h"
#include "rpc/open_sessions.h"
#include "rpc/service_table.h"
#include "rpc/session_ends.h"
#include "runtime/executor.h"
#include "transport/transport.h"

namespace ramcore::rpc {

/// Whether short handlers run on the dispatch thread.
enum class HandOff : uint8_t {
  Auto,     ///< inline, unless a worker is awake and the backlog is longer than a hand-over costs
  Inline,   ///< always inline
  Workers,  ///< handed to a worker, except opcodes whose rules say dispatch_only
};

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

/// Counters of one opcode, written by the dispatch thread and, for handlers that end on a worker, merged through it.
struct OpcodeStats {
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> failures{0};  ///< answered with something else than Ok
  LogLinearHistogram queue_ns;        ///< from taking the request off the endpoint to the start of its handler
  LogLinearHistogram service_ns;      ///< from there to handing its answer back
};

/// A request that is not answered yet. Shows what a process waits for.
struct RequestInService {
  wire::Opcode opcode{};
  transport::Role peer_role{};
  uint64_t peer_id = 0;
  int64_t age_ns = 0;  ///< since it was taken off its endpoint
};

/// The counts that an endpoint last had, published for other threads.
struct EndpointCounts {
  std::atomic<uint32_t> sessions{0};
  std::atomic<uint64_t> bad_sessions{0};         ///< closed because of bytes no honest peer sends, or cut short
  std::atomic<uint64_t> messages_copied_out{0};  ///< see transport::BorrowedCounts
  std::atomic<uint64_t> sessions_dropped{0};     ///< see transport::BorrowedCounts
  std::atomic<uint64_t> payload_bytes{0};        ///< this and the next three: see transport::SendCounts
  std::atomic<uint64_t> gathered_bytes{0};
  std::atomic<uint64_t> chunks_gathered{0};
  std::atomic<uint64_t> long_chunks_copied{0};
  std::atomic<uint64_t> packets_sent{0};  ///< this and the next three: see transport::PacketCounts
  std::atomic<uint64_t> packets_resent{0};
  std::atomic<uint64_t> packet_copies{0};
  std::atomic<uint64_t> packets_unproven{0};
  std::atomic<uint64_t> registered_bytes{0};
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
/// Threads: post(), stop() and the methods of Request on any thread; the rest on the driving thread.
class Dispatch final : public runtime::Executor, private transport::MessageSink {
 public:
  /// @param sleeper  how run() sleeps and how others end it; the simulator's schedules a step. Borrowed.
  Dispatch(runtime::Clock& clock, Trace& trace, transport::Sleeper& sleeper, const DispatchOptions& options);
  ~Dispatch() override;

  /// Adds an endpoint to poll. Before the first step. Borrowed until the dispatch is destroyed.
  void addEndpoint(transport::Endpoint& endpoint);
  /// Names the workers, which take what must not run here. Borrowed. Without workers everything runs here.
  void setWorkers(std::vector<runtime::Executor*> workers);
  ServiceTable& services() { return services_; }
  /// Sets the id that requests must name as their target. It is 0 until the coordinator has given one. A request with
  /// another target is refused, unless its opcode takes any target.
  void setOwnId(uint64_t id) { own_id_.store(id, std::memory_order_relaxed); }
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
  void refuseRequests() { refusing_ = true; }
  bool hasRequests() const { return records_in_service_ != 0; }
  /// Requests whose handlers have not answered yet, oldest first: queued, running or suspended. Dispatch thread.
  std::vector<RequestInService> requestsInService();
  /// Runs the on_stop hook: the driver makes no further step.
  void finished();
  bool stopping() const { return stop_.load(std::memory_order_relaxed); }

  // runtime::Executor
  using runtime::Executor::post;
  void post(runtime::Job& job, runtime::Priority priority) override;
  bool isCurrent() const override;
  void arm(runtime::Timer& timer, int64_t deadline_ns) override;
  runtime::Clock& clock() override { return clock_; }

  /// Runs the handler of `request` again from the start, on a worker. Only a handler on the dispatch thread calls it,
  /// if it would have to wait there. Without workers the request is queued on the dispatch thread, behind what waits
  /// there.
  void handToWorker(Request request);
  bool hasWorkers() const { return !workers_.empty(); }
  std::span<runtime::Executor* const> workers() const { return workers_; }
  /// The worker that background work of this process runs on; the dispatch itself if there is none.
  runtime::Executor& backgroundExecutor() { return workers_.empty() ? *this : *workers_.front(); }

  std::span<transport::Endpoint* const> endpoints() const { return endpoints_; }
  /// The open sessions of endpoints()[index]. Dispatch thread.
  const OpenSessions& openSessions(size_t index) const { return *open_sessions_[index]; }
  Trace& trace() { return trace_; }
  const OpcodeStats& stats(wire::Opcode opcode) const { return *stats_[static_cast<size_t>(opcode)]; }
  /// Requests of all opcodes that were handled. Any thread.
  uint64_t requestCount() const;
  /// The counts of endpoints()[index], as they were some rounds ago. Any thread.
  const EndpointCounts& endpointCounts(size_t index) const { return *endpoint_counts_[index]; }
  uint64_t wakeups() const { return wakeups_.load(std::memory_order_relaxed); }
  uint64_t sleeps() const override { return wakeups(); }
  /// Requests that were not started, because their session had ended while they waited. Any thread.
  uint64_t orphanedRequests() const { return orphaned_requests_.load(std::memory_order_relaxed); }
  uint64_t badRequests() const { return bad_requests_.load(std::memory_order_relaxed); }

 private:
  friend class Request;

  // transport::MessageSink
  void onRequests(std::span<transport::RxMessage> requests) override;
  void onSessionOpen(transport::SessionId session) override;
  void onSessionLost(transport::SessionId session, Status reason) override;

  RequestRecord* admit(transport::RxMessage& message);
  void refuse(transport::RxMessage& message, Status status);
  void refuseBad(transport::RxMessage& message, Status status);
  void execute(std::span<RequestRecord*> records);
  void executeInline(std::span<RequestRecord*> group, const ServiceTable::Entry& entry);
  bool runsInline(const RequestRecord& record, const ServiceTable::Entry& entry) const;
  void handOver(RequestRecord& record);
  RequestRecord* takeRecord();
  void returnRecord(RequestRecord* record);
  void finish(RequestRecord* record, transport::TxMessage response);
  static void runOnWorker(runtime::Job& job);
  static void sendFromInbox(runtime::Job& job);
  static void dropOrphan(runtime::Job& job);
  void countAnswered();
  uint32_t runJobs();
  void publishCounts();
  bool inboxesEmpty() const;

  runtime::Clock& clock_;
  Trace& trace_;
  transport::Sleeper& sleeper_;
  const DispatchOptions options_;
  ServiceTable services_;
  std::vector<transport::Endpoint*> endpoints_;
  std::vector<uint32_t> bursts_;  // messages taken from each at a time
  std::vector<std::unique_ptr<EndpointCounts>> endpoint_counts_;
  std::vector<std::unique_ptr<SessionEnds>> session_ends_;    // as endpoints_
  std::vector<std::unique_ptr<OpenSessions>> open_sessions_;  // as endpoints_
  uint32_t rounds_ = 0;
  std::vector<runtime::Executor*> workers_;
  size_t next_worker_ = 0;
  SessionObserver* observer_ = nullptr;
  runtime::ExecutorHooks hooks_;
  bool started_ = false;
  transport::Endpoint* polling_ = nullptr;  // the endpoint whose poll() is running
  SessionEnds* polling_ends_ = nullptr;     // of polling_
  OpenSessions* polling_open_ = nullptr;    // of polling_

  runtime::TimerHeap timers_;
  JobQueues queues_;
  std::array<runtime::JobInbox, runtime::kPriorityCount> inboxes_;
  std::atomic<bool> asleep_{false};
  std::atomic<bool> stop_{false};
  std::atomic<std::thread::id> running_thread_{};
  std::atomic<uint64_t> own_id_{0};

  RequestRecord* free_records_ = nullptr;
  size_t records_in_service_ = 0;
  RequestRecord* oldest_in_service_ = nullptr;
  RequestRecord* newest_in_service_ = nullptr;
  bool refusing_ = false;
  bool found_requests_ = false;
  // The time of the last look at the clock while requests were handled. The end of one group of handlers is the start
  // of the next, so that measuring costs one look at the clock per group. The last look of a round comes after the
  // answers have left.
  int64_t handling_ns_ = 0;
  struct Answered {
    wire::Opcode opcode;
    bool is_ok;
    int64_t arrival_ns;
    int64_t started_ns;
  };
  static constexpr size_t kAnsweredMax = 32;
  std::array<Answered, kAnsweredMax> answered_;  // since the last look at the clock
  size_t answered_count_ = 0;
  std::array<std::unique_ptr<OpcodeStats>, wire::kOpcodeCount> stats_;
  std::atomic<uint64_t> wakeups_{0};
  std::atomic<uint64_t> bad_requests_{0};
  std::atomic<uint64_t> orphaned_requests_{0};
};

}  // namespace ramcore::rpc
