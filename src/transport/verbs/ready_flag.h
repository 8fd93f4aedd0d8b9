#pragma once

#include <sys/epoll.h>

#include "transport/os/epoll_sleeper.h"
#include "transport/session/timeout_rounds.h"

namespace ramcore::transport::verbs {

/// A descriptor that the sleeper tells of when it can be read; then the timeouts run. The owner declares it behind the
/// descriptor, so that the sleeper forgets the descriptor before that is closed. One thread.
class ReadyFlag final : private ReadinessListener {
 public:
  /// Both borrowed.
  ReadyFlag(EpollSleeper& sleeper, TimeoutRounds& rounds) : sleeper_(sleeper), rounds_(rounds) {}
  ReadyFlag(const ReadyFlag&) = delete;
  ReadyFlag& operator=(const ReadyFlag&) = delete;
  ~ReadyFlag() { sleeper_.unlisten(key_); }

  /// To be called once. Returns false if the kernel does not take the descriptor, which is borrowed.
  [[nodiscard]] bool listenTo(int fd) {
    key_ = sleeper_.listen(fd, EPOLLIN, *this);
    return key_ != EpollSleeper::kNoKey;
  }
  /// Whether there may be something to read: the sleeper has told of it, and no look has found nothing since.
  bool isReady() const { return is_ready_; }
  /// To be called when a look has found nothing, or before a look if the sleeper tells again of what that leaves.
  void clear() { is_ready_ = false; }

 private:
  void onReady(uint32_t) override {
    is_ready_ = true;
    rounds_.call();
  }

  EpollSleeper& sleeper_;
  TimeoutRounds& rounds_;
  EpollSleeper::Key key_ = EpollSleeper::kNoKey;
  bool is_ready_ = false;
};

}  // namespace ramcore::transport::verbs
