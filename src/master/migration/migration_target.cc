#include "master/migration/migration_target.h"

#include "base/check.h"
#include "runtime/await.h"
#include "store/foreign_entry.h"
#include "wire/migration_messages.h"

namespace ramcore::master {
namespace {

constexpr uint32_t kSliceBytes = 512 * 1024;
constexpr int64_t kSliceDeadlineNs = 2 * runtime::kNanosPerSecond;
constexpr int64_t kPatienceNs = store::TabletIntake::kPatienceNs;
constexpr int64_t kPauseNs = store::TabletIntake::kPauseNs;
constexpr size_t kEntriesPerTurn = store::TabletIntake::kEntriesPerTurn;

// Whether a source may send this entry for the tablet. A source sends no tombstones.
bool belongsTo(const store::Tablet& tablet, const log::EntryView& entry) {
  if (entry.table() != tablet.table || entry.type() == log::EntryType::Tombstone) return false;
  const auto hash = store::hashOfForeign(entry);
  return hash && tablet.range.contains(*hash);
}

bool isGivenUp(void* ended) { return static_cast<std::atomic<bool>*>(ended)->load(); }

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

Status MigrationTarget::start(const store::Tablet& tablet, TabletEpoch source_epoch, const rpc::PeerAddress& source) {
  auto pull = std::make_shared<Pull>(tablet, source_epoch, source, attempts_.stopping());
  store::IntakeAttempts::Claim claim = attempts_.claim(pull, false);
  if (!claim.begins()) return claim.status;
  pull->former = std::move(claim.former);
  run(std::move(pull));
  return Status::Ok;
}

runtime::Detached MigrationTarget::run(std::shared_ptr<Pull> pull) {
  co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
  const Status status = co_await runSteps(*pull);
  attempts_.end(*pull, status, "pulling tablet " + std::to_string(pull->tablet().id.value));
}

// The contents go into a side log, which no other append waits for. It joins the log even if the pull has failed: until
// the range is purged, the index refers to its entries. If it finds no places it is given up instead: the source has
// everything, and answers for it again.
runtime::Task<Status> MigrationTarget::runSteps(Pull& pull) {
  Status status = co_await prepare(pull);
  if (status != Status::Ok) co_return status;
  log::SideLog side(parts_.log, parts_.log.replicator());
  status = co_await pullAll(pull, wire::Opcode::Pull, pull.tablet().range.first, side);
  if (status == Status::Ok) {
    status = co_await pullAll(pull, wire::Opcode::PullResults, pull.tablet().range.first, side);
  }
  const Status joined = co_await intake_.joinOrForsake(side, std::span(&pull.tablet(), 1), false, pull.patience);
  if (status == Status::Ok) status = joined;
  co_return status;
}

runtime::Task<Status> MigrationTarget::prepare(Pull& pull) {
  co_await awaitFormer(pull);
  intake_.evict(pull.tablet());
  Status status = co_await intake_.purge(pull.tablet(), pull.ended);
  if (status != Status::Ok) co_return status;
  SegmentId head;
  status = co_await intake_.roll(pull.ended, head, &pull.patience);
  if (status != Status::Ok) co_return status;
  pull.first_segment.store(head);
  co_return intake_.add(pull.tablet(), head, pull.ended);
}

runtime::Task<void> MigrationTarget::awaitFormer(Pull& pull) {
  if (pull.former == nullptr) co_return;
  // The former pull is waited for even if this one is given up as well: a pull that waits for this one relies on the
  // end of all before it.
  while (!pull.former->done.load(std::memory_order_acquire)) {
    co_await runtime::sleepFor(parts_.background, kPauseNs);
  }
  pull.former.reset();
}

runtime::Task<Status> MigrationTarget::pullAll(Pull& pull, wire::Opcode opcode, KeyHash cursor, log::SideLog& side) {
  const double range_hashes = static_cast<double>(pull.tablet().range.last - pull.tablet().range.first) + 1;
  for (;;) {
    Slice slice;
    Status status = co_await pullSlice(pull, opcode, cursor, slice);
    if (status == Status::Ok) status = co_await replayAll(pull, slice, side);
    if (status != Status::Ok) co_return status;
    if (slice.header.safe_version > store::kForeignVersionMax) co_return Status::BadRequest;
    parts_.store.raiseSafeVersion(slice.header.safe_version);
    pull.parts.front().bytes.fetch_add(slice.header.entry_bytes);
    if (slice.header.done != 0) co_return Status::Ok;
    if (slice.header.next_cursor <= cursor) co_return Status::BadRequest;  // a source that goes in circles
    cursor = slice.header.next_cursor;
    if (opcode == wire::Opcode::Pull) {
      pull.fraction.store(static_cast<double>(cursor - pull.tablet().range.first) / range_hashes);
    }
  }
}

runtime::Task<Status> MigrationTarget::pullSlice(Pull& pull, wire::Opcode opcode, KeyHash cursor, Slice& slice) {
  const int64_t give_up_ns = parts_.background.clock().nowNs() + kPatienceNs;
  for (;;) {
    if (pull.ended) co_return Status::Cancelled;
    transport::TxMessage message = parts_.caller.allocate(sizeof(wire::Pull::Request));
    message.appendHead(wire::Pull::Request{.header = {.opcode = opcode, .target = ServerId(pull.source.id)},
                                           .tablet = pull.tablet().id,
                                           .epoch = pull.source_epoch,
                                           .cursor = cursor,
                                           .response_bytes = kSliceBytes});
    const int64_t now_ns = parts_.background.clock().nowNs();
    rpc::CallResult result = co_await parts_.caller.call(
        parts_.background, pull.source, std::move(message),
        {.deadline_ns = now_ns + kSliceDeadlineNs,
         .priority = runtime::Priority::Background,
         .is_hopeless = &isGivenUp,  // or a silent source would hold up the pull that waits for the end of this one
         .context = &pull.ended});
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
    if (pull.ended) co_return Status::Cancelled;
    Status status = decodeBatch(pull, rest, batch);
    if (status != Status::Ok) co_return status;
    size_t taken = 0;
    status = parts_.store.replay().replayBatch(batch, side, taken);
    for (const log::EntryView& entry : std::span(batch).first(taken)) {
      if (entry.type() == log::EntryType::Object) pull.parts.front().objects.fetch_add(1, std::memory_order_relaxed);
      rest = rest.subspan(entry.alignedBytes());
    }
    if (status == Status::Ok) {
      co_await intake_.giveWay();
      continue;
    }
    if (!store::TabletIntake::isWorthWaiting(status) || parts_.background.clock().nowNs() >= give_up_ns)
      co_return status;
    co_await intake_.awaitRoom();
  }
  co_return Status::Ok;
}

Status MigrationTarget::decodeBatch(const Pull& pull, ByteSpan bytes, std::vector<log::EntryView>& batch) {
  batch.clear();
  while (!bytes.empty() && batch.size() < kEntriesPerTurn) {
    log::EntryView entry;
    if (log::decodeEntry(bytes, entry) != log::DecodeError::None) return Status::Corrupt;
    if (!belongsTo(pull.tablet(), entry)) return Status::BadRequest;
    batch.push_back(entry);
    bytes = bytes.subspan(entry.alignedBytes());
  }
  return Status::Ok;
}

}  // namespace ramcore::master
