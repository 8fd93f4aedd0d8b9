#include "coordinator/journal.h"

namespace ramcore::coordinator {
namespace {

constexpr int64_t kNoSpacePauseNs = 200 * runtime::kNanosPerMilli;

}  // namespace

runtime::Task<Status> Journal::commit(Batch batch) {
  if (stopping_ || failed_) co_return Status::Shutdown;
  const Status status = co_await store_.commit(executor_, std::move(batch));
  if (status == Status::Ok && !failed_) co_return Status::Ok;
  if (status == Status::NoSpace || status == Status::Shutdown) co_return status;
  if (!failed_) {
    failed_ = true;
    if (on_failed_) on_failed_(status);
  }
  co_return status == Status::NotLeader ? Status::NotLeader : Status::Shutdown;
}

runtime::Task<bool> Journal::commitUntilStored(Batch batch) {
  while (true) {
    const Status stored = co_await commit(batch);
    if (stored == Status::Ok) co_return true;
    if (stored != Status::NoSpace) co_return false;
    const bool awake = co_await sleepFor(kNoSpacePauseNs);
    if (!awake) co_return false;
  }
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
  if (complaint_.empty()) {
    complaint_ = "the record '";
    // Keys of a damaged store are any bytes; logs are text.
    for (const char c : key.substr(0, kShownMax)) complaint_ += c >= ' ' && c < 0x7f ? c : '?';
    complaint_ += "' ";
    complaint_ += why;
  }
  return Status::Corrupt;
}

void Journal::stop() {
  stopping_ = true;
  store_.stop();
  stopped_.failAll(Status::Shutdown);
}

}  // namespace ramcore::coordinator
