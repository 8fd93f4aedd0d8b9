#include "durability/recorder.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "durability/history_check.h"

namespace durability {

int64_t nowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

Recorder::Recorder(const std::string& journal, std::vector<Key> keys)
    : keys_(std::move(keys)), journal_(journal), ended_(keys_.size()) {}

void Recorder::begin(size_t key, Call& call) {
  call.key = keys_[key].name;
  {
    const std::lock_guard lock(mutex_);
    call.id = ++last_id_;
  }
  call.start_ns = nowNs();
  journal_.begin(call);
}

void Recorder::end(size_t key, Call& call) {
  const std::lock_guard lock(mutex_);
  const int64_t ended_ns = nowNs();
  if (call.fate() != Fate::Unanswered) call.end_ns = ended_ns;
  journal_.end(call, ended_ns);
  if (call.fate() == Fate::Answered) {
    answers_.push_back({.end_ns = ended_ns,
                        .start_ns = call.start_ns,
                        .key = static_cast<uint32_t>(key),
                        .is_acknowledgement = call.isMutation() && call.isOk()});
    answered_.notify_all();
  } else {
    failures_.push_back({.end_ns = ended_ns, .key = static_cast<uint32_t>(key), .status = call.status});
  }
  ended_[key].push_back(std::move(call));
}

bool Recorder::isIn(size_t key, const std::vector<Range>& ranges) const {
  const uint64_t hash = keys_[key].hash;
  return std::any_of(ranges.begin(), ranges.end(),
                     [hash](const Range& range) { return hash >= range.first && hash <= range.last; });
}

size_t Recorder::firstAfter(int64_t time_ns) const {
  const auto found = std::upper_bound(answers_.begin(), answers_.end(), time_ns,
                                      [](int64_t time, const Answer& answer) { return time < answer.end_ns; });
  return static_cast<size_t>(found - answers_.begin());
}

size_t Recorder::countAcknowledged(int64_t from_ns, int64_t to_ns, const std::vector<Range>& ranges) const {
  size_t count = 0;
  for (size_t i = firstAfter(from_ns); i < answers_.size() && answers_[i].end_ns <= to_ns; ++i) {
    if (answers_[i].is_acknowledgement && isIn(answers_[i].key, ranges)) ++count;
  }
  return count;
}

Recorder::Acknowledgements Recorder::acknowledged(int64_t from_ns, int64_t to_ns,
                                                  const std::vector<Range>& ranges) const {
  const std::lock_guard lock(mutex_);
  return {.all = countAcknowledged(from_ns, to_ns, {{0, ~uint64_t{0}}}),
          .of_ranges = countAcknowledged(from_ns, to_ns, ranges)};
}

bool Recorder::wait(std::unique_lock<std::mutex>& lock, int64_t deadline_ns, const std::function<bool()>& is_done) {
  return answered_.wait_for(lock, std::chrono::nanoseconds(std::max<int64_t>(0, deadline_ns - nowNs())), is_done);
}

bool Recorder::awaitAcknowledged(size_t count, int64_t window_ns, int64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  return wait(lock, deadline_ns, [&] {
    const int64_t now_ns = nowNs();
    return countAcknowledged(now_ns - window_ns, now_ns, {{0, ~uint64_t{0}}}) >= count;
  });
}

bool Recorder::awaitMore(size_t count, int64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  const int64_t begin_ns = nowNs();
  return wait(lock, deadline_ns, [&] { return countAcknowledged(begin_ns, nowNs(), {{0, ~uint64_t{0}}}) >= count; });
}

size_t Recorder::awaitAnswers(int64_t since_ns, const std::vector<Range>& ranges, int64_t deadline_ns) {
  std::vector<Range> open;
  for (const Range& range : ranges) {
    for (size_t key = 0; key < keys_.size(); ++key) {
      if (!isIn(key, {range})) continue;
      open.push_back(range);
      break;
    }
  }
  std::unique_lock lock(mutex_);
  size_t next = firstAfter(since_ns);
  wait(lock, deadline_ns, [&] {
    for (; next < answers_.size(); ++next) {
      if (answers_[next].start_ns <= since_ns) continue;
      std::erase_if(open, [&](const Range& range) { return isIn(answers_[next].key, {range}); });
    }
    return open.empty();
  });
  return open.size();
}

Recorder::Gap Recorder::gap(int64_t since_ns, const std::vector<Range>& ranges) const {
  Gap gap;
  for (size_t key = 0; key < keys_.size(); ++key) gap.keys += isIn(key, ranges) ? 1 : 0;
  if (gap.keys == 0) return gap;
  const std::lock_guard lock(mutex_);
  int64_t last_ns = since_ns;
  for (size_t i = firstAfter(since_ns); i < answers_.size(); ++i) {
    if (!isIn(answers_[i].key, ranges)) continue;
    gap.outage_ns = std::max(gap.outage_ns, answers_[i].end_ns - last_ns);
    gap.slowest_ns = std::max(gap.slowest_ns, answers_[i].end_ns - answers_[i].start_ns);
    last_ns = answers_[i].end_ns;
  }
  gap.outage_ns = std::max(gap.outage_ns, nowNs() - last_ns);
  return gap;
}

Recorder::Failures Recorder::failures(int64_t since_ns) const {
  const std::lock_guard lock(mutex_);
  Failures failures;
  for (const Failure& failure : failures_) {
    if (failure.end_ns <= since_ns) continue;
    ++failures.count;
    failures.last_ns = failure.end_ns;
    failures.last = keys_[failure.key].name + ": " + failure.status;
  }
  return failures;
}

Recorder::Verdict Recorder::check() const {
  const std::lock_guard lock(mutex_);
  Verdict verdict;
  for (const std::vector<Call>& calls : ended_) {
    verdict.calls += calls.size();
    for (const Call& call : calls) verdict.unanswered += call.fate() == Fate::Unanswered ? 1 : 0;
    for (std::string& violation : checkKey(calls)) verdict.violations.push_back(std::move(violation));
  }
  return verdict;
}

}  // namespace durability
