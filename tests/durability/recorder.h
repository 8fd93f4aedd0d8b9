#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "durability/call.h"
#include "durability/journal.h"

namespace durability {

/// Now, on the clock of all times here: the one that Python's time.monotonic_ns() reads, too.
int64_t nowNs();

/// A range of key hashes, both ends included.
struct Range {
  uint64_t first = 0;
  uint64_t last = 0;
};

/// Notes every call before and after, in the journal and in memory, and answers questions about them.
///
/// Any thread.
class Recorder {
 public:
  struct Key {
    std::string name;
    uint64_t hash = 0;
  };
  struct Acknowledgements {
    size_t all = 0;
    size_t of_ranges = 0;
  };
  struct Gap {
    size_t keys = 0;
    int64_t outage_ns = 0;   ///< the longest time without any answer for one of the keys
    int64_t slowest_ns = 0;  ///< the longest call for one of the keys that was answered
  };
  struct Failures {
    size_t count = 0;
    int64_t last_ns = 0;  ///< when the last one ended
    std::string last;     ///< its key and status
  };
  struct Verdict {
    size_t calls = 0;
    size_t unanswered = 0;
    std::vector<std::string> violations;
  };

  Recorder(const std::string& journal, std::vector<Key> keys);

  const std::vector<Key>& keys() const { return keys_; }
  /// Notes that the call is going to be made; its id and start are set.
  void begin(size_t key, Call& call);
  /// Notes what became of it; status, version and result are set.
  void end(size_t key, Call& call);

  /// Mutations that were acknowledged in (from, to].
  Acknowledgements acknowledged(int64_t from_ns, int64_t to_ns, const std::vector<Range>& ranges) const;
  /// Waits until `count` mutations were acknowledged in the last `window_ns`. False: not by the deadline.
  bool awaitAcknowledged(size_t count, int64_t window_ns, int64_t deadline_ns);
  /// Waits until `count` mutations were acknowledged from now on.
  bool awaitMore(size_t count, int64_t deadline_ns);
  /// Waits until each range that has keys saw the answer to a call that started after `since_ns`. Gives the number of
  /// ranges that did not by the deadline.
  size_t awaitAnswers(int64_t since_ns, const std::vector<Range>& ranges, int64_t deadline_ns);
  Gap gap(int64_t since_ns, const std::vector<Range>& ranges) const;
  /// Calls of all keys that ended after `since_ns` without an answer.
  Failures failures(int64_t since_ns) const;
  /// Judges all calls of all keys. No call is running.
  Verdict check() const;

 private:
  struct Answer {
    int64_t end_ns;
    int64_t start_ns;
    uint32_t key;
    bool is_acknowledgement;
  };

  bool isIn(size_t key, const std::vector<Range>& ranges) const;
  size_t firstAfter(int64_t time_ns) const;
  size_t countAcknowledged(int64_t from_ns, int64_t to_ns, const std::vector<Range>& ranges) const;
  bool wait(std::unique_lock<std::mutex>& lock, int64_t deadline_ns, const std::function<bool()>& is_done);

  const std::vector<Key> keys_;
  Journal journal_;
  mutable std::mutex mutex_;
  std::condition_variable answered_;
  uint64_t last_id_ = 0;
  std::vector<std::vector<Call>> ended_;  // by key
  std::vector<Answer> answers_;           // in the order of end_ns
  struct Failure {
    int64_t end_ns;
    uint32_t key;
    std::string status;
  };
  std::vector<Failure> failures_;  // in the order of end_ns
};

}  // namespace durability
