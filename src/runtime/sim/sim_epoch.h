#pragma once

#include <cstdint>
#include <vector>

#include "runtime/epoch.h"

namespace ramcore::runtime {

/// Rcu of one simulated node: executors take the place of threads, and everything runs on the one thread of the
/// simulator. A grace period is over when every executor that was on line at its beginning has passed a quiescent
/// state, gone off line or unregistered since; `reclaim` only looks and never waits.
class SimRcu final : public Rcu {
 public:
  RcuReader registerThread() override;
  void unregisterThread(RcuReader reader) override;
  void quiescent(RcuReader reader) override;
  void offline(RcuReader reader) override;
  void online(RcuReader reader) override;

  /// The number of readers that the grace period in progress still waits for.
  uint32_t awaitedReaders() const;

 protected:
  void beginGracePeriod() override;
  bool finishGracePeriod() override { return awaitedReaders() == 0; }

 private:
  struct Reader {
    bool registered = false;
    bool online = false;
    bool awaited = false;  // the grace period in progress waits for it
  };
  Reader& at(RcuReader reader);

  std::vector<Reader> readers_;
};

}  // namespace ramcore::runtime
