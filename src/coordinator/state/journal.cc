#include "coordinator/state/journal.h"

#include "base/mutation.h"

namespace ramcore::coordinator {
namespace {

constexpr int64_t kFullPauseNs = 200 * runtime::kNanosPerMilli;
// How often a full disk is tried with a change that means nothing, in case no caller has another one.
constexpr int64_t kProbePauseNs = 5 * runtime::kNanosPerSecond;
constexpr const char* kProbeKey = "probe";  // under the prefix of no record

}  // namespace

runtime::Task<Status> Journal::commit(Batch batch) {
  if (stopping_) co_return Status::Shutdown;
  const Status status = co_await commitAfterWork(std::move(batch));
  co_return status == Status::Ok&& stopping_ ? Status::Shutdown : status;
}

runtime::Task<Status> Journal::commitAfterWork(Batch batch) {
  if (failed_) co_return Status::Shutdown;
  const Status status = co_await store_.commit(executor_, std::move(batch));
  if (status == Status::Ok && !failed_) {
    is_full_.store(false, std::memory_order_relaxed);
    co_return Status::Ok;
  }
  if (status == Status::NoSpace) {
    noteFull();
    co_return Status::CoordinatorFull;
  }
  if (status == Status::Shutdown) co_return status;
  if (!failed_) {
    failed_ = true;
    if (on_failed_) on_failed_(status);
  }
  co_return status == Status::NotLeader ? Status::NotLeader : Status::Shutdown;
}

runtime::Task<bool> Journal::commitUntilStored(Batch batch) {
  if (RC_MUTATION("go-on-before-it-is-stored")) co_return true;
  while (true) {
    const Status stored = co_await commit(batch);
    if (stored == Status::Ok) co_return true;
    if (stored != Status::CoordinatorFull) co_return false;
    const bool awake = co_await sleepFor(kFullPauseNs);
    if (!awake) co_return false;
  }
}

void Journal::noteFull() {
  if (is_full_.exchange(true, std::memory_order_relaxed)) return;
  for (const auto& on_full : on_full_) on_full();
  if (is_probing_) return;
  is_probing_ = true;
  probeWhileFull().detach();
}

// Only a commit tells whether there is room.
runtime::Task<void> Journal::probeWhileFull() {
  Running running(*this);
  while (isFull()) {
    const bool awake = co_await sleepFor(kProbePauseNs);
    if (!awake) break;
    if (!isFull()) continue;
    Batch batch;
    batch.put(kProbeKey, std::to_string(nowNs()));
    static_cast<void>(co_await commit(std::move(batch)));
  }
  is_probing_ = false;
}

runtime::Task<Result<std::vector<KeyValue>>> Journal::readPrefix(std::string prefix) {
  co_return co_await store_.readPrefix(executor_, std::move(prefix));
}

runtime::Task<bool> Journal::sleepUntil(int64_t deadline_ns) {
  if (stopping_) co_return false;
  const Status woken = co_await stopped_.wait(deadline_ns);
  co_return woken == Status::DeadlineExceeded && !stopping_;
}

Status Journal::corrupt(std::string_view key, std::string_view why) {
  constexpr size_t kShownMax = 80;
  if (warning_.empty()) {
    warning_ = "the record '";
    // Keys of a damaged store are any bytes; logs are text.
    for (const char c : key.substr(0, kShownMax)) warning_ += c >= ' ' && c < 0x7f ? c : '?';
    warning_ += "' ";
    warning_ += why;
  }
  return Status::Corrupt;
}

void Journal::endWork() {
  stopping_ = true;
  stopped_.failAll(Status::Shutdown);
}

void Journal::stop() {
  endWork();
  store_.stop();
}

}  // namespace ramcore::coordinator
