#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace ramcore::cluster {

/// A real endpoint whose sessions a test can break from any thread, as a network or a killed peer would: the endpoint's
/// own thread closes one of them in its next poll. Counts the sessions too.
class BreakableEndpoint final : public transport::Endpoint, private transport::MessageSink {
 public:
  explicit BreakableEndpoint(std::unique_ptr<transport::Endpoint> inner) : inner_(std::move(inner)) {}

  /// Breaks one session soon, if there is one by then. Any thread.
  void breakOne(uint64_t random) { wanted_.store(random | 1, std::memory_order_relaxed); }
  uint64_t brokenCount() const { return broken_count_.load(std::memory_order_relaxed); }
  uint64_t openedCount() const { return opened_count_.load(std::memory_order_relaxed); }

  const transport::Limits& limits() const override { return inner_->limits(); }
  Outcome<transport::Locator> listen(const transport::Locator& where) override { return inner_->listen(where); }
  transport::SessionId connect(const transport::Locator& where, uint64_t expected_id, int64_t deadline_ns) override {
    return inner_->connect(where, expected_id, deadline_ns);
  }
  transport::TxMessage allocate(uint32_t head_bytes) override { return inner_->allocate(head_bytes); }
  Status call(transport::SessionId session, transport::TxMessage& request, const transport::CallOptions& options,
              transport::PendingCall& call) override {
    return inner_->call(session, request, options, call);
  }
  void abandon(transport::SessionId session, transport::PendingCall& call) override { inner_->abandon(session, call); }
  void reply(const transport::ReplyTo& to, transport::TxMessage response) override {
    inner_->reply(to, std::move(response));
  }
  uint32_t poll(transport::MessageSink& sink, uint32_t message_max) override {
    sink_ = &sink;
    const uint32_t count = inner_->poll(*this, message_max);
    sink_ = nullptr;
    if (wanted_.load(std::memory_order_relaxed) != 0) breakNow(wanted_.exchange(0, std::memory_order_relaxed));
    return count;
  }
  void flush() override { inner_->flush(); }
  bool prepareSleep() override { return inner_->prepareSleep(); }
  void awake() override { inner_->awake(); }
  const transport::Peer* peer(transport::SessionId session) const override { return inner_->peer(session); }
  void close(transport::SessionId session) override { inner_->close(session); }
  uint32_t sessionCount() const override { return inner_->sessionCount(); }
  uint64_t badSessionCount() const override { return inner_->badSessionCount(); }
  transport::BorrowedCounts borrowedCounts() const override { return inner_->borrowedCounts(); }

 private:
  void onRequests(std::span<transport::RxMessage> requests) override { sink_->onRequests(requests); }
  void onSessionOpen(transport::SessionId session) override {
    sessions_.push_back(session);
    opened_count_.fetch_add(1, std::memory_order_relaxed);
    sink_->onSessionOpen(session);
  }
  void onSessionLost(transport::SessionId session, Status reason) override {
    std::erase(sessions_, session);
    sink_->onSessionLost(session, reason);
  }
  void breakNow(uint64_t random) {
    if (sessions_.empty()) return;
    const transport::SessionId session = sessions_[random % sessions_.size()];
    std::erase(sessions_, session);
    broken_count_.fetch_add(1, std::memory_order_relaxed);
    inner_->close(session);
  }

  const std::unique_ptr<transport::Endpoint> inner_;
  transport::MessageSink* sink_ = nullptr;      // while it polls
  std::vector<transport::SessionId> sessions_;  // open ones
  std::atomic<uint64_t> wanted_{0};
  std::atomic<uint64_t> broken_count_{0};
  std::atomic<uint64_t> opened_count_{0};
};

}  // namespace ramcore::cluster
