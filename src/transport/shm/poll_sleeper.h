#pragma once

#include <vector>

#include "runtime/clock.h"
#include "transport/shm/descriptor.h"
#include "transport/transport.h"

namespace ramcore::transport::shm {

/// Sleeps in poll(2), for a thread that has shared-memory endpoints only.
class PollSleeper final : public Sleeper {
 public:
  explicit PollSleeper(runtime::Clock& clock);

  void sleep(int64_t deadline_ns) override;
  void wake() override;
  void watch(int fd) override;
  void forget(int fd) override;

 private:
  runtime::Clock& clock_;
  Descriptor wake_event_;
  std::vector<int> watched_;
};

}  // namespace ramcore::transport::shm
