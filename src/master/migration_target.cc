#include "master/migration_target.h"

#include "base/check.h"
#include "base/hash.h"
#include "master/durability.h"
#include "runtime/await.h"
#include "wire/migration_messages.h"

namespace ramcore::master {
namespace {

constexpr uint32_t kSliceBytes = 512 * 1024;
constexpr int64_t kSliceDeadlineNs = 2 * runtime::kNanosPerSecond;
// A source that does not answer, or says "later", for this long ends the pull.
constexpr int64_t kPatienceNs = 10 * runtime::kNanosPerSecond;
constexpr int64_t kPauseNs = 2 * runtime::kNanosPerMilli;
constexpr size_t kEntriesPerTurn = 64;

// Versions are counted up from what another server says: it may not put us near the end of the numbers.
constexpr Version kForeignVersionMax = kVersionMax / 2;

// Whether a master can have logged this as what a mutation was told. It will be told again as it is.
bool isResult(const log::ResultRecordPayload& record) {
  switch (static_cast<wire::Opcode>(record.opcode)) {
    case wire::Opcode::Write:
    case wire::Opcode::Remove:
    case wire::Opcode::Increment:
      break;
    default:
      return false;
  }
  switch (static_cast<Status>(record.status)) {
    case Status::Ok:
    case Status::NotFound:
    case Status::ObjectExists:
    case Status::WrongVersion:
    case Status::TypeMismatch:
      return true;
    default:
      return false;
  }
}

// Whether a source may send this entry for the tablet.
bool belongsTo(const Tablet& tablet, const log::EntryView& entry) {
  if (entry.table() != tablet.table || entry.version() > kForeignVersionMax) return false;
  if (entry.type() == log::EntryType::Object) return tablet.range.contains(hashKey(entry.table(), entry.key()));
  if (entry.type() != log::EntryType::ResultRecord) return false;
  const auto record = entry.payloadAs<log::ResultRecordPayload>();
  return record.client && record.sequence > record.acknowledged && tablet.range.contains(record.key_hash) &&
         isResult(record);
}

// Replay that meets a full memory waits for the cleaner this long.
bool worthWaiting(Status status) { return status == Status::RetryLater || status == Status::NoSpace; }

}  // namespace

struct MigrationTarget::Slice {
  wire::Pull::Response header{.header = {.status = Status::Ok},
                              .next_cursor = 0,
                              .entry_bytes = 0,
                              .entry_count = 0,
                              .done = 0,
                              .safe_version = 0};
  std::vector<std::byte> entries;  // copied: the bytes are checked and used over several turns
};

MigrationTarget::~MigrationTarget() { RC_CHECK(idle()); }

Status MigrationTarget::start(const Tablet& tablet, TabletEpoch source_epoch, const rpc::PeerAddress& source) {
  auto pull = std::make_shared<Pull>();
  pull->tablet = tablet;
  pull->tablet.state = TabletState::Pulling;
  pull->source_epoch = source_epoch;
  pull->source = source;
  {
    SpinGuard guard(lock_);
    std::shared_ptr<Pull>& known = pulls_[tablet.id];
    if (known != nullptr) {
      if (known->tablet.epoch == tablet.epoch) return Status::Ok;
      if (known->tablet.epoch > tablet.epoch) return Status::StaleEpoch;
      known->cancelled.store(true);
      pull->former = known;
    }
    known = pull;
  }
  running_.fetch_add(1);
  run(std::move(pull));
  return Status::Ok;
}

Result<MigrationTarget::Progress> MigrationTarget::progress(TabletId tablet) const {
  SpinGuard guard(lock_);
  const auto found = pulls_.find(tablet);
  if (found == pulls_.end()) return Status::NotFound;
  const Pull& pull = *found->second;
  Progress progress;
  progress.done = pull.done.load(std::memory_order_acquire);
  progress.status = pull.status.load();
  progress.objects = pull.objects.load();
  progress.bytes = pull.bytes.load();
  progress.fraction = pull.fraction.load();
  progress.first_segment = pull.first_segment.load();
  return progress;
}

void MigrationTarget::cancel(TabletId tablet, TabletEpoch epoch) {
  SpinGuard guard(lock_);
  const auto found = pulls_.find(tablet);
  if (found == pulls_.end() || found->second->tablet.epoch > epoch) return;
  found->second->cancelled.store(true);
  pulls_.erase(found);
}

void MigrationTarget::stop() {
  stopping_ = true;
  SpinGuard guard(lock_);
  for (auto& [id, pull] : pulls_) pull->cancelled.store(true);
}

runtime::Detached MigrationTarget::run(std::shared_ptr<Pull> pull) {
  co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
  const Status status = co_await runSteps(*pull);
  pull->status.store(status);
  if (status == Status::Ok) {
    pull->fraction.store(1);
  } else {
    parts_.trace.warning("pulling tablet " + std::to_string(pull->tablet.id.value) +
                         " failed: " + std::string(name(status)));
  }
  pull->done.store(true, std::memory_order_release);
  running_.fetch_sub(1);
}

// The contents go into a side log, which no other append waits for. It joins the log also when the pull failed: until
// somebody purges the range, the index refers to what is in it.
runtime::Task<Status> MigrationTarget::runSteps(Pull& pull) {
  log::SideLog side(parts_.log, parts_.log.replicator());
  Status status = co_await takeContents(pull, side);
  const Status joined = co_await joinLog(side);
  co_return status == Status::Ok ? joined : status;
}

runtime::Task<Status> MigrationTarget::joinLog(log::SideLog& side) {
  side.close();
  while (!side.isClosed()) {
    if (stopping_) break;
    co_await runtime::sleepFor(parts_.background, kPauseNs);
  }
  if (stopping_) {
    side.leave();
    co_return Status::Cancelled;
  }
  side.join();
  while (!side.isJoined()) {
    if (stopping_) co_return Status::Cancelled;
    parts_.maintenance.poke();
    co_await runtime::sleepFor(parts_.background, kPauseNs);
  }
  co_return Status::Ok;
}

runtime::Task<Status> MigrationTarget::takeContents(Pull& pull, log::SideLog& side) {
  Status status = co_await awaitFormer(pull);
  if (status != Status::Ok) co_return status;
  // What an earlier ownership left in the index goes first, and the head rolls: entries of the range before the new
  // head are never replayed for this tablet again.
  status = co_await purge(pull);
  if (status != Status::Ok) co_return status;
  const SegmentId head = parts_.log.requestRoll();
  while (!parts_.log.isRolled(head)) {
    if (pull.cancelled) co_return Status::Cancelled;
    parts_.maintenance.poke();
    co_await runtime::sleepFor(parts_.background, kPauseNs);
  }
  pull.first_segment.store(head);
  pull.tablet.first_segment = head;
  status = parts_.tablets.add(pull.tablet);
  if (status != Status::Ok) co_return status;
  // Whoever cancels looks for the tablet afterwards: one of the two sees the other, and takes it out.
  if (pull.cancelled) {
    [[maybe_unused]] const Status removed = parts_.tablets.remove(pull.tablet.id);
    co_return Status::Cancelled;
  }

  status = co_await pullAll(pull, wire::Opcode::Pull, pull.tablet.range.first, side);
  if (status == Status::Ok) {
    status = co_await pullAll(pull, wire::Opcode::PullResults, pull.tablet.range.first, side);
  }
  co_return status;
}

runtime::Task<Status> MigrationTarget::awaitFormer(Pull& pull) {
  if (pull.former == nullptr) co_return Status::Ok;
  // Also when this one is given up as well: whoever waits for it relies on the end of all before it.
  while (!pull.former->done.load(std::memory_order_acquire)) {
    co_await runtime::sleepFor(parts_.background, kPauseNs);
  }
  // Nobody was answered from it, so there is nothing to wait for before its contents are purged.
  const auto left = parts_.tablets.get(pull.tablet.id);
  if (left && left->state == TabletState::Pulling && left->epoch == pull.former->tablet.epoch) {
    [[maybe_unused]] const Status removed = parts_.tablets.remove(pull.tablet.id);
  }
  pull.former.reset();
  co_return Status::Ok;
}

runtime::Task<Status> MigrationTarget::purge(Pull& pull) {
  std::optional<KeyHash> cursor = pull.tablet.range.first;
  while (cursor) {
    if (pull.cancelled) co_return Status::Cancelled;
    cursor = parts_.store.purgeSlice(pull.tablet.table, pull.tablet.range, *cursor);
    co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
  }
  co_return Status::Ok;
}

runtime::Task<Status> MigrationTarget::pullAll(Pull& pull, wire::Opcode opcode, KeyHash cursor, log::SideLog& side) {
  const double range_hashes = static_cast<double>(pull.tablet.range.last - pull.tablet.range.first) + 1;
  for (;;) {
    Slice slice;
    Status status = co_await pullSlice(pull, opcode, cursor, slice);
    if (status == Status::Ok) status = co_await replayAll(pull, slice, side);
    if (status != Status::Ok) co_return status;
    if (slice.header.safe_version > kForeignVersionMax) co_return Status::BadRequest;
    parts_.store.raiseSafeVersion(slice.header.safe_version);
    pull.bytes.fetch_add(slice.header.entry_bytes);
    if (slice.header.done != 0) co_return Status::Ok;
    if (slice.header.next_cursor <= cursor) co_return Status::BadRequest;  // a source that goes in circles
    cursor = slice.header.next_cursor;
    if (opcode == wire::Opcode::Pull) {
      pull.fraction.store(static_cast<double>(cursor - pull.tablet.range.first) / range_hashes);
    }
  }
}

runtime::Task<Status> MigrationTarget::pullSlice(Pull& pull, wire::Opcode opcode, KeyHash cursor, Slice& slice) {
  const int64_t give_up_ns = parts_.background.clock().nowNs() + kPatienceNs;
  for (;;) {
    if (pull.cancelled) co_return Status::Cancelled;
    transport::TxMessage message = parts_.caller.allocate(sizeof(wire::Pull::Request));
    message.appendHead(wire::Pull::Request{.header = {.opcode = opcode, .target = ServerId(pull.source.id)},
                                           .tablet = pull.tablet.id,
                                           .epoch = pull.source_epoch,
                                           .cursor = cursor,
                                           .response_bytes = kSliceBytes});
    const int64_t now_ns = parts_.background.clock().nowNs();
    rpc::CallResult result = co_await parts_.caller.call(
        parts_.background, pull.source, std::move(message),
        {.deadline_ns = now_ns + kSliceDeadlineNs, .priority = runtime::Priority::Background});
    if (result.status == Status::Ok) {
      if (!wire::decode(result.response.head(), slice.header) ||
          result.response.messageBytes() != sizeof(slice.header) + uint64_t{slice.header.entry_bytes}) {
        co_return Status::BadRequest;
      }
      const ByteSpan entries = result.response.head().subspan(sizeof(slice.header));
      slice.entries.assign(entries.begin(), entries.end());
      for (const ByteSpan& span : result.response.tail()) {
        slice.entries.insert(slice.entries.end(), span.begin(), span.end());
      }
      co_return Status::Ok;
    }
    const bool final = result.status == Status::BadRequest || result.status == Status::WrongServer ||
                       result.status == Status::StaleEpoch || result.status == Status::Shutdown ||
                       result.status == Status::WrongServerId;
    if (final || parts_.background.clock().nowNs() >= give_up_ns) co_return result.status;
    co_await runtime::sleepFor(parts_.background, kPauseNs);
  }
}

runtime::Task<Status> MigrationTarget::replayAll(Pull& pull, const Slice& slice, log::SideLog& side) {
  ByteSpan rest = slice.entries;
  const int64_t give_up_ns = parts_.background.clock().nowNs() + kPatienceNs;
  std::vector<log::EntryView> batch;
  while (!rest.empty()) {
    if (pull.cancelled) co_return Status::Cancelled;
    Status status = decodeBatch(pull, rest, batch);
    if (status != Status::Ok) co_return status;
    size_t taken = 0;
    status = parts_.store.replayBatch(batch, side, taken);
    for (const log::EntryView& entry : std::span(batch).first(taken)) {
      if (entry.type() == log::EntryType::Object) pull.objects.fetch_add(1, std::memory_order_relaxed);
      rest = rest.subspan(entry.alignedBytes());
    }
    if (status == Status::Ok) {
      if (parts_.maintenance.isDue()) parts_.maintenance.poke();
      co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
      continue;
    }
    if (!worthWaiting(status) || parts_.background.clock().nowNs() >= give_up_ns) co_return status;
    parts_.maintenance.poke();
    co_await runtime::sleepFor(parts_.background, kPauseNs);
  }
  co_return Status::Ok;
}

Status MigrationTarget::decodeBatch(const Pull& pull, ByteSpan bytes, std::vector<log::EntryView>& batch) {
  batch.clear();
  while (!bytes.empty() && batch.size() < kEntriesPerTurn) {
    log::EntryView entry;
    if (log::decodeEntry(bytes, entry) != log::DecodeError::None) return Status::Corrupt;
    if (!belongsTo(pull.tablet, entry)) return Status::BadRequest;
    batch.push_back(entry);
    bytes = bytes.subspan(entry.alignedBytes());
  }
  return Status::Ok;
}

}  // namespace ramcore::master
