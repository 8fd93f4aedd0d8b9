#include "coordinator/state/change_history.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutation.h"
#include "coordinator/state/id_allocator.h"
#include "coordinator/state/stored_state.h"

namespace ramcore::coordinator {
namespace {

// More ids, and more epochs of one tablet, than a coordinator hands out between two copies of its state. Table ids have
// 32 bits, so fewer of them.
constexpr uint64_t kSkipped = uint64_t{1} << 32;
constexpr uint64_t kSkippedTables = uint64_t{1} << 20;
constexpr std::string_view kTables = "table";

}  // namespace

ChangeHistory::ChangeHistory(Journal& journal, uint64_t start) : journal_(journal), start_(start) {
  RC_CHECK(start != 0);
}

runtime::Task<Status> ChangeHistory::load() {
  Result<std::vector<KeyValue>> found = co_await journal_.readPrefix(std::string(kHistoryKey));
  if (!found.ok()) co_return found.error();
  for (const KeyValue& entry : *found) {
    if (entry.key == kHistoryKey && !decode(entry.value, stored_)) co_return journal_.corrupt(entry.key, kNonsense);
  }
  co_return Status::Ok;
}

runtime::Task<Status> ChangeHistory::begin() {
  StoredHistory next = stored_;
  for (auto last = next.starts.rbegin(); last != next.starts.rend(); ++last) {
    if (last->is_given_up) continue;
    last->last_change = journal_.store().changeNumber();
    break;
  }
  next.starts.push_back({.id = start_, .last_change = 0});
  if (next.starts.size() > kStartsMax) {
    next.last_forgotten_change = std::max(next.last_forgotten_change, next.starts.front().last_change);
    next.starts.erase(next.starts.begin());
  }
  co_return co_await store(std::move(next));
}

const StoredHistory::Start* ChangeHistory::find(uint64_t id) const {
  const auto found = std::find_if(stored_.starts.begin(), stored_.starts.end(),
                                  [&](const StoredHistory::Start& start) { return start.id == id; });
  return found == stored_.starts.end() ? nullptr : &*found;
}

// The first start that reached the number made the change: a start that made no change ends with the same number as the
// one before it.
ChangeRef ChangeHistory::latest() const {
  const uint64_t number = journal_.store().changeNumber();
  for (const StoredHistory::Start& start : stored_.starts) {
    if (!start.is_given_up && start.id != start_ && start.last_change >= number) return {start.id, number};
  }
  return {start_, number};
}

bool ChangeHistory::has(ChangeRef heard) const {
  if (!heard || RC_MUTATION("forget-the-change-number")) return true;
  const StoredHistory::Start* const start = find(heard.start);
  if (start == nullptr) return heard.number <= stored_.last_forgotten_change;
  return heard.number <= (start->id != start_ ? start->last_change : journal_.store().changeNumber());
}

// Stores the history itself. That is not a change with a number, because no server relies on it, unless it has to have
// a certain number.
runtime::Task<Status> ChangeHistory::store(StoredHistory next, uint64_t number_min) {
  Batch batch;
  batch.put(std::string(kHistoryKey), encode(next));
  batch.is_unnumbered = number_min == 0;
  batch.number_min = number_min;
  const Status stored = co_await journal_.commit(std::move(batch));
  if (stored == Status::Ok) stored_ = std::move(next);
  co_return stored;
}

// ---- what is missing

uint64_t ChangeHistory::missingNumber() const {
  uint64_t highest = 0;
  for (const ChangeRef missing : stored_.missing) highest = std::max(highest, missing.number);
  return highest;
}

bool ChangeHistory::noteMissing(ChangeRef missing) {
  const auto known = std::find_if(stored_.missing.begin(), stored_.missing.end(),
                                  [&](ChangeRef one) { return one.start == missing.start; });
  if (known != stored_.missing.end()) {
    if (known->number >= missing.number) return false;
    known->number = missing.number;
    return true;
  }
  if (stored_.missing.size() >= kMissingMax) return false;
  stored_.missing.push_back(missing);
  return true;
}

// More may be noted while this is stored.
runtime::Task<Status> ChangeHistory::storeMissing() {
  Batch batch;
  batch.put(std::string(kHistoryKey), encode(stored_));
  batch.is_unnumbered = true;
  co_return co_await journal_.commitAfterWork(std::move(batch));
}

std::string ChangeHistory::describeMissing() const {
  const bool knows_all = std::all_of(stored_.missing.begin(), stored_.missing.end(),
                                     [&](ChangeRef missing) { return find(missing.start) != nullptr; });
  return "this state of the cluster is an older copy: servers have heard of change " + std::to_string(missingNumber()) +
         (knows_all ? "" : ", made after a later start of a coordinator,") + " and the last one here is " +
         std::to_string(journal_.store().changeNumber());
}

// ---- going on without

runtime::Task<Status> ChangeHistory::giveUpMissing() {
  // The state that is given up may have handed out as many ids and epochs as it had changes, and more.
  const uint64_t own = journal_.store().changeNumber();
  const uint64_t named = missingNumber();
  const uint64_t step = kSkipped + (named > own ? named - own : 0);
  Status done = co_await skipIds(step);
  if (done == Status::Ok) done = co_await skipEpochs(step);
  if (done == Status::Ok) done = co_await endServers();
  if (done != Status::Ok) co_return done;
  StoredHistory next = stored_;
  for (const ChangeRef missing : next.missing) {
    const auto known = std::find_if(next.starts.begin(), next.starts.end(),
                                    [&](const StoredHistory::Start& start) { return start.id == missing.start; });
    // This state knows the start, but its later changes are in the state that is given up. has() counts all up to the
    // highest as known.
    if (known != next.starts.end()) {
      known->last_change = std::max(known->last_change, missing.number);
      known->is_given_up = true;
    } else {
      next.starts.insert(next.starts.begin(),
                         {.id = missing.start, .last_change = missing.number, .is_given_up = true});
    }
  }
  next.missing.clear();
  // Servers take the highest number for the latest change, so the next one has to be above all that were named.
  co_return co_await store(std::move(next), std::max(named, own) + 1);
}

runtime::Task<Status> ChangeHistory::commitAll(std::vector<KeyValue> changes) {
  for (size_t at = 0; at < changes.size();) {
    Batch batch;
    for (; at < changes.size() && batch.changes.size() < Batch::kChangesMax; ++at) {
      batch.put(std::move(changes[at].key), std::move(changes[at].value));
    }
    const Status stored = co_await journal_.commit(std::move(batch));
    if (stored != Status::Ok) co_return stored;
  }
  co_return Status::Ok;
}

runtime::Task<Status> ChangeHistory::skipIds(uint64_t step) {
  std::vector<KeyValue> skipped;
  for (const std::string_view kind : IdAllocator::kKinds) {
    // The state that is given up may have ids of a kind of which this state has none yet.
    IdAllocator ids(journal_, kind);
    const Status loaded = co_await ids.load();
    if (loaded != Status::Ok) co_return loaded;
    skipped.push_back({ids.key_, encodeAllocator(ids.reserved_until_ + (kind == kTables ? kSkippedTables : step))});
  }
  co_return co_await commitAll(std::move(skipped));
}

runtime::Task<Status> ChangeHistory::skipEpochs(uint64_t step) {
  Result<std::vector<KeyValue>> found = co_await journal_.readPrefix(std::string(kTabletPrefix));
  if (!found.ok()) co_return found.error();
  for (KeyValue& entry : *found) {
    Tablet tablet;
    if (!decode(entry.value, tablet)) co_return journal_.corrupt(entry.key, kNonsense);
    tablet.last_epoch.value += step;
    // The server that it was granted to is declared dead (endServers). In state Taking the epoch would have to be the
    // last one, which it is not any more.
    if (tablet.state == TabletState::Taking) tablet.state = TabletState::Normal;
    entry.value = encode(tablet);
  }
  co_return co_await commitAll(std::move(*found));
}

// Declares all servers dead: what they hold may come from the changes that are given up. They learn that they are dead,
// and begin anew with what their storage has.
runtime::Task<Status> ChangeHistory::endServers() {
  Result<std::vector<KeyValue>> found = co_await journal_.readPrefix(std::string(kServerPrefix));
  if (!found.ok()) co_return found.error();
  std::vector<KeyValue> ended;
  for (KeyValue& entry : *found) {
    Server server;
    if (!decode(entry.value, server)) co_return journal_.corrupt(entry.key, kNonsense);
    if (!server.alive) continue;
    server.alive = false;
    ended.push_back({std::move(entry.key), encode(server)});
  }
  co_return co_await commitAll(std::move(ended));
}

}  // namespace ramcore::coordinator
