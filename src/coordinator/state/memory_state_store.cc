#include "coordinator/state/memory_state_store.h"

#include <algorithm>

#include "base/check.h"

namespace ramcore::coordinator {

MemoryStateStore::MemoryStateStore(MemoryDisk& disk, runtime::Executor& executor, runtime::Random random,
                                   const Options& options)
    : disk_(disk),
      random_(random),
      options_(options),
      leadership_(++disk.leadership_),
      waiting_(executor),
      change_number_(disk.change_number_) {}

runtime::Task<Result<std::vector<KeyValue>>> MemoryStateStore::readPrefix(runtime::Executor&, std::string prefix) {
  if (stopped_) co_return Status::Shutdown;
  std::vector<KeyValue> found;
  for (auto at = disk_.contents_.lower_bound(prefix); at != disk_.contents_.end(); ++at) {
    if (!at->first.starts_with(prefix)) break;
    found.push_back({at->first, at->second});
  }
  co_return std::move(found);
}

runtime::Task<Status> MemoryStateStore::commit(runtime::Executor& executor, Batch batch) {
  RC_CHECK(!batch.changes.empty() && batch.changes.size() <= Batch::kChangesMax);
  if (stopped_) co_return Status::Shutdown;
  const auto duration_ns = static_cast<int64_t>(
      random_.between(static_cast<uint64_t>(options_.commit_ns_min), static_cast<uint64_t>(options_.commit_ns_max)));
  // The batch is applied at the beginning or at the end of the commit, so that a crash in between finds either.
  const bool at_once = random_.below(2) == 0;
  Status written = Status::Ok;
  uint64_t number = 0;
  if (at_once) written = apply(batch, number);
  const Status waited = co_await waiting_.wait(executor.clock().nowNs() + duration_ns);
  if (waited != Status::DeadlineExceeded) co_return Status::Shutdown;
  if (!at_once) written = apply(batch, number);
  if (written == Status::Ok) change_number_ = std::max(change_number_, number);
  co_return written;
}

Status MemoryStateStore::apply(const Batch& batch, uint64_t& number) {
  if (disk_.leadership_ != leadership_) return Status::NotLeader;
  if (disk_.full_) {
    ++disk_.refused_count_;
    return Status::NoSpace;
  }
  for (const Batch::Change& change : batch.changes) {
    if (change.is_delete) {
      disk_.contents_.erase(change.key);
    } else {
      disk_.contents_[change.key] = change.value;
    }
  }
  ++disk_.commit_count_;
  if (!batch.is_unnumbered) disk_.change_number_ = std::max(disk_.change_number_ + 1, batch.number_min);
  number = disk_.change_number_;
  return Status::Ok;
}

void MemoryStateStore::stop() {
  stopped_ = true;
  waiting_.failAll(Status::Shutdown);
}

}  // namespace ramcore::coordinator
