#pragma once

#include <span>
#include <vector>

#include "rpc/answer_counts.h"
#include "rpc/polled_endpoint.h"
#include "rpc/request.h"
#include "rpc/request_pool.h"
#include "rpc/service_table.h"
#include "runtime/executor.h"

namespace ramcore::rpc {

/// Where handlers run. Without workers all of them run on the dispatch thread, and opcodes whose rules say
/// dispatch_only always do.
enum class HandOff : uint8_t {
  Auto,     ///< by weight: short handlers on the dispatch thread, long ones on a worker
  Inline,   ///< all on the dispatch thread, long ones too
  Workers,  ///< all on workers
};

/// Takes the requests that a dispatch has received: checks them, runs their handlers here or on a worker, and sends
/// their answers.
///
/// Threads: setOwnId() and the counters of refused and orphaned requests on any thread; finish() on the thread of the
/// handler; the rest on the dispatch thread.
class RequestRunner {
 public:
  /// @param dispatch  runs it; also the executor of handlers that run on the dispatch thread. Both are borrowed
  RequestRunner(Dispatch& dispatch, runtime::Clock& clock, HandOff hand_off);

  ServiceTable& services() { return services_; }
  void setWorkers(std::vector<runtime::Executor*> workers) { workers_ = std::move(workers); }
  std::span<runtime::Executor* const> workers() const { return workers_; }
  void setOwnId(uint64_t id) { own_id_.store(id, std::memory_order_relaxed); }
  /// From now on requests are answered with RetryLater.
  void refuseAll() { refusing_ = true; }

  /// Handles requests of one endpoint, which is being polled.
  void take(PolledEndpoint& from, std::span<transport::RxMessage> requests);
  /// Runs the handler of the request again from the start, on a worker.
  void handOver(RequestRecord& record);
  /// Sends `response` as the answer of the handler. Called on the executor of the handler.
  void finish(RequestRecord* record, transport::TxMessage response);

  const RequestPool& records() const { return records_; }
  AnswerCounts& answers() { return answers_; }
  const AnswerCounts& answers() const { return answers_; }
  uint64_t orphanedRequests() const { return orphaned_requests_.load(std::memory_order_relaxed); }
  uint64_t badRequests() const { return bad_requests_.load(std::memory_order_relaxed); }

 private:
  RequestRecord* admit(PolledEndpoint& from, transport::RxMessage& message);
  static void refuse(PolledEndpoint& from, transport::RxMessage& message, Status status);
  void refuseBad(PolledEndpoint& from, transport::RxMessage& message, Status status);
  void execute(std::span<RequestRecord*> records);
  void executeInline(std::span<RequestRecord*> group, const ServiceTable::Entry& entry);
  bool runsInline(const RequestRecord& record, const ServiceTable::Entry& entry) const;
  static void runOnWorker(runtime::Job& job);
  static void sendFromInbox(runtime::Job& job);
  static void dropOrphan(runtime::Job& job);

  Dispatch& dispatch_;
  runtime::Clock& clock_;
  const HandOff hand_off_;
  ServiceTable services_;
  std::vector<runtime::Executor*> workers_;
  size_t next_worker_ = 0;
  std::atomic<uint64_t> own_id_{0};
  bool refusing_ = false;
  RequestPool records_;
  AnswerCounts answers_;
  std::atomic<uint64_t> bad_requests_{0};
  std::atomic<uint64_t> orphaned_requests_{0};
};

}  // namespace ramcore::rpc
