#include "transport/os/epoll_sleeper.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace ramcore::transport {
namespace {

// Keys of descriptors have a generation of at least 1 in their lower half, and never all bits set.
constexpr EpollSleeper::Key kWakeKey = UINT64_MAX;
constexpr EpollSleeper::Key kTimerKey = UINT64_MAX - 1;
constexpr size_t kEventsPerLook = 64;

bool addToSet(int epoll, int fd, uint32_t events, EpollSleeper::Key key) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

EpollSleeper::EpollSleeper(runtime::Clock& clock)
    : clock_(clock),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      timer_(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)) {
  // Because these two are edge-triggered, they are never read: each write and each expiry is a change of its own.
  const bool is_usable = epoll_ >= 0 && wake_event_ >= 0 && timer_ >= 0 &&
                         addToSet(epoll_, wake_event_, EPOLLIN | EPOLLET, kWakeKey) &&
                         addToSet(epoll_, timer_, EPOLLIN | EPOLLET, kTimerKey);
  RC_CHECK_MSG(is_usable, "no file descriptor left for the sleeper");
}

EpollSleeper::~EpollSleeper() {
  ::close(timer_);
  ::close(wake_event_);
  ::close(epoll_);
}

// The sleep itself is the last look: the set remembers a change that came after a listener last looked, and then the
// call does not wait.
void EpollSleeper::sleep(int64_t deadline_ns) {
  deadline_ns = std::min(deadline_ns, std::exchange(alarm_ns_, runtime::kNever));
  if (state_.exchange(State::Asleep, std::memory_order_seq_cst) != State::Woken) waitUntil(deadline_ns);
  // A wake-up that came after the sleep had ended is no loss: the thread looks at everything now.
  state_.store(State::Awake, std::memory_order_seq_cst);
  sleep_count_.fetch_add(1, std::memory_order_relaxed);
}

void EpollSleeper::wake() {
  if (state_.exchange(State::Woken, std::memory_order_seq_cst) != State::Asleep) return;
  const uint64_t one = 1;
  (void)!::write(wake_event_, &one, sizeof(one));
}

void EpollSleeper::waitUntil(int64_t deadline_ns) {
  // If only a timer has fired that was set for an earlier deadline, the sleep goes on.
  do {
    if (!armTimer(deadline_ns)) {
      look(0);
      return;
    }
  } while (look(-1) == 0);
}

// False if the deadline has passed. A timer that is set for an earlier time stays: to set it is a system call, and most
// sleeps end before their deadline.
bool EpollSleeper::armTimer(int64_t deadline_ns) {
  if (deadline_ns == runtime::kNever) return true;
  const int64_t now_ns = clock_.nowNs();
  if (now_ns >= deadline_ns) return false;
  if (timer_deadline_ns_ <= deadline_ns) return true;
  timer_deadline_ns_ = deadline_ns;
  const int64_t rest_ns = deadline_ns - now_ns;
  itimerspec when{};
  when.it_value.tv_sec = rest_ns / runtime::kNanosPerSecond;
  when.it_value.tv_nsec = rest_ns % runtime::kNanosPerSecond;
  RC_CHECK_MSG(::timerfd_settime(timer_, 0, &when, nullptr) == 0, "the sleeper's timer cannot be set");
  return true;
}

// Returns how many descriptors had events, the timer not counted. After a wait at least 1, unless the timer alone ended
// it.
size_t EpollSleeper::look(int timeout_ms) {
  ++look_count_;
  const bool may_block = timeout_ms != 0;
  size_t spoke = 0;
  if (hasGuest()) [[unlikely]] {
    runGuest(may_block);
    timeout_ms = 0;
    // The thread has to look at what the guest has done, whatever else is found.
    if (may_block) spoke = 1;
  }
  std::array<epoll_event, kEventsPerLook> events;
  const int found = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), timeout_ms);
  // If a signal or the guest ended the wait, the caller looks at everything.
  if (found <= 0) return may_block ? 1 : 0;
  for (int i = 0; i < found; ++i) {
    const Key key = events[static_cast<size_t>(i)].data.u64;
    if (key == kTimerKey) {
      timer_deadline_ns_ = runtime::kNever;
      continue;
    }
    ++spoke;
    if (key == kWakeKey) continue;
    // A listener that was told before may have ended the listening of this one.
    const Entry* entry = find(key);
    if (entry != nullptr && entry->listener != nullptr) entry->listener->onReady(events[static_cast<size_t>(i)].events);
  }
  return spoke;
}

// ---- descriptors

EpollSleeper::Entry* EpollSleeper::find(Key key) {
  const size_t index = key >> 32;
  if (index >= entries_.size()) return nullptr;
  Entry& entry = entries_[index];
  return entry.fd >= 0 && entry.generation == static_cast<uint32_t>(key) ? &entry : nullptr;
}

EpollSleeper::Key EpollSleeper::add(int fd, uint32_t events, ReadinessListener* listener) {
  auto index = static_cast<uint32_t>(entries_.size());
  if (!free_indices_.empty()) {
    index = free_indices_.back();
    free_indices_.pop_back();
  } else {
    entries_.emplace_back();
  }
  Entry& entry = entries_[index];
  if (++entry.generation == 0) entry.generation = 1;
  const Key key = Key{index} << 32 | entry.generation;
  if (!addToSet(epoll_, fd, events, key)) {
    free_indices_.push_back(index);
    return kNoKey;
  }
  entry.fd = fd;
  entry.listener = listener;
  return key;
}

EpollSleeper::Key EpollSleeper::listen(int fd, uint32_t events, ReadinessListener& listener) {
  return add(fd, events | EPOLLET, &listener);
}

void EpollSleeper::listenTo(Key key, uint32_t events) {
  const Entry* entry = find(key);
  if (entry == nullptr) return;
  epoll_event event{};
  event.events = events | EPOLLET;
  event.data.u64 = key;
  (void)::epoll_ctl(epoll_, EPOLL_CTL_MOD, entry->fd, &event);
}

void EpollSleeper::unlisten(Key key) {
  Entry* entry = find(key);
  if (entry == nullptr) return;
  (void)::epoll_ctl(epoll_, EPOLL_CTL_DEL, entry->fd, nullptr);
  entry->fd = -1;
  entry->listener = nullptr;
  free_indices_.push_back(static_cast<uint32_t>(key >> 32));
}

// Level-triggered, so that bytes that nobody has read yet end the next sleep too.
void EpollSleeper::watch(int fd) {
  RC_CHECK_MSG(add(fd, EPOLLIN, nullptr) != kNoKey, "a descriptor that cannot be watched, or is watched already");
}

void EpollSleeper::forget(int fd) {
  for (size_t index = 0; index < entries_.size(); ++index) {
    const Entry& entry = entries_[index];
    if (entry.fd == fd && entry.listener == nullptr) return unlisten(Key{index} << 32 | entry.generation);
  }
}

}  // namespace ramcore::transport
