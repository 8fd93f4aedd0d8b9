#include "client/tablet_finder.h"

#include <algorithm>

#include "base/mutation.h"

namespace ramcore::client {

using runtime::Task;

namespace {

// A question in the background ends after this time, and the next one may be asked.
constexpr int64_t kInquiryNs = 2 * runtime::kNanosPerSecond;
// After this time without a question the growing pauses begin anew: older answers do not say how often to ask.
constexpr int64_t kPaceMemoryNs = 1 * runtime::kNanosPerSecond;
// The pause is at least this many times as long as the answer took, up to kPauseNsMax.
constexpr int64_t kPausesPerAnswer = 10;
// Half a second, less what a clock that is a few percent slow, the next look and the round trip add to a pause.
constexpr int64_t kPauseNsMax = 450 * runtime::kNanosPerMilli;

}  // namespace

TabletFinder::Refresh& TabletFinder::refreshOf(TableId table) {
  std::unique_ptr<Refresh>& entry = refreshes_[table];
  if (entry == nullptr) entry = std::make_unique<Refresh>(pacer_.executor(), paceOfQuestions());
  return *entry;
}

Task<Status> TabletFinder::refresh(TableId table, int64_t since_ns, int64_t deadline_ns) {
  Refresh& refresh = refreshOf(table);
  while (refresh.is_running) {
    const Status status = co_await refresh.done.wait(deadline_ns);
    if (status != Status::Ok) co_return status;
  }
  if (refresh.started_ns >= since_ns) co_return refresh.outcome;

  refresh.is_running = true;
  if (pacer_.nowNs() < refresh.allowed_ns) {
    [[maybe_unused]] const Status woken = co_await pacer_.pauseUntil(std::min(refresh.allowed_ns, deadline_ns));
    if (pacer_.nowNs() < refresh.allowed_ns) {
      refresh.is_running = false;
      refresh.done.notifyAll();
      co_return pacer_.stopped() ? Status::Shutdown : Status::DeadlineExceeded;
    }
  }
  refresh.started_ns = pacer_.nowNs();
  if (refresh.asked_ns < refresh.started_ns - kPaceMemoryNs) refresh.pace = Backoff(paceOfQuestions());
  refresh.asked_ns = refresh.started_ns;
  ++stats_.refreshes;
  const auto map = co_await coordinator_.tabletsOf(table, deadline_ns);
  bool has_changed = false;
  if (map) {
    has_changed = cache_.replace(*map);
  } else if (map.status() == Status::NoSuchTable) {
    cache_.forget(table);
    has_changed = true;
  }
  notePace(refresh, has_changed);
  refresh.outcome = map.status();
  // A failure is no answer for the other calls: perhaps only the time of this one was over.
  if (!map && map.status() != Status::NoSuchTable) refresh.started_ns = INT64_MIN;
  refresh.is_running = false;
  refresh.done.notifyAll();
  co_return map.status();
}

// While a dead server is recovered thousands of clients ask. Each asks the less often the longer nothing changes, and
// the longer the coordinator takes to answer. So together they leave the coordinator most of its time.
void TabletFinder::notePace(Refresh& refresh, bool has_changed) {
  if (has_changed) refresh.pace = Backoff(paceOfQuestions());
  const int64_t now_ns = pacer_.nowNs();
  const int64_t took_ns = now_ns - refresh.started_ns;
  const int64_t pause_ns = has_changed ? 0 : refresh.pace.nextNs(0, random_);
  refresh.allowed_ns = std::max(addNs(refresh.started_ns, settings_.first_pause_ns),
                                now_ns + std::max(pause_ns, std::min(kPausesPerAnswer * took_ns, kPauseNsMax)));
}

bool TabletFinder::isElsewhere(TableId table, KeyHash hash, const Place& place) {
  const TabletCache::Entry* entry = cache_.find(table, hash);
  if (entry == nullptr || entry->owner != place.owner || entry->epoch != place.epoch) return true;
  inquire(table);
  return false;
}

void TabletFinder::inquire(TableId table) {
  Refresh& refresh = refreshOf(table);
  if (refresh.is_inquiring || refresh.is_running || pacer_.stopped()) return;
  if (pacer_.nowNs() < refresh.allowed_ns) return;
  refresh.is_inquiring = true;
  inquireOnce(table).detach();
}

Task<void> TabletFinder::inquireOnce(TableId table) {
  ++inquiries_;
  // isElsewhere() is called while a Connection walks its list of calls (Connection::look). The question must not start
  // a call in there, so it begins with the next job.
  co_await runtime::resumeOn(pacer_.executor());
  const int64_t now_ns = pacer_.nowNs();
  [[maybe_unused]] const Status status = co_await refresh(table, now_ns, addNs(now_ns, kInquiryNs));
  refreshOf(table).is_inquiring = false;
  --inquiries_;
}

void TabletFinder::noteUnanswered(TabletCache::Owner& owner, Status status) {
  stats_.abandoned += status == Status::RetryLater ? 1 : 0;
  if (status != Status::DeadlineExceeded || RC_MUTATION("trust-the-cache-after-a-deadline")) return;
  owner.is_doubtful = true;
}

bool TabletFinder::Attempt::isHopeless(void* attempt) {
  auto& self = *static_cast<Attempt*>(attempt);
  return self.finder.isElsewhere(self.table, self.hash, self.place);
}

rpc::CallSettings TabletFinder::Attempt::settings(int64_t deadline_ns) {
  const bool is_doubted = place.owner->is_doubtful;
  if (is_doubted) finder.inquire(table);
  return {.deadline_ns = deadline_ns, .is_hopeless = &Attempt::isHopeless, .context = this, .is_doubted = is_doubted};
}

Task<Result<TabletFinder::Place>> TabletFinder::locate(TableId table, KeyHash hash, bool is_stale, int64_t since_ns,
                                                       int64_t deadline_ns) {
  const TabletCache::Entry* entry = cache_.find(table, hash);
  if (is_stale || entry == nullptr || entry->owner == nullptr) {
    const Status status = co_await refresh(table, since_ns, deadline_ns);
    if (status != Status::Ok) co_return status;
    entry = cache_.find(table, hash);
    if (entry == nullptr || entry->owner == nullptr) co_return Status::RetryLater;
  }
  co_return Place{.owner = entry->owner, .epoch = entry->epoch};
}

}  // namespace ramcore::client
