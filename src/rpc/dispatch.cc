#include "rpc/dispatch.h"

#include <immintrin.h>

#include <algorithm>

#include "base/check.h"
#include "base/mutation.h"
#include "rpc/spin_gauge.h"

namespace ramcore::rpc {
namespace {

constexpr size_t kFiresPerRoundMax = 64;
// Rounds between two looks at the clock while nothing is found: 20 ns each time would double the cost of an idle round.
constexpr uint32_t kIdleRoundsPerClockRead = 16;
// Rounds between two yields while nothing is found, about 2 us: a yield takes 0.3 us, for which a request that comes
// meanwhile waits.
constexpr uint32_t kIdleRoundsPerYield = 64;
// Rounds between two looks at the endpoints' counts while the thread never sleeps.
constexpr uint32_t kRoundsPerPublication = 1024;

// Called between two rounds, after `idle_rounds` rounds that found nothing. False: the spin has been long enough.
bool spin(SpinGauge& gauge, runtime::Clock& clock, SpinGauge::Wait wait, uint32_t idle_rounds) {
  const bool is_crowded = gauge.isCrowded();
  // A pause takes as long as a round, and a request would wait for it. So the first rounds have none: the next request
  // is most likely to come then.
  if (!is_crowded && idle_rounds % kIdleRoundsPerClockRead != 0) {
    if (idle_rounds > kIdleRoundsPerYield) _mm_pause();
    return true;
  }
  const int64_t now_ns = clock.nowNs();
  if (!gauge.goesOn(wait, now_ns)) return false;
  if (is_crowded || idle_rounds % kIdleRoundsPerYield == 0) gauge.offerCore(now_ns);
  return true;
}

}  // namespace

Dispatch::Dispatch(runtime::Clock& clock, Trace& trace, transport::Sleeper& sleeper, const DispatchOptions& options)
    : clock_(clock), trace_(trace), sleeper_(sleeper), options_(options), requests_(*this, clock, options.hand_off) {}

Dispatch::~Dispatch() { RC_CHECK_MSG(!hasRequests(), "the dispatch was destroyed while handlers were running"); }

void Dispatch::addEndpoint(transport::Endpoint& endpoint) {
  endpoints_.push_back(&endpoint);
  polled_.push_back(std::make_unique<PolledEndpoint>(endpoint, options_.burst_messages_max));
}

void Dispatch::post(runtime::Job& job, runtime::Priority priority) {
  if (isCurrent()) {
    queues_.push(job, priority);
    return;
  }
  inboxes_[static_cast<size_t>(priority)].push(job);
  // The inbox push and this load are sequentially consistent, as are the store of asleep_ and the look at the inboxes
  // in prepareSleep: one of the two sides sees the other.
  if (asleep_.load(std::memory_order_seq_cst)) sleeper_.wake();
}

bool Dispatch::step(bool reads_clock) {
  running_thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  if (!started_) {
    started_ = true;
    if (hooks_.on_start != nullptr) hooks_.on_start(hooks_.context);
  }
  bool found = false;
  found_requests_ = false;
  for (const std::unique_ptr<PolledEndpoint>& polled : polled_) {
    polling_ = polled.get();
    found |= polling_->poll(*this) != 0;
  }
  polling_ = nullptr;
  if ((reads_clock || found_requests_) && timers_.earliestNs() != runtime::kNever) {
    const int64_t now_ns = found_requests_ ? requests_.answers().handlingNs() : clock_.nowNs();
    found |= timers_.fireDue(now_ns, kFiresPerRoundMax) != 0;
  }
  found |= runJobs() != 0;
  // After everything that sends in this round, so that it goes out together, and before the thread may go to sleep.
  for (transport::Endpoint* endpoint : endpoints_) endpoint->flush();
  requests_.answers().count();
  if (++rounds_ % kRoundsPerPublication == 0) publishCounts();
  if (hooks_.after_round != nullptr) hooks_.after_round(hooks_.context);
  running_thread_.store(std::thread::id{}, std::memory_order_relaxed);
  return found;
}

uint32_t Dispatch::runJobs() {
  for (size_t i = 0; i < inboxes_.size(); ++i) queues_.takeInbox(inboxes_[i], static_cast<runtime::Priority>(i));
  uint32_t count = 0;
  // A round ends with its first background job. Such a job may post itself again, and a request is to wait for one of
  // them at most.
  runtime::Priority priority{};
  while (count < options_.jobs_per_round_max &&
         (priority != runtime::Priority::Background || RC_MUTATION("background-without-a-pause"))) {
    runtime::Job* job = queues_.pop(priority);
    if (job == nullptr) break;
    job->run(*job);
    ++count;
  }
  return count;
}

void Dispatch::publishCounts() {
  for (const std::unique_ptr<PolledEndpoint>& polled : polled_) polled->publishCounts();
}

bool Dispatch::inboxesEmpty() const {
  return std::all_of(inboxes_.begin(), inboxes_.end(), [](const runtime::JobInbox& inbox) { return inbox.empty(); });
}

bool Dispatch::prepareSleep() {
  // Set before the look at the inboxes: otherwise a job that comes in between would not wake this thread, see post().
  asleep_.store(true, std::memory_order_seq_cst);
  bool quiet = queues_.empty() && inboxesEmpty() && !stopping();
  for (transport::Endpoint* endpoint : endpoints_) quiet = quiet && endpoint->prepareSleep();
  if (!quiet) {
    asleep_.store(false, std::memory_order_relaxed);
    for (transport::Endpoint* endpoint : endpoints_) endpoint->awake();
    return false;
  }
  publishCounts();
  if (hooks_.before_sleep != nullptr) hooks_.before_sleep(hooks_.context);
  return true;
}

void Dispatch::awake() {
  bump(wakeups_);
  asleep_.store(false, std::memory_order_relaxed);
  for (transport::Endpoint* endpoint : endpoints_) endpoint->awake();
  if (hooks_.after_sleep != nullptr) hooks_.after_sleep(hooks_.context);
}

void Dispatch::run() {
  SpinGauge gauge(clock_, options_.spin_ns_max);
  uint32_t idle_rounds = 0;
  while (!stopping()) {
    const bool found = step(idle_rounds % kIdleRoundsPerClockRead == 0);
    if (options_.poll_always) {
      if (found) continue;
      ++idle_rounds;
      _mm_pause();
      continue;
    }
    if (found) {
      gauge.found();
      idle_rounds = 0;
    }
    // A thread that is not going to spin makes no further round: prepareSleep() looks at everything once more, and
    // costs less than a round, which reads from each socket that had something lately.
    const auto wait = hasRequests() ? SpinGauge::Wait::Answers : SpinGauge::Wait::Requests;
    if (gauge.expectsSoon(wait) && (found || spin(gauge, clock_, wait, ++idle_rounds))) continue;
    idle_rounds = 0;
    if (prepareSleep()) {
      gauge.sleeps(wait);
      sleeper_.sleep(earliestNs());
      awake();
    }
  }
  finished();
}

void Dispatch::finished() {
  if (started_ && hooks_.on_stop != nullptr) hooks_.on_stop(hooks_.context);
  started_ = false;
}

void Dispatch::stop() {
  stop_.store(true, std::memory_order_seq_cst);
  sleeper_.wake();
}

// ---- what endpoints tell while they are polled

void Dispatch::onRequests(std::span<transport::RxMessage> requests) {
  found_requests_ = true;
  requests_.take(*polling_, requests);
}

void Dispatch::onSessionOpen(transport::SessionId session) {
  polling_->noteOpened(session);
  if (observer_ != nullptr) observer_->onSessionOpen(polling_->endpoint(), session);
}

void Dispatch::onSessionLost(transport::SessionId session, Status reason) {
  polling_->noteLost(session);
  if (observer_ != nullptr) observer_->onSessionLost(polling_->endpoint(), session, reason);
}

}  // namespace ramcore::rpc
