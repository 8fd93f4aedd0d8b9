#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace ramcore::transport {

/// The sessions of an endpoint that have ended, but are still in its table because the sink has not heard of the end
/// yet. One thread.
/// @tparam Session  has the members id, is_announced, lost_reason and open_failure
template <typename Session>
class ClosedSessions {
 public:
  void add(Session& session) { sessions_.push_back(&session); }
  bool empty() const { return sessions_.empty(); }

  /// Removes all of them. Before that the sink is told of the end of each session that it knows (is_announced). The
  /// sink may close other sessions, which are then reported as well.
  /// @param open_failure  of the endpoint: why the session did not open, while the sink hears of it
  /// @param remove        void(Session&): destroys the session
  template <typename Remove>
  void report(MessageSink& sink, OpenFailure& open_failure, const Remove& remove) {
    for (size_t i = 0; i < sessions_.size(); ++i) {
      Session& session = *sessions_[i];
      open_failure = std::move(session.open_failure);
      if (session.is_announced) sink.onSessionLost(session.id, session.lost_reason);
      remove(session);
    }
    sessions_.clear();
  }

 private:
  std::vector<Session*> sessions_;
};

}  // namespace ramcore::transport
