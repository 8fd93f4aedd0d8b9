#pragma once

#include <vector>

#include "transport/session/stalls.h"
#include "transport/session/timeout_rounds.h"
#include "transport/shm/shm_sessions.h"

namespace ramcore::transport::shm {

/// Puts the messages of one endpoint's sessions into their rings, and deals with peers that do not read them. One
/// thread.
class ShmWriter {
 public:
  /// All borrowed.
  ShmWriter(const ShmOptions& options, const ShmContext& context, ShmSessions& sessions, TimeoutRounds& rounds);

  /// Puts a message into the ring, as far as there is room; flush() lets the peer see it.
  void send(Session& session, const wire::FrameHeader& header, TxMessage message);
  void flush();
  /// Writes messages that wait, as far as there is room.
  void pumpBlocked();

  /// Whether a session waits for room.
  bool hasBlocked() const { return !blocked_.empty(); }
  /// Bytes that wait for room, as of the last pumpBlocked().
  uint64_t queuedBytes() const { return queued_bytes_; }
  void checkBlocked(int64_t now_ns);
  int64_t nextBlockedNs() const;
  void considerStalled(LargestHolder<Session>& largest, int64_t now_ns) const;
  const BorrowedCounts& borrowedCounts() const { return borrowed_counts_; }

 private:
  static void publish(Session& session);
  static Stall stallOf(const Session& session);
  void checkStall(Session& session, int64_t now_ns);

  const ShmOptions& options_;
  const ShmContext& context_;
  const StallLimits limits_;
  ShmSessions& sessions_;
  TimeoutRounds& rounds_;
  std::vector<SessionId> dirty_;    // to be published by flush()
  std::vector<SessionId> blocked_;  // with messages that wait for room
  uint64_t queued_bytes_ = 0;
  BorrowedCounts borrowed_counts_;
};

}  // namespace ramcore::transport::shm
