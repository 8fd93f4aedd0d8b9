#pragma once

#include <atomic>
#include <vector>

#include "runtime/clock.h"
#include "transport/transport.h"

namespace ramcore::transport {

/// Is told what the kernel says of a descriptor.
class ReadinessListener {
 public:
  /// `events`: EPOLLIN and the like, what has happened since the last call. May run inside the sleep of the thread,
  /// where neither a sink nor a call may be touched. So an implementation only notes what is to be done.
  virtual void onReady(uint32_t events) = 0;

 protected:
  ~ReadinessListener() = default;
};

/// Sleeps in one epoll set that knows every descriptor of the thread's endpoints, so that a sleep is one system call
/// and tells at once what ended it.
///
/// Descriptors are registered once and edge-triggered: neither going to sleep nor waking up costs a call for each of
/// them. The price is that the set reports changes only. A listener has to remember that a descriptor may have more to
/// say until a look at it has found nothing. Then a later change is reported, even if it comes before the sleep.
///
/// There is no tick: without a deadline, activity or wake() the thread does not run at all.
class EpollSleeper : public Sleeper {
 public:
  /// Names a descriptor that is listened to.
  using Key = uint64_t;
  static constexpr Key kNoKey = 0;

  explicit EpollSleeper(runtime::Clock& clock);
  EpollSleeper(const EpollSleeper&) = delete;
  EpollSleeper& operator=(const EpollSleeper&) = delete;
  ~EpollSleeper() override;

  void sleep(int64_t deadline_ns) final;
  void wake() final;
  void watch(int fd) final;
  void forget(int fd) final;

  /// Tells `listener` of `events` on `fd` from now on, beginning with what is there already. Only on the sleeper's own
  /// thread, as all functions that do not say otherwise. Returns kNoKey if the kernel does not take the descriptor.
  Key listen(int fd, uint32_t events, ReadinessListener& listener);
  /// Changes the events that are told from now on. Events that are there already are told again.
  void listenTo(Key key, uint32_t events);
  /// Ends listen(); called before the descriptor is closed. The listener is told nothing more, not even of what was
  /// found already.
  void unlisten(Key key);

  /// Asks the kernel what has happened and tells the listeners; one system call. Returns how many descriptors had
  /// events.
  size_t poll() { return look(0); }
  /// How often the kernel was asked what has happened, asleep or not. If a thread that was kept from sleeping finds the
  /// same count as before, no listener was told of anything.
  uint64_t lookCount() const { return look_count_; }
  /// The next sleep ends at this time at the latest.
  void wakeBy(int64_t time_ns) { alarm_ns_ = alarm_ns_ < time_ns ? alarm_ns_ : time_ns; }
  /// Sleeps that ended, for metrics. Any thread.
  uint64_t sleepCount() const { return sleep_count_.load(std::memory_order_relaxed); }

 protected:
  /// For a library that insists on waiting in a reactor of its own: while hasGuest(), runGuest() does the waiting,
  /// until the guest or descriptor() has something (or not at all, if it must not block).
  virtual bool hasGuest() const { return false; }
  virtual void runGuest(bool may_block) { (void)may_block; }
  int descriptor() const { return epoll_; }

 private:
  enum class State : uint32_t { Awake, Asleep, Woken };
  struct Entry {
    ReadinessListener* listener = nullptr;  // nullptr: only ends sleeps
    int fd = -1;                            // -1: free
    uint32_t generation = 0;
  };

  size_t look(int timeout_ms);
  void waitUntil(int64_t deadline_ns);
  bool armTimer(int64_t deadline_ns);
  Key add(int fd, uint32_t events, ReadinessListener* listener);
  Entry* find(Key key);

  runtime::Clock& clock_;
  int epoll_;
  int wake_event_;
  int timer_;
  int64_t timer_deadline_ns_ = runtime::kNever;  // kNever: not set
  int64_t alarm_ns_ = runtime::kNever;
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_indices_;
  uint64_t look_count_ = 0;
  std::atomic<State> state_{State::Awake};
  std::atomic<uint64_t> sleep_count_{0};
};

}  // namespace ramcore::transport
