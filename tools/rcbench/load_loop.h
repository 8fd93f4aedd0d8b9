#pragma once

#include <csignal>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "client/cluster_client.h"
#include "runtime/task.h"
#include "tools/rcbench/recorder.h"
#include "tools/rcbench/report.h"
#include "tools/rcbench/settings.h"
#include "tools/support/cluster_session.h"

namespace ramcore::rcbench {

/// Puts load on a cluster: `outstanding` coroutines on each session, each one operation at a time.
///
/// Closed loop: the next operation begins when the last one ended. Open loop: operation i is due at i / rate, whatever
/// happened to the ones before; a free coroutine takes it, and its latency counts from when it was due. At the end,
/// operations that were due before it are still carried out and recorded, for as long as one operation may take, but no
/// longer than the measured part or five seconds, whichever is more. This stops earlier if it turns out that most of
/// them cannot be done by then. Those that are left have failed. Thread: the one that drives the sessions.
class LoadLoop {
 public:
  /// All borrowed. `interrupted` is counted up by a signal handler and ends the phases early: nothing more begins, and
  /// operations in flight have half a second to end. From 2 on they have no time left.
  LoadLoop(const Settings& settings, std::span<tools::ClusterSession* const> sessions, const tools::ToolThread& thread,
           bool never_sleep, const volatile sig_atomic_t& interrupted);

  /// Makes the table if there is none, and looks it up. Ok, or the coordinator's answer.
  Status openTable(uint32_t tablet_count);
  Status dropTable();
  /// Writes all records. Ok, or the first status that was something else.
  Status load(LoadResult& result);
  /// Warms up, measures, and waits for what is in flight.
  /// @param on_measure  called when the measurement begins.
  void run(Recorder& recorder, const std::function<void()>& on_measure);
  /// Closes all sessions, all at once.
  void close();

 private:
  /// As ClusterSession::await; ends early if interrupted.
  template <typename T>
  T await(tools::ClusterSession& session, runtime::Task<T> task);
  runtime::Task<void> loader(tools::ClusterSession& session, uint64_t number);
  runtime::Task<void> worker(tools::ClusterSession& session, uint64_t number);
  runtime::Task<Status> operate(tools::ClusterSession& session, Kind kind, runtime::Random& random, uint64_t& objects,
                                int64_t deadline_ns);
  runtime::Task<Status> readBatch(client::ClusterClient& client, runtime::Random& random, int64_t deadline_ns,
                                  uint64_t& objects);
  runtime::Task<Status> scan(client::ClusterClient& client, runtime::Random& random, int64_t deadline_ns,
                             uint64_t& objects);
  runtime::Task<Status> readModifyWrite(client::ClusterClient& client, runtime::Random& random, int64_t deadline_ns);

  std::string nextKey(runtime::Random& random);
  /// A value of its own for every write; valid until the next call.
  std::string_view nextValue(runtime::Random& random);
  /// Begins and ends the measured part when it is time.
  void follow(int64_t now_ns);
  bool isSecondHalf(int64_t now_ns) const;
  /// False once a worker has to end.
  bool mayBegin(int64_t now_ns) const;
  /// Waits until an operation is due, or the run ends before that.
  runtime::Task<void> waitUntilDue(tools::ClusterSession& session, int64_t due_ns);
  int64_t dueNs(uint64_t number) const;
  /// The number of the first operation that is due at `at_ns` or later.
  uint64_t firstDueAt(int64_t at_ns) const;
  /// The number of operations of the measured part that were due and were not begun.
  uint64_t notBegun() const;
  bool drive(std::vector<runtime::Task<void>>& tasks);
  /// After an interruption: gives up the operations in flight when their time is over.
  void heedInterruption();
  /// Called when an operation that was due before the end has ended after it: judges whether the others can be done in
  /// time.
  void judgeRest(int64_t now_ns);
  /// For how long after the end operations that were due before it may begin.
  int64_t restNs() const;
  int64_t timeoutNs() const { return settings_.timeout_ms * runtime::kNanosPerMilli; }
  bool isOver(int64_t now_ns) const { return now_ns >= end_ns_ || interrupted_ != 0 || operations_left_ == 0; }

  const Settings& settings_;
  const std::span<tools::ClusterSession* const> sessions_;
  tools::SessionLoop loop_;
  const tools::ToolThread thread_;
  const volatile sig_atomic_t& interrupted_;
  const KeyFormat keys_;
  const runtime::Random random_;
  TableId table_;
  KeyChooser chooser_;
  InsertCounter inserts_;
  std::string value_;

  uint64_t next_load_ = 0;
  Status load_status_ = Status::Ok;
  Recorder* recorder_ = nullptr;
  std::function<void()> on_measure_;
  bool has_measured_ = false;
  bool in_second_half_ = false;
  int64_t schedule_begin_ns_ = 0;
  uint64_t next_due_ = 0;  // number of the next operation of an open loop
  int64_t measure_at_ns_ = 0;
  int64_t end_ns_ = 0;  // of the schedule; an interruption brings it forward
  uint64_t operations_left_ = UINT64_MAX;
  // State of an open loop after its end.
  uint64_t late_count_ = 0;
  int64_t late_since_ns_ = 0;
  bool is_rest_hopeless_ = false;
  // State of an interruption.
  int64_t give_up_at_ns_ = runtime::kNever;
  bool gave_up_ = false;
};

}  // namespace ramcore::rcbench
