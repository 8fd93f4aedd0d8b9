#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "transport/verbs/session.h"

namespace ramcore::transport::verbs {

/// Messages of one endpoint that came before their sessions were open: a peer sends as soon as it has said on the
/// socket that it is ready, and the two take different ways. One thread.
class EarlyMessages {
 public:
  struct Message {
    SessionId session;
    std::vector<std::byte> bytes;  ///< with the header
  };

  /// Keeps a copy of what came for a session in state Greeting, whose queue pair is made.
  /// @return false: too many are kept for this session, or for all together
  [[nodiscard]] bool keep(Session& session, ByteSpan bytes) {
    if (session.early.size() > session.greeting->slotCount() || kept_count_ >= kKeptMax) return false;
    session.early.emplace_back(bytes.begin(), bytes.end());
    ++kept_count_;
    return true;
  }
  /// To be called when the session opens: take() gives its messages from now on.
  void open(Session& session) {
    kept_count_ -= session.early.size();
    for (std::vector<std::byte>& bytes : session.early) messages_.push_back({session.id, std::move(bytes)});
    session.early.clear();
  }
  /// To be called when the session ends before it opened: its messages are dropped.
  void forget(Session& session) {
    kept_count_ -= session.early.size();
    session.early.clear();
  }

  /// True if take() has nothing to give.
  bool empty() const { return messages_.empty(); }
  /// The next one; its session may have ended. REQUIRES: not empty().
  Message take() {
    Message message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }

 private:
  static constexpr size_t kKeptMax = 1024;

  std::deque<Message> messages_;  // of sessions that have just been opened
  size_t kept_count_ = 0;         // of sessions that are not open yet
};

}  // namespace ramcore::transport::verbs
