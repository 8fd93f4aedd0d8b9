#include "coordinator/state/id_allocator.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "coordinator/state/stored_state.h"

namespace ramcore::coordinator {

IdAllocator::IdAllocator(Journal& journal, std::string_view kind)
    : journal_(journal), key_(std::string(kPrefix) + std::string(kind)), lock_(journal.executor()) {
  RC_CHECK(std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds));
}

runtime::Task<Status> IdAllocator::load() {
  Result<std::vector<KeyValue>> stored = co_await journal_.readPrefix(key_);
  if (!stored.ok()) co_return stored.error();
  for (const KeyValue& entry : *stored) {
    if (entry.key != key_) continue;
    if (!decodeAllocator(entry.value, reserved_until_)) co_return journal_.corrupt(entry.key, kNonsense);
    next_ = reserved_until_;
  }
  co_return Status::Ok;
}

runtime::Task<Result<uint64_t>> IdAllocator::take(uint64_t count) {
  auto guard = co_await lock_.lock();
  if (reserved_until_ - next_ < count) {
    const uint64_t until = next_ + count + kBlock;
    Batch batch;
    batch.put(key_, encodeAllocator(until));
    const Status stored = co_await journal_.commit(std::move(batch));
    if (stored != Status::Ok) co_return stored;
    reserved_until_ = until;
  }
  const uint64_t first = next_;
  next_ += count;
  co_return first;
}

}  // namespace ramcore::coordinator
