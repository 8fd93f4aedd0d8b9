#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "coordinator/state/state_store.h"
#include "runtime/await.h"

namespace ramcore::coordinator {

/// What all parts of a coordinator share: the way to the store, the end of the process, and how they wait.
/// Thread: one executor.
class Journal {
 public:
  /// @param on_failed  called once when a commit has failed in a way that leaves open what is stored: the process has
  ///                   to end.
  Journal(StateStore& store, runtime::Executor& executor, std::function<void(Status)> on_failed)
      : store_(store), executor_(executor), on_failed_(std::move(on_failed)), stopped_(executor) {}

  /// Stores a batch. Ok: it is durable, and is to be applied in memory now. CoordinatorFull: nothing was changed.
  /// Otherwise this coordinator is over: NotLeader or Shutdown.
  runtime::Task<Status> commit(Batch batch);
  /// As commit(), but also after endWork(): for what the next start has to know, and for coroutines that hold a
  /// Running.
  runtime::Task<Status> commitAfterWork(Batch batch);
  /// Stores the end of something that has happened already at the servers. It is repeated while there is no space.
  /// False: this coordinator is over.
  runtime::Task<bool> commitUntilStored(Batch batch);
  runtime::Task<Result<std::vector<KeyValue>>> readPrefix(std::string prefix);
  /// True if the last commit found no room on the disk. Any thread.
  bool isFull() const { return is_full_.load(std::memory_order_relaxed); }
  /// `on_full` is called when the disk becomes full: a request that waits for the end of a change can then say why it
  /// takes so long.
  void addFullListener(std::function<void()> on_full) { on_full_.push_back(std::move(on_full)); }

  /// Waits. Returns false if the coordinator stops, and then at once.
  runtime::Task<bool> sleepUntil(int64_t deadline_ns);
  runtime::Task<bool> sleepFor(int64_t duration_ns) { return sleepUntil(nowNs() + duration_ns); }

  /// While loading: the record under `key` cannot be what a coordinator stored. Returns Corrupt, and keeps the first
  /// such text for the report that the state could not be read.
  Status corrupt(std::string_view key, std::string_view why);
  const std::string& warning() const { return warning_; }

  /// Ends all work that is under way, and nothing new begins. What the next start has to know can still be stored.
  void endWork();
  /// As endWork(), and stops the store: nothing can be stored any more.
  void stop();
  /// True since endWork().
  bool stopping() const { return stopping_; }
  int64_t nowNs() { return executor_.clock().nowNs(); }
  runtime::Executor& executor() { return executor_; }
  StateStore& store() { return store_; }

  /// Held by each coroutine that is not awaited: a coordinator is over when none is left.
  class Running {
   public:
    explicit Running(Journal& journal) : journal_(journal) { ++journal_.running_; }
    ~Running() { --journal_.running_; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Journal& journal_;
  };
  bool idle() const { return running_ == 0; }

 private:
  void noteFull();
  runtime::Task<void> probeWhileFull();

  StateStore& store_;
  runtime::Executor& executor_;
  std::function<void(Status)> on_failed_;
  runtime::Signal stopped_;
  bool stopping_ = false;
  bool failed_ = false;
  std::atomic<bool> is_full_{false};  // written by the executor's thread, read by metrics as well
  std::vector<std::function<void()>> on_full_;
  bool is_probing_ = false;
  std::string warning_;
  uint64_t running_ = 0;
};

}  // namespace ramcore::coordinator
