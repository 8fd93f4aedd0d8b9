#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "runtime/clock.h"
#include "transport/message.h"
#include "transport/session/progress.h"

namespace ramcore::transport {

/// The sessions of an endpoint from which only the beginning of a message has come, so that those which do not send the
/// rest are found. One thread.
/// @tparam Table  a SessionTable; a session has a Reception `reception` and a `channel` with a `reader`
template <typename Table>
class Receptions {
 public:
  using Session = typename Table::Session;

  bool empty() const { return sessions_.empty(); }

  /// To be called when the session's reader has the beginning of a message.
  void note(Session& session, int64_t now_ns) {
    if (session.reception.is_going_on) return;
    session.reception.is_going_on = true;
    begin(session, now_ns);
    sessions_.push_back(session.id);
  }

  /// Looks at all of them, and forgets those from which the rest has come.
  /// @param patience_ns  how long a peer may make no progress
  /// @param is_paused    bool(Session&): nothing is read from it now, so it cannot make progress
  /// @param on_overdue   void(Session&): must not close the session at once
  template <typename IsPaused, typename OnOverdue>
  void check(const Table& table, int64_t now_ns, int64_t patience_ns, const IsPaused& is_paused,
             const OnOverdue& on_overdue) {
    size_t kept = 0;
    for (const SessionId id : sessions_) {
      Session* const session = table.findOpen(id);
      if (session == nullptr) continue;
      const auto& reader = session->channel->reader;
      Reception& reception = session->reception;
      reception.is_going_on = reader.hasPart();
      if (!reception.is_going_on) continue;
      sessions_[kept++] = id;
      if (reception.message_count != reader.messageCount() || is_paused(*session)) begin(*session, now_ns);
      reception.progress.note(now_ns, reader.receivedBytes());
      if (now_ns - reception.progress.sinceNs() >= patience_ns) on_overdue(*session);
    }
    sessions_.resize(kept);
  }

  /// Calls visit(Session&) for each of them that is open.
  template <typename Visit>
  void forEach(const Table& table, const Visit& visit) const {
    for (const SessionId id : sessions_) {
      if (Session* const session = table.findOpen(id); session != nullptr) visit(*session);
    }
  }
  /// The time by which check() has to be called; kNever if nothing is going on.
  int64_t nextNs(const Table& table, int64_t patience_ns) const {
    int64_t next_ns = runtime::kNever;
    forEach(table, [&](const Session& session) {
      next_ns = std::min(next_ns, session.reception.progress.sinceNs() + patience_ns);
    });
    return next_ns;
  }

 private:
  static void begin(Session& session, int64_t now_ns) {
    const auto& reader = session.channel->reader;
    session.reception.message_count = reader.messageCount();
    session.reception.progress.begin(now_ns, reader.receivedBytes());
  }

  std::vector<SessionId> sessions_;
};

}  // namespace ramcore::transport
