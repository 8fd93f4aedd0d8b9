#include "backup/backup_service.h"

#include <algorithm>

#include "backup/replica_page.h"
#include "base/check.h"
#include "base/mutation.h"
#include "log/format/entry_writer.h"
#include "log/format/log_reader.h"
#include "rpc/control_call.h"

namespace ramcore::backup {
namespace {

namespace control = wire::control;
using rpc::Request;
using wire::Opcode;

// Pause between two collections of what is not needed any more.
constexpr int64_t kCollectPauseNs = 5 * runtime::kNanosPerSecond;
// The same after a write that found no frame.
constexpr int64_t kHurryPauseNs = 200 * runtime::kNanosPerMilli;
// A master that has written nothing for this long may be dead, although it was not fenced here.
constexpr int64_t kSilenceNs = 60 * runtime::kNanosPerSecond;
constexpr size_t kMastersPerQuestion = 256;
constexpr size_t kSegmentsPerQuestion = 4096;
constexpr uint32_t kPageBytesMax = 4u << 20;
// FetchReplica requests at the same time: each reads a whole replica into memory of its own.
constexpr uint32_t kFetchesMax = 2;

// Counts a coroutine of the service while it lives.
class Running {
 public:
  explicit Running(std::atomic<uint32_t>& count) : count_(count) { count_.fetch_add(1); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() { count_.fetch_sub(1); }

 private:
  std::atomic<uint32_t>& count_;
};

wire::ReplicaVersion versionOf(const log::Certificate& certificate) {
  return {.epoch = certificate.replica_epoch,
          .length_bytes = certificate.length_bytes,
          .closed = static_cast<uint8_t>(certificate.closed)};
}

bool takeRanges(const Request& request, wire::ReadReplica::Request& ask,
                std::vector<wire::ReadReplica::Range>& ranges) {
  using Range = wire::ReadReplica::Range;
  rpc::MessageCursor cursor(request.message());
  if (!cursor.take(ask) || ask.range_count > wire::ReadReplica::kRangesMax ||
      cursor.bytesLeft() != ask.range_count * sizeof(Range)) {
    return false;
  }
  ranges.resize(ask.range_count);
  return std::all_of(ranges.begin(), ranges.end(), [&cursor](Range& range) { return cursor.take(range); });
}

}  // namespace

BackupService::BackupService(const Parts& parts)
    : parts_(parts), cache_(parts.store, parts.dispatch), changed_(parts.dispatch) {}

BackupService::~BackupService() { RC_CHECK_MSG(stopped(), "the backup was destroyed before it had stopped"); }

void BackupService::addTo(rpc::ServiceTable& table) {
  // Writes take effect in the order in which they come. The store sees to it that none of them blocks this thread for
  // long.
  rpc::OpcodeRules rules{.roles = rpc::allow({transport::Role::Server}),
                         .request_bytes_min = sizeof(wire::WriteReplica::Request),
                         .dispatch_only = true};
  table.add<&BackupService::writeReplica>(Opcode::WriteReplica, *this, rules);
  rules.request_bytes_min = sizeof(wire::FreeReplica::Request);
  table.add<&BackupService::freeReplica>(Opcode::FreeReplica, *this, rules);
  table.add<&BackupService::readReplica>(Opcode::ReadReplica, *this,
                                         {.roles = rpc::allow({transport::Role::Server}),
                                          .request_bytes_min = sizeof(wire::ReadReplica::Request),
                                          .weight = rpc::Weight::Long});
  table.add<&BackupService::fetchReplica>(Opcode::FetchReplica, *this,
                                          {.roles = rpc::allow({transport::Role::Server}),
                                           .request_bytes_min = sizeof(wire::FetchReplica::Request),
                                           .weight = rpc::Weight::Long});
  table.add<&BackupService::fenceServer>(Opcode::FenceServer, *this,
                                         {.roles = rpc::allow({transport::Role::Coordinator}), .dispatch_only = true});
}

void BackupService::start() { collect().detach(); }

void BackupService::stop() {
  stop_ = true;
  changed_.notifyAll();
}

// ---- writing

// Whether a master may change its replicas.
Status BackupService::admit(const Request& request, ServerId id) {
  // A session proves who the sender is, so no server writes in another one's name.
  if (!id || request.peerId() != id.value) return Status::BadRequest;
  if (!parts_.store.hasBegun() || stop_) return Status::RetryLater;
  Master& master = masters_[id];
  if (master.fenced && !RC_MUTATION("skip-the-fence")) {
    fenced_refusals_.store(fenced_refusals_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return Status::Fenced;
  }
  master.heard_ns = request.arrivalNs();
  return Status::Ok;
}

void BackupService::writeReplica(Request request) {
  wire::WriteReplica::Request ask;
  if (!request.read(ask) || request.message().messageBytes() != sizeof(ask) + uint64_t{ask.data_bytes}) {
    return request.reply(Status::BadRequest);
  }
  const Status admitted = admit(request, ask.master);
  if (admitted != Status::Ok) return request.reply(admitted);
  const bool opens = (ask.flags & wire::WriteReplica::kOpen) != 0;
  if (opens && masters_[ask.master].freed.contains(ask.segment)) return request.reply(Status::NotFound);
  const FrameStore::Written written =
      parts_.store.write({.master = ask.master,
                          .segment = ask.segment,
                          .replica_epoch = ask.replica_epoch,
                          .offset_bytes = ask.offset_bytes,
                          .data_bytes = ask.data_bytes,
                          .flags = ask.flags,
                          .certificate = loadAs<log::CertificateBytes>(ask.certificate.data()),
                          .first_data = request.head().subspan(sizeof(ask)),
                          .more_data = request.message().tail()});
  if (written.status == Status::NoSpace) collectSoon();
  const bool flushes = (ask.flags & wire::WriteReplica::kFlush) != 0;
  if (written.status == Status::Ok && (flushes || !parts_.store.isWritten(written))) {
    return answerLater(std::move(request), written, flushes).detach();
  }
  request.replyWith(wire::WriteReplica::Response{.header = {.status = written.status},
                                                 .length_bytes = written.length_bytes,
                                                 .flushed_bytes = written.flushed_bytes});
}

// Keeps the request, with the bytes that the store may still be writing, and answers it when they are written or
// flushed.
runtime::Task<void> BackupService::answerLater(Request request, FrameStore::Written written, bool flushes) {
  const Running running(running_);
  Status status = Status::Ok;
  if (flushes) {
    status = co_await parts_.store.flushed(written);
  } else {
    status = co_await parts_.store.written(written);
  }
  request.replyWith(wire::WriteReplica::Response{
      .header = {.status = status}, .length_bytes = written.length_bytes, .flushed_bytes = written.flushed_bytes});
}

void BackupService::freeReplica(Request request) {
  wire::FreeReplica::Request ask;
  if (!request.read(ask) || request.message().messageBytes() != sizeof(ask)) return request.reply(Status::BadRequest);
  const Status admitted = admit(request, ask.master);
  if (admitted != Status::Ok) return request.reply(admitted);
  // The segment is remembered, because an open that was on its way and arrives later would bring the replica back.
  masters_[ask.master].freed.add(ask.segment);
  parts_.store.free(ask.master, ask.segment);
  request.reply(Status::Ok);
}

// ---- fencing

runtime::Task<void> BackupService::fenceServer(Request request) {
  if (parts_.obeys && !parts_.obeys(request.peerId())) co_return request.reply(Status::RetryLater);
  const Running running(running_);
  control::FenceServerRequest ask;
  if (!rpc::parseRequest(request, ask) || ask.server() == 0) {
    request.reply(Status::BadRequest);
    co_return;
  }
  if (!parts_.store.hasBegun()) {
    request.reply(Status::RetryLater);
    co_return;
  }
  const ServerId id(ask.server());
  Master& master = masters_[id];
  // From here on nothing is taken from the master. What was taken before is in the frames that are read now. The fence
  // is in memory only: the next incarnation of this backup has another id, and takes no write for a replica that was
  // not opened there.
  const bool is_news = !master.fenced;
  master.fenced = true;
  master.freed = {};  // the master opens nothing any more
  if (is_news && parts_.on_fence) parts_.on_fence();
  while (!master.listed && !stop_) {
    if (master.listing) {
      [[maybe_unused]] const Status changed = co_await changed_.wait();
    } else {
      co_await list(id, master);
    }
  }
  if (!master.listed) {
    request.reply(Status::RetryLater);
    co_return;
  }
  answerFence(std::move(request), master);
}

runtime::Task<void> BackupService::list(ServerId id, Master& master) {
  master.listing = true;
  std::vector<FoundReplica> found;
  std::optional<size_t> closed_head;  // the newest head, if it is closed
  std::vector<std::byte> bytes;
  size_t broken = 0;
  for (const SegmentId segment : parts_.store.segments(id)) {
    if (stop_) break;
    const Result<log::Certificate> certificate = co_await parts_.store.load(id, segment, parts_.background, bytes);
    if (!certificate.ok()) {
      ++broken;
      continue;
    }
    FoundReplica& replica = found.emplace_back();
    replica.certificate = *certificate;
    replica.may_be_short = parts_.store.mayBeShort(*certificate);
    log::SegmentPreamble preamble;
    if (log::readPreamble(bytes, preamble) != Status::Ok || !preamble.has_digest) continue;
    replica.has_digest = true;
    replica.previous_head = preamble.digest.payload.previous_head;
    // Segments come in ascending order. Only a log whose end is lost needs the members of a closed head, and only those
    // of the newest head. The lists of all heads together would be long.
    if (closed_head) found[*closed_head].members.clear();
    closed_head = certificate->closed ? std::optional(found.size() - 1) : std::nullopt;
    for (uint32_t i = 0; i < preamble.digest.payload.count; ++i) replica.members.push_back(preamble.digest.at(i));
  }
  parts_.trace.info("backup: server " + std::to_string(id.value) + " is fenced; " + std::to_string(found.size()) +
                    " replicas of it are whole, " + std::to_string(broken) + " are not");
  master.listing = false;
  master.listed = !stop_;
  master.replicas = std::move(found);
  changed_.notifyAll();
}

void BackupService::answerFence(Request request, const Master& master) {
  control::FenceServerResponse answer;
  for (const FoundReplica& found : master.replicas) {
    control::Replica& replica = *answer.add_replicas();
    replica.set_segment(found.certificate.segment.value);
    replica.set_replica_epoch(found.certificate.replica_epoch);
    replica.set_closed(found.certificate.closed);
    replica.set_length_bytes(found.certificate.length_bytes);
    replica.set_maybe_short(found.may_be_short);
    replica.set_has_digest(found.has_digest);
    replica.set_previous_head(found.previous_head.value);
    for (const SegmentId member : found.members) replica.add_members(member.value);
  }
  rpc::replyControl(std::move(request), answer);
}

// ---- reading

runtime::Task<void> BackupService::readReplica(Request request) {
  const Running running(running_);
  runtime::Executor& worker = request.executor();
  wire::ReadReplica::Request ask{};
  std::vector<wire::ReadReplica::Range> ranges;
  if (!takeRanges(request, ask, ranges)) {
    request.reply(Status::BadRequest);
    co_return;
  }
  co_await runtime::resumeOn(parts_.dispatch, runtime::Priority::Waited);
  Status status = Status::Ok;
  std::shared_ptr<const ReplicaCache::Replica> replica;
  const auto found = masters_.find(ask.master);
  Master* const master = found != masters_.end() ? &found->second : nullptr;  // never erased
  if (master == nullptr || !master->fenced || stop_) {
    status = Status::RetryLater;
  } else {
    replica = co_await cache_.get(ask.master, ask.segment, worker);
    const bool takes_any = RC_MUTATION("lend-any-replica");
    if (replica == nullptr || (versionOf(replica->certificate) != ask.replica && !takes_any)) {
      status = Status::NotFound;
      noteGone(*master, ask.master, ask.segment, ask.replica);
    }
  }
  co_await runtime::resumeOn(worker, runtime::Priority::Waited);
  if (status != Status::Ok) {
    request.reply(status);
    co_return;
  }
  answerPage(std::move(request), ask, RangeFilter(std::move(ranges), ask.segment), replica->bytes);
}

/// A replica that was offered cannot be read any more. If it is still in the list, the list is made again at the next
/// FenceServer request. Otherwise a recovery would choose this replica again and again.
void BackupService::noteGone(Master& master, ServerId id, SegmentId segment, const wire::ReplicaVersion& replica) {
  // The cached bytes may be of another version than the replica that is found when all are listed again.
  cache_.forget(id);
  if (!master.listed) return;
  master.listed = std::ranges::none_of(master.replicas, [&](const FoundReplica& found) {
    return found.certificate.segment == segment && versionOf(found.certificate) == replica;
  });
}

void BackupService::answerPage(Request request, const wire::ReadReplica::Request& ask, const RangeFilter& filter,
                               ByteSpan bytes) {
  using Response = wire::ReadReplica::Response;
  const uint64_t bytes_max = std::min<uint64_t>(request.responseBytesMax(), wire::kMessageBytesMax);
  if (bytes_max < sizeof(Response)) return request.reply(Status::TooLarge);
  ReplicaPage page;
  const Status filled = page.fill(
      bytes, ask.offset_bytes, filter,
      {.bytes_wanted = std::min(ask.response_bytes, kPageBytesMax), .bytes_max = bytes_max - sizeof(Response)});
  if (filled != Status::Ok) return request.reply(filled);
  transport::TxMessage response = request.allocate(sizeof(Response) + page.entry_bytes);
  if (!response) return request.reply(Status::TooLarge);
  response.appendHead(Response{.header = {.status = Status::Ok},
                               .next_offset_bytes = page.next_offset_bytes,
                               .entry_bytes = static_cast<uint32_t>(page.entry_bytes),
                               .entry_count = static_cast<uint32_t>(page.entries.size()),
                               .done = static_cast<uint8_t>(page.done),
                               .safe_version = page.safe_version});
  for (const log::EntryView& entry : page.entries) log::copyEntry(response.extendHead(entry.alignedBytes()), entry);
  response->contiguous_bytes = sizeof(Response);
  request.reply(std::move(response));
}

// Gives a master what its memory has lost. It asks seldom, for one entry at a time, so the replica is not cached.
runtime::Task<void> BackupService::fetchReplica(Request request) {
  const Running running(running_);
  runtime::Executor& worker = request.executor();
  wire::FetchReplica::Request ask;
  if (!request.read(ask) || request.message().messageBytes() != sizeof(ask) || ask.data_bytes == 0) {
    request.reply(Status::BadRequest);
    co_return;
  }
  co_await runtime::resumeOn(parts_.dispatch, runtime::Priority::Background);
  Status status = admit(request, ask.master);
  if (status == Status::Ok && fetching_ >= kFetchesMax) status = Status::RetryLater;
  if (status != Status::Ok) {
    co_await runtime::resumeOn(worker, runtime::Priority::Background);
    request.reply(status);
    co_return;
  }
  ++fetching_;
  {
    std::vector<std::byte> bytes;
    const Result<log::Certificate> replica = co_await parts_.store.load(ask.master, ask.segment, worker, bytes);
    status = replica.status();
    if (replica.ok() && !replica->closed) status = Status::RetryLater;
    co_await runtime::resumeOn(worker, runtime::Priority::Background);
    answerFetch(std::move(request), ask, status, bytes);
  }
  // Counted down only after the memory is given back, which is what the bound is for.
  co_await runtime::resumeOn(parts_.dispatch, runtime::Priority::Background);
  --fetching_;
}

void BackupService::answerFetch(Request request, const wire::FetchReplica::Request& ask, Status status,
                                ByteSpan bytes) {
  using Fetch = wire::FetchReplica;
  if (status == Status::Ok && ask.offset_bytes >= bytes.size()) status = Status::BadRequest;
  if (status != Status::Ok) return request.reply(status);
  const uint64_t bytes_max = std::min<uint64_t>(request.responseBytesMax(), sizeof(Fetch::Response) + Fetch::kBytesMax);
  const uint64_t rest = std::min<uint64_t>(ask.data_bytes, bytes.size() - ask.offset_bytes);
  const auto length = static_cast<uint32_t>(std::min(rest, bytes_max - std::min(bytes_max, sizeof(Fetch::Response))));
  transport::TxMessage response = request.allocate(static_cast<uint32_t>(sizeof(Fetch::Response)) + length);
  if (length == 0 || !response) return request.reply(Status::TooLarge);
  response.appendHead(Fetch::Response{
      .header = {.status = Status::Ok}, .length_bytes = static_cast<uint32_t>(bytes.size()), .data_bytes = length});
  response.appendHead(bytes.subspan(ask.offset_bytes, length));
  response->contiguous_bytes = sizeof(Fetch::Response);
  request.reply(std::move(response));
}

// ---- what nobody needs any more

// The first collection runs at once: a server that is started again and again must not fill up with what its former
// lives have left.
runtime::Task<void> BackupService::collect() {
  const Running running(running_);
  while (!stop_) {
    if (parts_.dispatch.clock().nowNs() < collect_at_ns_) {
      // Other events wake this, too: a list is complete, or a write found no frame (collectSoon).
      [[maybe_unused]] const Status woken = co_await changed_.wait(collect_at_ns_);
      continue;
    }
    collected_ns_ = parts_.dispatch.clock().nowNs();
    collect_at_ns_ = collected_ns_ + kCollectPauseNs;
    const std::vector<ServerId> all = questionable();
    for (size_t from = 0; from < all.size() && !stop_; from += kMastersPerQuestion) {
      const size_t to = std::min(all.size(), from + kMastersPerQuestion);
      const std::vector<ServerId> asked(all.begin() + static_cast<std::ptrdiff_t>(from),
                                        all.begin() + static_cast<std::ptrdiff_t>(to));
      co_await collectOf(asked);
    }
  }
}

// Called after a write that found no frame. It may be of a recovery that has to end before anything else can be freed.
// So what can be freed already is freed soon.
void BackupService::collectSoon() {
  const int64_t soon_ns = std::max(parts_.dispatch.clock().nowNs(), collected_ns_ + kHurryPauseNs);
  if (soon_ns >= collect_at_ns_) return;
  collect_at_ns_ = soon_ns;
  changed_.notifyAll();
}

// Masters that may not need all of their replicas here: those that are fenced or have not written to this incarnation
// lately, and those with replicas of former lives, which they may not know of.
std::vector<ServerId> BackupService::questionable() {
  std::vector<ServerId> masters = parts_.store.masters();
  const int64_t silent_since_ns = parts_.dispatch.clock().nowNs() - kSilenceNs;
  std::erase_if(masters, [this, silent_since_ns](ServerId id) {
    const auto master = masters_.find(id);
    return master != masters_.end() && !master->second.fenced && master->second.heard_ns > silent_since_ns &&
           parts_.store.formerSegments(id).empty();
  });
  return masters;
}

runtime::Task<void> BackupService::collectOf(std::vector<ServerId> masters) {
  const ReplicaJudge::Standings judged = co_await parts_.judge.standings(masters);
  if (judged.status != Status::Ok || judged.standings.size() != masters.size()) co_return;
  for (size_t i = 0; i < masters.size(); ++i) {
    if (judged.standings[i] == Standing::Released) releaseAll(masters[i]);
    if (judged.standings[i] != Standing::Alive) continue;
    const auto address = std::find_if(judged.alive.begin(), judged.alive.end(),
                                      [&](const rpc::PeerAddress& alive) { return alive.id == masters[i].value; });
    if (address != judged.alive.end() && !stop_) co_await collectFormer(*address);
  }
}

runtime::Task<void> BackupService::collectFormer(rpc::PeerAddress address) {
  const ServerId master(address.id);
  const std::vector<SegmentId> all = parts_.store.formerSegments(master);
  for (size_t from = 0; from < all.size() && !stop_; from += kSegmentsPerQuestion) {
    const size_t to = std::min(all.size(), from + kSegmentsPerQuestion);
    const std::vector<SegmentId> asked(all.begin() + static_cast<std::ptrdiff_t>(from),
                                       all.begin() + static_cast<std::ptrdiff_t>(to));
    const ReplicaJudge::Needed judged = co_await parts_.judge.needed(address, asked);
    if (judged.status != Status::Ok || judged.needed.size() != asked.size()) co_return;
    for (size_t i = 0; i < asked.size(); ++i) {
      if (!judged.needed[i]) parts_.store.freeFormer(master, asked[i]);
    }
  }
}

// Frees all replicas of a master that is dead and recovered. The fence stays: such a master writes nothing any more.
void BackupService::releaseAll(ServerId id) {
  Master& master = masters_[id];
  master.fenced = true;
  master.freed = {};
  master.replicas.clear();
  parts_.store.freeAll(id);
  cache_.forget(id);
}

}  // namespace ramcore::backup
