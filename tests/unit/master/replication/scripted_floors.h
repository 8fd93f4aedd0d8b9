#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "master/replication/floor_keeper.h"

namespace ramcore::master {

/// A coordinator that stores floors as the test tells it to.
class ScriptedFloors final : public FloorKeeper {
 public:
  using Floor = std::pair<SegmentId, uint64_t>;
  explicit ScriptedFloors(runtime::Executor& executor) : changed_(executor) {}
  runtime::Task<Status> raiseFloor(SegmentId segment, uint64_t replica_epoch) override {
    asked.emplace_back(segment, replica_epoch);
    if (on_ask) on_ask(segment, replica_epoch);
    while (holding) {
      [[maybe_unused]] const Status woken = co_await changed_.wait();
    }
    if (answer == Status::Ok) stored.emplace_back(segment, replica_epoch);
    co_return answer;
  }
  /// On the executor.
  void release() {
    holding = false;
    changed_.notifyAll();
  }

  bool holding = false;
  Status answer = Status::Ok;
  std::function<void(SegmentId, uint64_t)> on_ask;
  std::vector<Floor> asked;
  std::vector<Floor> stored;

 private:
  runtime::Signal changed_;
};

}  // namespace ramcore::master
