#include "client/multi_run.h"

#include <algorithm>

#include "base/hash.h"

namespace ramcore::client {

using runtime::Task;

namespace {

size_t valueBytes(const ReadItem&) { return 0; }
size_t valueBytes(const MutateItem& item) { return item.kind == MutateItem::Kind::Write ? item.value.size() : 0; }

constexpr uint32_t kRequestBytes = std::max(sizeof(wire::MultiRead::Request), sizeof(wire::MultiMutate::Request));
// A multi-request is handed over in one piece.
constexpr uint32_t kPartBytesMax = wire::kHeadBytesMax - kRequestBytes;

}  // namespace

template <typename Item>
MultiRun<Item>::MultiRun(ClusterClient& client, std::span<Item> items, int64_t deadline_ns)
    : client_(client), items_(items), deadline_ns_(deadline_ns), scratch_(client.scratch_.take()) {
  scratch_->group.setExecutor(client.pacer_.executor());
}

template <typename Item>
MultiRun<Item>::~MultiRun() {
  client_.scratch_.giveBack(std::move(scratch_));
}

template <typename Item>
void MultiRun<Item>::begin() {
  std::vector<MultiPart>& parts = scratch_->parts;
  parts.clear();
  for (uint32_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    item.version = 0;
    item.status = checkLimits(item.key.size(), valueBytes(item));
    if (item.status != Status::Ok) continue;
    MultiPart& part = parts.emplace_back();
    part.item = i;
    part.hash = hashKey(TableId(item.table.id), asBytes(item.key));
  }
}

template <typename Item>
Task<void> MultiRun<Item>::run() {
  begin();
  Backoff backoff(client_.options_.retry);
  std::vector<MultiPart>& parts = scratch_->parts;
  while (!parts.empty()) {
    if (client_.pacer_.stopped()) {
      finishAll(Status::Shutdown);
      co_return;
    }
    if constexpr (kIsMutation) {
      const Status leased = co_await prepareIdentity();
      if (leased != Status::Ok) {
        finishAll(besideTheCall(leased));
        co_return;
      }
    }
    co_await placeParts();
    if constexpr (kIsMutation) {
      // The lease may have run out meanwhile.
      if (generation_ != client_.lease_.generation() || !client_.lease_.client()) continue;
    }
    retry_after_us_ = 0;
    sendAll();
    co_await scratch_->group;
    for (size_t i = 0; i < call_count_; ++i) collect(*scratch_->calls[i]);
    const size_t settled = settle();
    if (parts.empty()) break;
    // An answer that got too long is cut, and the rest may be asked for at once.
    if (settled != 0 && retry_after_us_ == 0) continue;
    CallProgress progress{
        .ticket = {},
        .is_stale = std::any_of(parts.begin(), parts.end(), [](const MultiPart& p) { return p.is_stale; }),
        .retry_after_us = retry_after_us_};
    if (backoff.attempts() >= kAttemptsPerQuestion) inquire();
    const bool again = co_await client_.pauseBeforeNext(backoff, progress, deadline_ns_);
    if (!again) {
      for (MultiPart& part : parts) finishPart(part);
      parts.clear();
    }
  }
}

// Parts whose next attempt asks anyway are left out, as in ClusterClient::continueFrom().
template <typename Item>
void MultiRun<Item>::inquire() {
  TableId asked;
  for (const MultiPart& part : scratch_->parts) {
    const TableId table(items_[part.item].table.id);
    if (part.is_stale || part.owner == kNowhere || table == asked) continue;
    client_.finder_.inquire(table);
    asked = table;
  }
}

template <typename Item>
Task<Status> MultiRun<Item>::prepareIdentity() {
  ClientLease& lease = client_.lease_;
  for (;;) {
    const Status status = co_await lease.open(deadline_ns_);
    if (status != Status::Ok) co_return status;
    if (generation_ == lease.generation()) co_return Status::Ok;
    if (lease.hasRoom(scratch_->parts.size())) break;
    const Status waited = co_await lease.awaitRoom(scratch_->parts.size(), deadline_ns_);
    if (waited != Status::Ok) co_return waited;
  }
  // Under another identity a call would be a new one: only those that cannot have happened go on. Those that were
  // refused will not happen later, as in ClusterClient::prepareTicket().
  generation_ = lease.generation();
  std::vector<MultiPart>& left = scratch_->left;
  left.clear();
  for (MultiPart& part : scratch_->parts) {
    part.sequence = Sequence();
    if (part.may_have_happened) {
      part.last = Status::OutcomeUnknown;
      finishPart(part);
      continue;
    }
    part.sequence = lease.begin().sequence;
    left.push_back(part);
  }
  scratch_->parts.swap(left);
  co_return Status::Ok;
}

template <typename Item>
bool MultiRun<Item>::placePart(MultiPart& part) {
  const TabletCache::Entry* entry = client_.finder_.cache().find(TableId(items_[part.item].table.id), part.hash);
  if (entry == nullptr || entry->owner == nullptr) return false;
  part.owner = entry->owner->number;
  part.epoch = entry->epoch;
  return true;
}

template <typename Item>
Task<void> MultiRun<Item>::placeParts() {
  std::vector<MultiPart>& parts = scratch_->parts;
  bool in_order = true;
  uint32_t previous = 0;
  // A final answer of the coordinator about one part holds for the other parts of its table.
  TableId unknown_table;
  Status unknown_why = Status::Ok;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].is_stale || !placePart(parts[i])) {
      if (since_ns_ == 0) since_ns_ = client_.pacer_.nowNs();
      const TableId table(items_[parts[i].item].table.id);
      const bool is_told = unknown_why != Status::Ok && table == unknown_table;
      const Status status = is_told ? unknown_why : co_await client_.finder_.refresh(table, since_ns_, deadline_ns_);
      if (status != Status::Ok && reactionTo(status) != Reaction::Wait) {
        unknown_table = table;
        unknown_why = status;
      }
      parts[i].is_stale = false;
      if (status != Status::Ok || !placePart(parts[i])) {
        parts[i].owner = kNowhere;
        parts[i].last = status != Status::Ok ? besideTheCall(status) : Status::RetryLater;
      }
    }
    in_order &= parts[i].owner >= previous;
    previous = parts[i].owner;
  }
  // A refresh for a later part may say that the tablet of an earlier part has moved; the former owner will say so, too.
  if (!in_order) {
    std::sort(parts.begin(), parts.end(), [](const MultiPart& a, const MultiPart& b) {
      return a.owner != b.owner ? a.owner < b.owner : a.item < b.item;
    });
  }
}

template <typename Item>
void MultiRun<Item>::sendAll() {
  call_count_ = 0;
  uint32_t next = 0;
  const auto count = static_cast<uint32_t>(scratch_->parts.size());
  while (next < count && scratch_->parts[next].owner != kNowhere) next = sendNext(next);
}

template <typename Item>
uint32_t MultiRun<Item>::sendNext(uint32_t first) {
  const std::vector<MultiPart>& parts = scratch_->parts;
  uint32_t end = first;
  uint32_t part_bytes = 0;
  while (end < parts.size() && parts[end].owner == parts[first].owner && end - first < wire::kMultiCountMax) {
    const uint32_t bytes = encodedBytes(items_[parts[end].item]);
    if (bytes > kPartBytesMax - part_bytes) break;
    part_bytes += bytes;
    ++end;
  }
  if (call_count_ == scratch_->calls.size()) {
    scratch_->calls.push_back(std::make_unique<MultiCall>(scratch_->group));
  }
  MultiCall& call = *scratch_->calls[call_count_++];
  call.first = first;
  call.is_point = end == first;
  call.count = call.is_point ? 1 : end - first;
  const std::span<const MultiPart> run = std::span(parts).subspan(first, call.count);
  TabletCache::Owner& owner = client_.finder_.cache().ownerOf(parts[first].owner);
  const ServerId target(owner.address.id);
  if constexpr (kIsMutation) {
    const ClientLease& lease = client_.lease_;
    if (call.is_point) {
      const MutateItem& item = items_[run.front().item];
      const PointRequest request{
          .kind = item.kind == MutateItem::Kind::Write ? wire::Opcode::Write : wire::Opcode::Remove,
          .table = TableId(item.table.id),
          .key = asBytes(item.key),
          .value = item.kind == MutateItem::Kind::Write ? asBytes(item.value) : ByteSpan(),
          .condition = static_cast<wire::Condition>(item.condition.kind()),
          .condition_version = item.condition.version()};
      const wire::CallIdentity identity{
          .client = lease.client(), .sequence = run.front().sequence, .acknowledged = lease.acknowledged()};
      call.request = encodePoint(client_.caller_, request, target, run.front().epoch, identity);
    } else {
      call.request =
          encodeMultiMutate(client_.caller_, target, lease.client(), lease.acknowledged(), items_, run, part_bytes);
    }
  } else {
    RC_CHECK(!call.is_point);  // a key always fits
    call.request = encodeMultiRead(client_.caller_, target, items_, run, part_bytes);
  }
  call.operation = this;
  call.settings = {.deadline_ns = deadline_ns_,
                   .is_hopeless = &MultiRun::isHopeless,
                   .context = &call,
                   .is_doubted = owner.is_doubtful};
  if (owner.is_doubtful) client_.finder_.inquire(TableId(items_[run.front().item].table.id));
  scratch_->group.add();
  client_.connectionTo(owner).start(call);
  return first + call.count;
}

// True if the tablet of any part is elsewhere. The whole request is given up then, and all its parts are sent again,
// mutations under the same identities.
template <typename Item>
bool MultiRun<Item>::isHopeless(void* multi_call) {
  const auto& call = *static_cast<MultiCall*>(multi_call);
  const auto& self = *static_cast<MultiRun*>(call.operation);
  const std::span<const MultiPart> run = std::span(self.scratch_->parts).subspan(call.first, call.count);
  return std::any_of(run.begin(), run.end(), [&self](const MultiPart& part) {
    const TabletFinder::Place place{.owner = &self.client_.finder_.cache().ownerOf(part.owner), .epoch = part.epoch};
    return self.client_.finder_.isElsewhere(TableId(self.items_[part.item].table.id), part.hash, place);
  });
}

template <typename Item>
void MultiRun<Item>::collect(MultiCall& call) {
  const std::span<MultiPart> run = std::span(scratch_->parts).subspan(call.first, call.count);
  const Status status = call.outcome();
  transport::RxMessage response = std::move(call.response);
  bool may_have_happened = call.status != Status::Ok && call.was_sent;
  if (call.status != Status::Ok)
    client_.finder_.noteUnanswered(client_.finder_.cache().ownerOf(run.front().owner), call.status);
  Status last = status;
  if (call.status == Status::Ok) {
    wire::ResponseHeader header{.status = Status::Ok};
    if (wire::decode(response.head(), header)) retry_after_us_ = std::max(retry_after_us_, header.retry_after_us);
  }
  if (status == Status::Ok) {
    bool is_valid = false;
    if constexpr (kIsMutation) {
      if (call.is_point) {
        const PointResult result = decodePoint(wire::Opcode::Write, std::move(response));
        is_valid = !result.is_unreadable;
        items_[run.front().item].status = result.status;
        items_[run.front().item].version = result.version;
      } else {
        is_valid = decodeMultiMutate(response, run, items_);
      }
    } else {
      is_valid = decodeMultiRead(response, run, items_);
    }
    if (is_valid) {
      for (MultiPart& part : run) {
        part.last = items_[part.item].status;
        part.may_have_happened |= part.last == Status::OutcomeUnknown;
      }
      return;
    }
    last = Status::Corrupt;
    may_have_happened = true;
  } else if (call.is_point && call.status == Status::Ok) {
    // A failed condition comes with the version.
    const PointResult result = decodePoint(wire::Opcode::Write, std::move(response));
    items_[run.front().item].version = result.version;
    last = result.status;
    may_have_happened = result.isUncertain();
  } else if (call.status == Status::Ok && status == Status::OutcomeUnknown) {
    may_have_happened = true;
  }
  for (MultiPart& part : run) {
    part.last = last;
    part.may_have_happened |= may_have_happened;
  }
}

template <typename Item>
size_t MultiRun<Item>::settle() {
  std::vector<MultiPart>& left = scratch_->left;
  left.clear();
  size_t settled = 0;
  bool lapsed = false;
  for (MultiPart& part : scratch_->parts) {
    Reaction reaction = reactionTo(part.last);
    // The status is the coordinator's, which was asked until it answered, or for as long as there was time.
    if (part.owner == kNowhere && reaction != Reaction::Wait) reaction = Reaction::Finish;
    if (reaction == Reaction::Finish) {
      finishPart(part);
      ++settled;
      continue;
    }
    lapsed |= reaction == Reaction::Relapse;
    part.is_stale = reaction == Reaction::Refresh;
    left.push_back(part);
  }
  scratch_->parts.swap(left);
  if (!scratch_->parts.empty()) since_ns_ = client_.pacer_.nowNs();
  if constexpr (kIsMutation) {
    if (lapsed) client_.lease_.lapse({.generation = generation_, .sequence = Sequence()});
  }
  return settled;
}

template <typename Item>
void MultiRun<Item>::finishPart(MultiPart& part) {
  Item& item = items_[part.item];
  item.status = finalStatus(part.last, kIsMutation, part.may_have_happened);
  if constexpr (kIsMutation) {
    if (item.status == Status::OutcomeUnknown) ++client_.stats_.outcomes_unknown;
    ClientLease::Ticket ticket{.generation = generation_, .sequence = part.sequence};
    if (part.sequence) client_.lease_.finish(ticket);
  }
}

template <typename Item>
void MultiRun<Item>::finishAll(Status last) {
  for (MultiPart& part : scratch_->parts) {
    part.last = last;
    finishPart(part);
  }
  scratch_->parts.clear();
}

template class MultiRun<ReadItem>;
template class MultiRun<MutateItem>;

}  // namespace ramcore::client
