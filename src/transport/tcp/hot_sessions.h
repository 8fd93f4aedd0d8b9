#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/tcp/tcp_session.h"

namespace ramcore::transport::tcp {

/// The sessions of an endpoint that are read in each round without asking the sleeper, because something came from them
/// lately. The last look at a session that cools down has found nothing, so the sleeper tells of what comes later. One
/// thread.
class HotSessions {
 public:
  bool empty() const { return sessions_.empty(); }

  /// Something may have come from the session, or will soon.
  void add(TcpSession& session) {
    session.misses = 0;
    const bool is_read = session.state == TcpSession::State::Open || session.state == TcpSession::State::Greeting;
    if (session.is_hot || !is_read) return;
    session.is_hot = true;
    sessions_.push_back(&session);
  }
  /// The session is destroyed.
  void remove(TcpSession& session) { std::erase(sessions_, &session); }
  /// A look at the session found nothing.
  void noteMiss(TcpSession& session) const { session.misses += miss_weight_; }

  /// Reads from each, until `message_max` messages were delivered; the next round goes on with the others.
  /// @param read  uint32_t(TcpSession&, uint32_t message_max): how many messages it has delivered. It may close
  ///              sessions and make others hot, which are read in the next round.
  template <typename Read>
  uint32_t readAll(uint32_t message_max, const Read& read) {
    uint32_t delivered = 0;
    const size_t count = sessions_.size();
    size_t at = first_ < count ? first_ : 0;
    for (size_t i = 0; i < count && delivered < message_max; ++i) {
      TcpSession& session = *sessions_[at];
      at = at + 1 == count ? 0 : at + 1;
      delivered += read(session, message_max - delivered);
    }
    first_ = at;
    miss_weight_ = delivered != 0 ? kMissWeightBusy : 1;
    const uint32_t misses_max = sessions_.size() > kSessionsMax ? 0 : kMissesMax;
    keepIf([misses_max](const TcpSession& session) {
      return session.state != TcpSession::State::Lost && session.misses <= misses_max;
    });
    return delivered;
  }

  /// Keeps those for which `must_stay`, bool(const TcpSession&), returns true.
  template <typename MustStay>
  void keepIf(const MustStay& must_stay) {
    size_t kept = 0;
    for (TcpSession* session : sessions_) {
      session->is_hot = must_stay(*session);
      if (session->is_hot) sessions_[kept++] = session;
    }
    sessions_.resize(kept);
  }

 private:
  // More sessions than this are not read without asking the sleeper: a look that finds nothing is a system call.
  static constexpr size_t kSessionsMax = 64;
  // A session cools down after kMissesMax looks that found nothing. While messages are delivered, such a look counts
  // kMissWeightBusy times, because it takes time from sessions that have messages.
  static constexpr uint32_t kMissesMax = 512;
  static constexpr uint32_t kMissWeightBusy = 16;

  std::vector<TcpSession*> sessions_;
  size_t first_ = 0;  // index of the first one to be read in the next round
  uint32_t miss_weight_ = 1;
};

}  // namespace ramcore::transport::tcp
