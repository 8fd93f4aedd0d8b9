#include "master/cluster/change_keeper.h"

#include <coroutine>
#include <cstddef>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/crc32c.h"

namespace ramcore::master {
namespace {

constexpr std::string_view kFileName = "heard";
constexpr uint64_t kMagic = 0x6472616548724652;  // "RFrHeard"
constexpr uint32_t kFormat = 2;
// Two records in blocks of their own, written in turn: a torn one leaves the other.
constexpr uint64_t kBlockBytes = 4096;
constexpr uint64_t kRecordCount = 2;

struct Record {
  uint64_t magic;
  uint32_t format;
  uint32_t reserved;    // zero
  uint64_t generation;  // the higher one counts; stands in block generation % 2
  uint64_t cluster;
  uint64_t start;
  uint64_t number;
  uint64_t storage;
  uint32_t reserved2;  // zero
  uint32_t crc;        // CRC32C over everything before
};
static_assert(Fixed<Record> && sizeof(Record) == 64);

uint32_t crcOf(const Record& record) { return crc32c(bytesOf(record).first(offsetof(Record, crc))); }

/// Awaits one flush of a file, on the executor of the coroutine.
class FlushFile : private runtime::Flush {
 public:
  FlushFile(runtime::StorageFile& file, runtime::Executor& executor)
      : Flush([](runtime::Job& job) { static_cast<FlushFile&>(job).handle_.resume(); }, executor,
              runtime::Priority::Membership),
        file_(file) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    handle_ = handle;
    file_.flush(*this);
  }
  Status await_resume() const noexcept { return status; }

 private:
  runtime::StorageFile& file_;
  std::coroutine_handle<> handle_;
};

}  // namespace

Outcome<std::unique_ptr<ChangeKeeper>> ChangeKeeper::open(runtime::Storage* storage, runtime::Executor& executor,
                                                          Trace& trace) {
  if (storage == nullptr) return std::unique_ptr<ChangeKeeper>(new ChangeKeeper(executor, trace, nullptr));
  auto file = storage->open(kFileName);
  if (!file.ok() && file.status() == Status::NotFound) {
    file = storage->create(kFileName, kRecordCount * kBlockBytes);
  }
  if (!file.ok()) return std::move(file).error();
  std::unique_ptr<ChangeKeeper> keeper(new ChangeKeeper(executor, trace, std::move(file).value()));
  keeper->read();
  return keeper;
}

ChangeKeeper::ChangeKeeper(runtime::Executor& executor, Trace& trace, std::unique_ptr<runtime::StorageFile> file)
    : executor_(executor), trace_(trace), file_(std::move(file)), written_(executor) {}

ChangeKeeper::~ChangeKeeper() { RC_CHECK(idle()); }

void ChangeKeeper::read() {
  for (uint64_t block = 0; block < kRecordCount; ++block) {
    Record record{};
    const Status status = file_->read(block * kBlockBytes, std::as_writable_bytes(std::span(&record, 1)));
    if (status != Status::Ok || record.magic != kMagic || record.format != kFormat || record.crc != crcOf(record)) {
      continue;
    }
    if (record.generation % kRecordCount != block || record.generation < generation_) continue;
    generation_ = record.generation;
    cluster_ = ClusterId(record.cluster);
    latest_ = {.start = record.start, .number = record.number};
    storage_ = record.storage;
    was_found_ = true;
  }
}

void ChangeKeeper::startWriting() {
  if (isKept() || is_writing_ || file_ == nullptr || has_failed_) return;
  is_writing_ = true;
  write().detach();
}

// Change numbers go on over starts of the coordinator, so the highest one is the latest, even if answers come late.
bool ChangeKeeper::answered(ClusterId cluster, uint64_t start, ChangeRef named, ChangeRef change) {
  if (!obeys(start) && latest_ != named) return false;
  obeyed_start_.store(start, std::memory_order_release);
  if (!change || (latest_ && change.number <= latest_.number)) return true;
  cluster_ = cluster;
  latest_ = change;
  startWriting();
  return true;
}

runtime::Task<void> ChangeKeeper::keep(ChangeRef change) {
  if (!change) co_return;
  if (!latest_ || change.number > latest_.number) latest_ = change;
  startWriting();
  // If the disk has failed, nothing is waited for: the process remembers the change for as long as it lives.
  while (file_ != nullptr && !has_failed_ && (!kept_ || kept_.number < change.number)) {
    [[maybe_unused]] const Status woken = co_await written_.wait();
  }
}

// If the disk fails, the name is told all the same. Mostly the next process finds it, because it was flushed before. If
// the next process finds none, it draws another one, and knows as little of this process as if that had told no name.
runtime::Task<uint64_t> ChangeKeeper::nameStorage(uint64_t drawn) {
  if (file_ == nullptr) co_return 0;
  if (storage_ == 0) storage_ = drawn;
  startWriting();
  while (!has_failed_ && kept_storage_ != storage_) {
    [[maybe_unused]] const Status woken = co_await written_.wait();
  }
  co_return storage_;
}

// Writes one record at a time; changes that are heard meanwhile go with the next one.
runtime::Task<void> ChangeKeeper::write() {
  while (!isKept() && !has_failed_) {
    const Status status = co_await writeRecord();
    has_failed_ = status != Status::Ok;
    if (has_failed_) {
      trace_.error("what the coordinator says cannot be kept in the storage (" + std::string(name(status)) +
                   "): this server remembers it for as long as it runs; start it again on another disk");
    }
    written_.notifyAll();
  }
  is_writing_ = false;
}

runtime::Task<Status> ChangeKeeper::writeRecord() {
  // A process that was killed may have left its last record in the page cache: a loss of power now could tear that one
  // and the next.
  if (std::exchange(was_found_, false)) {
    const Status flushed = co_await FlushFile(*file_, executor_);
    if (flushed != Status::Ok) co_return flushed;
  }
  const ChangeRef change = latest_;
  const uint64_t storage = storage_;
  Record record{.magic = kMagic,
                .format = kFormat,
                .reserved = 0,
                .generation = generation_ + 1,
                .cluster = cluster_.value,
                .start = change.start,
                .number = change.number,
                .storage = storage,
                .reserved2 = 0,
                .crc = 0};
  record.crc = crcOf(record);
  // The write goes into the page cache: 64 bytes, and only when something has changed.
  Status status = file_->write(record.generation % kRecordCount * kBlockBytes, bytesOf(record));
  if (status == Status::Ok) status = co_await FlushFile(*file_, executor_);
  if (status != Status::Ok) co_return status;
  ++generation_;
  kept_ = change;
  kept_storage_ = storage;
  co_return Status::Ok;
}

}  // namespace ramcore::master
