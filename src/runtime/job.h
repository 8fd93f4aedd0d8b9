#pragma once

#include <atomic>

namespace ramcore::runtime {

/// A unit of work that is owned elsewhere (by a coroutine frame, a call slot, a session), so that posting it allocates
/// nothing. It may be posted again only after it has started to run.
struct Job {
  using Run = void (*)(Job&);

  explicit Job(Run function) : run(function) {}
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Run run;
  Job* next = nullptr;
};

/// Jobs in order of arrival. One thread at a time.
class JobList {
 public:
  bool empty() const { return first_ == nullptr; }
  void push(Job& job) {
    job.next = nullptr;
    if (last_ == nullptr) {
      first_ = &job;
    } else {
      last_->next = &job;
    }
    last_ = &job;
  }
  /// The oldest job, or nullptr.
  Job* pop() {
    Job* job = first_;
    if (job != nullptr) {
      first_ = job->next;
      if (first_ == nullptr) last_ = nullptr;
      job->next = nullptr;
    }
    return job;
  }

 private:
  Job* first_ = nullptr;
  Job* last_ = nullptr;
};

/// Many threads push, one takes all there is. A push is one compare-and-swap; taking is one exchange.
class JobInbox {
 public:
  /// Returns true if the inbox was empty before: then the caller has to wake a sleeping consumer.
  bool push(Job& job) {
    Job* head = head_.load(std::memory_order_relaxed);
    do {
      job.next = head;
    } while (!head_.compare_exchange_weak(head, &job, std::memory_order_seq_cst, std::memory_order_relaxed));
    return head == nullptr;
  }
  /// Appends everything that was pushed to `list`, oldest first. The consumer's thread only.
  bool takeAll(JobList& list) {
    if (head_.load(std::memory_order_relaxed) == nullptr) return false;
    Job* newest_first = head_.exchange(nullptr, std::memory_order_seq_cst);
    Job* oldest_first = nullptr;
    while (newest_first != nullptr) {
      Job* next = newest_first->next;
      newest_first->next = oldest_first;
      oldest_first = newest_first;
      newest_first = next;
    }
    while (oldest_first != nullptr) {
      Job* next = oldest_first->next;
      list.push(*oldest_first);
      oldest_first = next;
    }
    return true;
  }
  /// Sequentially consistent, for the "publish asleep, look again" protocol of a consumer that is about to sleep.
  bool empty() const { return head_.load(std::memory_order_seq_cst) == nullptr; }

 private:
  std::atomic<Job*> head_{nullptr};
};

}  // namespace ramcore::runtime
