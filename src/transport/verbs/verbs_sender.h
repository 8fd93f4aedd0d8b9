#pragma once

#include <utility>
#include <vector>

#include "transport/verbs/borrow_watch.h"
#include "transport/verbs/verbs_sessions.h"

namespace ramcore::transport::verbs {

/// Gives the messages of one endpoint's sessions to their send queues, and posts them. One thread.
class VerbsSender {
 public:
  /// All borrowed.
  VerbsSender(HeadPool& heads, VerbsSessions& sessions, BorrowWatch& watch)
      : heads_(heads), sessions_(sessions), watch_(watch) {}

  /// Sends a message that fits a receive buffer of the peer; flush() posts it.
  void send(Session& session, const wire::VerbsHeader& header, TxMessage message) {
    session.channel->queue.send(header, std::move(message));
    markDirty(session);
  }
  /// Sends a control packet, which has a short body or none; flush() posts it.
  void sendControlPacket(Session& session, wire::VerbsHeader header, wire::VerbsKind kind, ByteSpan body);
  /// To be called when something waits in the session's send queue: flush() posts it.
  void markDirty(Session& session) {
    if (std::exchange(session.is_dirty, true)) return;
    dirty_.push_back(session.id);
  }
  /// Whether flush() has something to do.
  bool hasDirty() const { return !dirty_.empty(); }
  void flush();

 private:
  HeadPool& heads_;
  VerbsSessions& sessions_;
  BorrowWatch& watch_;
  std::vector<SessionId> dirty_;  // to be posted by flush()
  std::vector<SessionId> posting_;
};

}  // namespace ramcore::transport::verbs
