#pragma once

#include <vector>

#include "transport/session/receptions.h"
#include "transport/session/stalls.h"
#include "transport/tcp/tcp_memory.h"
#include "transport/tcp/tcp_sessions.h"

namespace ramcore::transport::tcp {

/// Reads from the open sessions of one endpoint, and bounds how much of messages that are not whole it holds. One
/// thread.
class TcpReader {
 public:
  /// All borrowed.
  TcpReader(const TcpOptions& options, const TcpContext& context, TcpSessions& sessions, HotSessions& hot,
            SleeperRounds& rounds, TcpMemory& memory);

  /// Delivers at most `message_max` messages: answers to their calls, requests to handOver(). Returns how many.
  uint32_t read(TcpSession& session, uint32_t message_max);
  /// Gives the sink the requests that were found.
  void handOver(MessageSink& sink);

  /// Whether only the beginning of a message has come from some session.
  bool hasReceptions() const { return !receptions_.empty(); }
  void checkReceptions(int64_t now_ns);
  int64_t nextReceptionNs() const;
  void considerStalled(LargestHolder<TcpSession>& largest, int64_t now_ns) const;

 private:
  bool readSocket(TcpSession& session);
  uint32_t deliver(TcpSession& session, uint32_t message_max);
  void deliverMessage(TcpSession& session);
  bool mustWaitForMemory(const TcpSession& session);

  const TcpOptions& options_;
  const TcpContext& context_;
  TcpSessions& sessions_;
  HotSessions& hot_;
  SleeperRounds& rounds_;
  TcpMemory& memory_;
  Receptions<TcpSessions::Table> receptions_;
  std::vector<RxMessage> requests_;  // found in this round
};

}  // namespace ramcore::transport::tcp
