#include "tools/rc/importer.h"

#include <algorithm>
#include <utility>

namespace ramcore::rc {
namespace {

// A batch is sent when its keys and values have this many bytes.
constexpr size_t kBatchBytes = 48 * 1024;

}  // namespace

void Importer::add(Object object, uint64_t line) {
  batch_->bytes += object.key.size() + object.value.size();
  const auto known = batch_->by_key.find(object.key);
  if (known != batch_->by_key.end()) {
    Batch::Added& before = *known->second;
    batch_->bytes -= before.object.key.size() + before.object.value.size();
    before.object.value = std::move(object.value);
    before.line = line;
    ++before.lines;
  } else {
    Batch::Added& added = batch_->added.emplace_back(Batch::Added{.object = std::move(object), .line = line});
    batch_->by_key.emplace(added.object.key, &added);
  }
  if (batch_->added.size() >= settings_.batch_objects_max || batch_->bytes >= kBatchBytes) send();
}

void Importer::finish() {
  if (!batch_->added.empty()) send();
  while (!running_.empty()) collect();
}

void Importer::send() {
  // A server carries out calls that arrive at the same time in any order, and a repeated call even later: a batch waits
  // for earlier ones that have one of its keys.
  uint64_t number_max = 0;
  for (const Batch::Added& added : batch_->added) {
    const auto running = numbers_of_running_.find(added.object.key);
    if (running != numbers_of_running_.end()) number_max = std::max(number_max, running->second);
  }
  while (!running_.empty() && running_.front()->number <= number_max) collect();
  while (running_.size() >= settings_.batches_max) collect();

  std::unique_ptr<Batch> batch = std::exchange(batch_, std::make_unique<Batch>());
  if (first_failure_.status != Status::Ok) {
    // A call that failed may still take effect, and then after this batch.
    for (const Batch::Added& added : batch->added) fail(first_failure_.status, added.line, added.lines);
    return;
  }
  batch->number = ++next_number_;
  for (const Batch::Added& added : batch->added) {
    numbers_of_running_[added.object.key] = batch->number;
    batch->items.push_back(
        {.table = settings_.table, .key = added.object.key, .value = added.object.value, .condition = {}});
  }
  batch->result = client_.multiMutateAsync(batch->items);
  running_.push_back(std::move(batch));
}

void Importer::collect() {
  Batch& batch = *running_.front();
  static_cast<void>(batch.result.get());
  for (size_t i = 0; i < batch.items.size(); ++i) {
    const Batch::Added& added = batch.added[i];
    if (batch.items[i].status == Status::Ok) {
      written_ += added.lines;
    } else {
      fail(batch.items[i].status, added.line, added.lines);
    }
    numbers_of_running_.erase(added.object.key);  // a batch with the same key waits until this one is over
  }
  running_.pop_front();
}

void Importer::fail(Status status, uint64_t line, uint64_t lines) {
  failed_ += lines;
  if (first_failure_.status != Status::Ok && first_failure_.line <= line) return;
  first_failure_ = {status, line};
}

}  // namespace ramcore::rc
