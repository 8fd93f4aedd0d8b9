#pragma once

#include <coroutine>
#include <memory>
#include <vector>

#include "client/master_stub.h"
#include "rpc/caller.h"

namespace ramcore::client {

/// Awaitable that lasts until a number of calls have ended.
class CallGroup final : private runtime::Job {
 public:
  CallGroup() : Job([](Job& job) { static_cast<CallGroup&>(job).handle_.resume(); }) {}

  void setExecutor(runtime::Executor& executor) { executor_ = &executor; }
  void add() { ++pending_; }
  void ended() {
    if (--pending_ == 0) executor_->post(*this);
  }

  bool await_ready() const noexcept { return pending_ == 0; }
  void await_suspend(std::coroutine_handle<> handle) noexcept { handle_ = handle; }
  void await_resume() const noexcept {}

 private:
  runtime::Executor* executor_ = nullptr;
  size_t pending_ = 0;
  std::coroutine_handle<> handle_;
};

/// One request of a multi-operation: a run of its parts that one server owns.
struct MultiCall final : rpc::OutgoingCall {
  explicit MultiCall(CallGroup& call_group)
      : OutgoingCall([](OutgoingCall& call) { static_cast<MultiCall&>(call).group.ended(); }), group(call_group) {}

  CallGroup& group;
  uint32_t first = 0;  ///< of the parts
  uint32_t count = 0;
  bool is_point = false;      ///< one part too long for a multi-request, sent as a call of its own
  void* operation = nullptr;  ///< the MultiRun
};

/// Memory of one multi-operation, kept for the next one.
struct MultiScratch {
  std::vector<MultiPart> parts;
  std::vector<MultiPart> left;
  std::vector<std::unique_ptr<MultiCall>> calls;
  CallGroup group;
};

/// Hands scratch memory out, and keeps it for the next operation when it comes back. One thread.
class MultiScratchPool {
 public:
  std::unique_ptr<MultiScratch> take() {
    if (free_.empty()) return std::make_unique<MultiScratch>();
    std::unique_ptr<MultiScratch> scratch = std::move(free_.back());
    free_.pop_back();
    return scratch;
  }
  void giveBack(std::unique_ptr<MultiScratch> scratch) {
    constexpr size_t kKeptMax = 64;
    if (free_.size() < kKeptMax) free_.push_back(std::move(scratch));
  }

 private:
  std::vector<std::unique_ptr<MultiScratch>> free_;
};

}  // namespace ramcore::client
