#pragma once

#include <vector>

#include "transport/session/stalls.h"
#include "transport/tcp/tcp_memory.h"
#include "transport/tcp/tcp_sessions.h"

namespace ramcore::transport::tcp {

/// Writes what the sessions of one endpoint have to send, and deals with peers that do not read it. Runs inside the
/// sleep of the thread too, so it touches neither the sink nor a call. One thread.
class TcpWriter {
 public:
  /// All borrowed.
  TcpWriter(const TcpOptions& options, const TcpContext& context, TcpSessions& sessions, HotSessions& hot,
            SleeperRounds& rounds);

  /// Queues a message; flush() writes it.
  void send(TcpSession& session, const wire::FrameHeader& header, TxMessage message);
  void flush();
  bool hasUnflushed() const { return !dirty_.empty(); }
  /// To be called when the kernel takes no more bytes of the session for now: the sleeper tells when it does.
  void armWrite(TcpSession& session);
  /// To be called when the kernel takes bytes of the session again.
  void unblock(TcpSession& session);
  /// Sends a frame that tells the peer of the end, if the kernel takes it: the peer notices the end in any case.
  static void sayClose(TcpSession& session);

  /// Whether a session waits for its peer to read.
  bool hasBlocked() const { return !blocked_.empty(); }
  void checkBlocked(int64_t now_ns);
  int64_t nextBlockedNs() const;
  void considerStalled(LargestHolder<TcpSession>& largest, int64_t now_ns) const;
  const BorrowedCounts& borrowedCounts() const { return borrowed_counts_; }

 private:
  void write(TcpSession& session);
  void block(TcpSession& session);
  Stall stallOf(const TcpSession& session) const;
  /// False if the session needs no more watching.
  bool checkStall(TcpSession& session, int64_t now_ns);
  void dropUnread(TcpSession& session, uint64_t bytes);
  void makeDirty(TcpSession& session);

  const TcpOptions& options_;
  const TcpContext& context_;
  const StallLimits limits_;
  TcpSessions& sessions_;
  HotSessions& hot_;
  SleeperRounds& rounds_;
  std::vector<SessionId> dirty_;  // to be written by flush()
  std::vector<SessionId> flushing_;
  std::vector<SessionId> blocked_;  // the kernel takes no more for now
  BorrowedCounts borrowed_counts_;
};

}  // namespace ramcore::transport::tcp
