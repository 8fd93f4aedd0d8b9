#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ramcore::transport {

/// A session in handshake: an accepted connection whose peer has not yet proven its identity.
struct PendingSession {
  std::string source;       ///< the host or process that it comes from
  int64_t deadline_ns = 0;  ///< end of its handshake; all have the same time for it, so the least one is the oldest
  bool is_silent = false;   ///< nothing has come from it yet
};

/// Chooses the pending session that is dropped when there is no room for another one; returns its index. It is one of
/// the source with the most pending sessions, a silent one before one that has said something, and then the oldest. So
/// a source that opens connections and leaves them pushes out its own ones, and an honest peer needs a few round trips
/// only. `pending` has at least one element (checked).
size_t chooseWhoLeaves(std::span<const PendingSession> pending);

/// The pending sessions of an endpoint, to choose one of them by chooseWhoLeaves().
template <typename Session>
class PendingChoice {
 public:
  void add(Session& session, PendingSession description) {
    sessions_.push_back(&session);
    descriptions_.push_back(std::move(description));
  }
  /// Returns nullptr if none was added.
  Session* whoLeaves() const { return sessions_.empty() ? nullptr : sessions_[chooseWhoLeaves(descriptions_)]; }

 private:
  std::vector<Session*> sessions_;
  std::vector<PendingSession> descriptions_;
};

}  // namespace ramcore::transport
