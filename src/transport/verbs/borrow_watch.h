#pragma once

#include <utility>
#include <vector>

#include "transport/session/timeout_rounds.h"
#include "transport/verbs/verbs_sessions.h"

namespace ramcore::transport::verbs {

/// Watches the sessions of one endpoint that may hold borrowed bytes for long: messages that wait are copied in time,
/// and peers that take nothing of what is sent are given up. One thread.
class BorrowWatch {
 public:
  /// All borrowed.
  BorrowWatch(const VerbsOptions& options, VerbsSessions& sessions, TimeoutRounds& rounds)
      : options_(options), sessions_(sessions), rounds_(rounds) {}

  /// Watches an open session until nothing of it waits any more.
  void watch(Session& session) {
    if (std::exchange(session.is_watched, true)) return;
    watched_.push_back(session.id);
    rounds_.readClockWithin(kRoundsToFirstLook);
  }
  /// Whether no session is watched.
  bool empty() const { return watched_.empty(); }
  void check(int64_t now_ns);
  /// The time by which check() has to be called.
  int64_t nextNs() const;
  /// Bytes that wait copied out, in all sessions, as of the last check().
  uint64_t copiedOutBytes() const { return copied_out_bytes_; }
  const BorrowedCounts& counts() const { return counts_; }

 private:
  static constexpr uint32_t kRoundsToFirstLook = 256;

  static WaitingBytes waitingBytes(const Channel& channel, int64_t borrowed_by_ns);
  bool check(Session& session, int64_t now_ns);
  bool standsStill(Channel& channel, int64_t now_ns) const;

  const VerbsOptions& options_;
  VerbsSessions& sessions_;
  TimeoutRounds& rounds_;
  std::vector<SessionId> watched_;
  uint64_t copied_out_bytes_ = 0;
  BorrowedCounts counts_;
};

}  // namespace ramcore::transport::verbs
