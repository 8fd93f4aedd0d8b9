#include "master/memory_repair.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace ramcore::master {
namespace {

// 128 KB of small entries take about 25 us.
constexpr uint32_t kSliceBytes = 128 * 1024;
constexpr int64_t kGracePollNs = 1 * runtime::kNanosPerMilli;
constexpr int64_t kFetchDeadlineNs = 2 * runtime::kNanosPerSecond;
// Those who ask for a damaged object are told to come back for so long, and that it is lost from then on.
constexpr int64_t kPatienceNs = 5 * runtime::kNanosPerSecond;
constexpr int64_t kTryAgainNs = 100 * runtime::kNanosPerMilli;
constexpr int64_t kTryLostAgainNs = 10 * runtime::kNanosPerSecond;

std::string text(const log::Damage& damage) {
  return "segment " + std::to_string(damage.segment.value) + ", offset " + std::to_string(damage.offset_bytes);
}

}  // namespace

MemoryRepair::MemoryRepair(const Parts& parts, const MemoryScrubOptions& options)
    : Job([](runtime::Job& job) { static_cast<MemoryRepair&>(job).wake(); }),
      parts_(parts),
      options_(options),
      scrubber_(parts.log),
      changed_(parts.background) {
  parts_.log.integrity().setObserver(this);
}

MemoryRepair::~MemoryRepair() {
  RC_CHECK_MSG(stopped() || (running_.load() == 0 && !is_posted_.load()),
               "the memory's repair was destroyed before it had stopped");
}

void MemoryRepair::start() {
  if (options_.bytes_per_second == 0) return;
  wants_scrub_.store(true);
  poke();
}

void MemoryRepair::stop() {
  stop_.store(true);
  poke();
}

void MemoryRepair::onDamaged(const log::Damage& damage) {
  {
    SpinGuard guard(lock_);
    news_.push_back(damage);
  }
  poke();
}

void MemoryRepair::poke() {
  if (!is_posted_.exchange(true)) parts_.background.post(*this, runtime::Priority::Background);
}

void MemoryRepair::wake() {
  is_posted_.store(false);
  changed_.notifyAll();
  if (stop_.load()) return;
  if (wants_scrub_.exchange(false)) scrub().detach();
  takeNews();
  if (!wanted_.empty() && !restoring_) restoreAll().detach();
}

void MemoryRepair::takeNews() {
  std::vector<log::Damage> news;
  {
    SpinGuard guard(lock_);
    news = std::exchange(news_, {});
  }
  for (const log::Damage& damage : news) {
    report(damage);
    if (!canRestore()) continue;
    wanted_.push_back({.damage = damage,
                       .marked = parts_.log.graceTicket(),
                       .give_up_ns = nowNs() + kPatienceNs,
                       .is_given_up = false});
  }
}

/// One line for a person, who may want to look at the memory module.
void MemoryRepair::report(const log::Damage& damage) {
  const std::optional<ObjectStore::Identity> key = parts_.store.identify(damage.ref, damage.segment);
  std::string what =
      "memory: the entry at " + text(damage) + " is not what was written (" + std::string(name(damage.error)) + "): ";
  if (damage.was_dead) {
    what += "garbage";
  } else if (key) {
    parts_.log.integrity().notePlaced(damage);
    what += "table " + std::to_string(key->table.value) + ", key hash " + std::to_string(key->hash);
  } else if (parts_.store.isBookkeeping(damage.ref)) {
    parts_.log.integrity().notePlaced(damage);
    what += "no object";
  } else {
    what += "its key cannot be read";
  }
  parts_.trace.error(what + (canRestore() ? "; it is fetched from a replica" : "; there are no replicas"));
}

runtime::Task<void> MemoryRepair::scrub() {
  running_.fetch_add(1);
  while (!stop_.load()) {
    const int64_t next_pass_ns = nowNs() + options_.pass_ns;
    uint32_t seen = kSliceBytes;
    while (seen >= kSliceBytes && !stop_.load()) {
      co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
      seen = scrubber_.step(kSliceBytes);
      const double pause_ns = static_cast<double>(seen) / static_cast<double>(options_.bytes_per_second) *
                              static_cast<double>(runtime::kNanosPerSecond);
      const int64_t until_ns = nowNs() + static_cast<int64_t>(pause_ns);
      while (nowNs() < until_ns && !stop_.load()) {
        [[maybe_unused]] const Status woken = co_await changed_.wait(until_ns);
      }
    }
    while (nowNs() < next_pass_ns && !stop_.load()) {
      [[maybe_unused]] const Status woken = co_await changed_.wait(next_pass_ns);
    }
  }
  running_.fetch_sub(1);
}

runtime::Task<void> MemoryRepair::restoreAll() {
  running_.fetch_add(1);
  restoring_ = true;
  while (!wanted_.empty() && !stop_.load()) {
    const size_t count = wanted_.size();
    for (size_t i = 0; i < count && !stop_.load(); ++i) {
      Wanted wanted = wanted_.front();
      wanted_.pop_front();
      const bool is_over = co_await attend(wanted);
      if (!is_over) wanted_.push_back(wanted);
    }
    if (wanted_.empty()) break;
    const bool all_lost = std::ranges::all_of(wanted_, [](const Wanted& wanted) { return wanted.is_given_up; });
    const int64_t again_ns = nowNs() + (all_lost ? kTryLostAgainNs : kTryAgainNs);
    [[maybe_unused]] const Status woken = co_await changed_.wait(again_ns);
  }
  restoring_ = false;
  running_.fetch_sub(1);
}

/// @return whether nothing is left to do for it
runtime::Task<bool> MemoryRepair::attend(Wanted& wanted) {
  const log::Damage damage = wanted.damage;
  co_await waitFor(wanted.marked);
  if (stop_.load()) co_return false;
  co_await runtime::resumeOn(parts_.dispatch, runtime::Priority::Background);
  const std::vector<rpc::PeerAddress> holders = parts_.replicas->closedHolders(damage.segment);
  co_await runtime::resumeOn(parts_.background, runtime::Priority::Background);
  for (size_t i = 0; i < holders.size() && !stop_.load(); ++i) {
    const Status status = co_await fetch(holders[i], damage);
    if (status == Status::NotFound) {
      parts_.log.integrity().forgetGone();
      co_return true;
    }
    if (status != Status::Ok) continue;
    co_await waitFor(parts_.log.graceTicket());
    if (stop_.load()) co_return false;
    if (parts_.log.integrity().release(damage)) parts_.log.markDead(damage.ref);
    parts_.trace.warning("memory: the entry at " + text(damage) + " is restored from server " +
                         std::to_string(holders[i].id));
    co_return true;
  }
  if (stop_.load()) co_return false;
  if (parts_.log.integrity().segmentOf(damage) == nullptr) {
    parts_.log.integrity().forgetGone();
    co_return true;
  }
  if (!wanted.is_given_up && nowNs() >= wanted.give_up_ns) {
    wanted.is_given_up = true;
    parts_.log.integrity().giveUp(damage);
    parts_.trace.error("memory: no replica gives back the entry at " + text(damage) + "; it is answered as corrupt");
  }
  co_return false;
}

/// NotFound: the segment has gone. Anything else but Ok: not from there.
runtime::Task<Status> MemoryRepair::fetch(rpc::PeerAddress holder, log::Damage damage) {
  const log::Segment* segment = parts_.log.integrity().segmentOf(damage);
  if (segment == nullptr) co_return Status::NotFound;
  const uint32_t length = segment->committedBytes();
  const bool is_compacted = segment->compactionCount() != 0;
  Piece piece;
  const uint32_t bytes = std::min(parts_.log.config().entry_bytes_max, length - damage.offset_bytes);
  const Status status = co_await ask(holder, damage.segment, damage.offset_bytes, bytes, piece);
  if (status == Status::Ok && piece.replica_bytes == length) {
    co_return parts_.log.integrity().restore(damage, piece.bytes);
  }
  // The replica was made before the segment was compacted: the entry lies elsewhere in it.
  if (is_compacted && (status == Status::Ok || status == Status::BadRequest)) co_return co_await search(holder, damage);
  co_return status == Status::Ok ? Status::BadRequest : status;
}

runtime::Task<Status> MemoryRepair::search(rpc::PeerAddress holder, log::Damage damage) {
  std::vector<std::byte> replica;
  uint32_t length = 1;  // until it is known
  while (replica.size() < length) {
    Piece piece;
    const auto offset = static_cast<uint32_t>(replica.size());
    const Status status = co_await ask(holder, damage.segment, offset, wire::FetchReplica::kBytesMax, piece);
    if (status != Status::Ok) co_return status;
    if (offset != 0 && piece.replica_bytes != length) co_return Status::BadRequest;  // another one since
    length = piece.replica_bytes;
    replica.insert(replica.end(), piece.bytes.begin(), piece.bytes.end());
  }
  co_return parts_.log.integrity().restoreFrom(damage, replica);
}

/// A piece of a replica: at least a byte of it, and nothing beyond its end.
runtime::Task<Status> MemoryRepair::ask(rpc::PeerAddress holder, SegmentId segment, uint32_t offset_bytes,
                                        uint32_t bytes_max, Piece& piece) {
  using Fetch = wire::FetchReplica;
  transport::TxMessage message = parts_.caller.allocate(sizeof(Fetch::Request));
  message.appendHead(Fetch::Request{.header = {.opcode = wire::Opcode::FetchReplica, .target = ServerId(holder.id)},
                                    .master = parts_.log.identity().server,
                                    .segment = segment,
                                    .offset_bytes = offset_bytes,
                                    .data_bytes = bytes_max});
  const rpc::CallResult result = co_await parts_.caller.call(
      parts_.background, holder, std::move(message),
      {.deadline_ns = nowNs() + kFetchDeadlineNs, .priority = runtime::Priority::Background});
  // A backup that has none says so, too; it is another one that may have it.
  if (result.status != Status::Ok) co_return result.status == Status::NotFound ? Status::Unreachable : result.status;
  Fetch::Response header{.header = {.status = Status::Ok}, .length_bytes = 0, .data_bytes = 0};
  const bool is_answer = wire::decode(result.response.head(), header) && header.data_bytes != 0 &&
                         header.length_bytes <= parts_.log.config().segment_bytes &&
                         uint64_t{offset_bytes} + header.data_bytes <= header.length_bytes &&
                         result.response.messageBytes() == sizeof(header) + uint64_t{header.data_bytes};
  if (!is_answer) co_return Status::BadRequest;
  piece.replica_bytes = header.length_bytes;
  piece.bytes.reserve(header.data_bytes);
  const ByteSpan head = result.response.head().subspan(sizeof(header));
  piece.bytes.assign(head.begin(), head.end());
  for (const ByteSpan& span : result.response.tail()) piece.bytes.insert(piece.bytes.end(), span.begin(), span.end());
  co_return Status::Ok;
}

runtime::Task<void> MemoryRepair::waitFor(runtime::GraceTicket ticket) {
  while (!parts_.log.isOver(ticket) && !stop_.load()) {
    parts_.maintenance.poke();  // the reclaimer
    co_await runtime::sleepFor(parts_.background, kGracePollNs);
  }
}

}  // namespace ramcore::master
