#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transport/session/admission.h"
#include "transport/session/closed_sessions.h"
#include "transport/session/failed_sessions.h"
#include "transport/session/session_table.h"
#include "transport/session/warnings.h"
#include "transport/tcp/hot_sessions.h"
#include "transport/tcp/sleeper_rounds.h"
#include "transport/tcp/tcp_options.h"

namespace ramcore::transport::tcp {

/// The life of the sessions of one endpoint: their table, their sockets in the thread's sleeper, and their ends. One
/// thread.
class TcpSessions {
 public:
  using Pointer = std::shared_ptr<TcpSession>;
  using Table = SessionTable<Pointer>;

  /// All borrowed; `owner` is the endpoint, to which sessions pass on the events of the sleeper.
  TcpSessions(TcpEndpoint& owner, const TcpOptions& options, const TcpContext& context, HotSessions& hot,
              SleeperRounds& rounds);
  TcpSessions(const TcpSessions&) = delete;
  TcpSessions& operator=(const TcpSessions&) = delete;
  /// Calls in flight are not completed.
  ~TcpSessions();

  TcpSession* find(SessionId id) const { return table_.find(id); }
  TcpSession* findOpen(SessionId id) const { return table_.findOpen(id); }
  const Table& table() const { return table_; }
  Admission& admission() { return admission_; }
  const Admission& admission() const { return admission_; }
  Warnings& warnings() { return warnings_; }
  uint64_t badCount() const { return bad_count_; }
  /// Counts a peer whose handshake makes no sense, or does not prove what it has to prove.
  void noteBad() { ++bad_count_; }

  Pointer add(bool is_accepted);
  /// Gives the session its socket and adds that to the sleeper's own set. False: it cannot be watched.
  bool takeSocket(TcpSession& session, StreamSocket socket);
  /// Opens a session whose handshake has succeeded and that has its channel.
  void open(TcpSession& session, MessageSink& sink);

  /// Completes the session's calls; the sink hears of it in report().
  void close(TcpSession& session, Status reason);
  void closeMalformed(TcpSession& session, std::string_view why);
  /// Closes the session in the next round. For functions in which calls must not complete.
  void closeLater(TcpSession& session, std::string why) { failed_.add(session.id, std::move(why), false); }
  /// Closes a session that our own connect() began and that cannot be opened.
  void failConnect(TcpSession& session, const std::string& why,
                   OpenFailure::Kind kind = OpenFailure::Kind::Unreachable);
  bool hasFailed() const { return !failed_.empty(); }
  void closeFailed();
  bool hasClosed() const { return !closed_.empty(); }
  void report(MessageSink& sink, OpenFailure& open_failure);

  bool hasPending() const { return !pending_.empty(); }
  /// Closes the pending sessions whose time is over.
  /// @param attempt  void(const Pointer&): one that is connecting makes another attempt
  template <typename Attempt>
  void checkPending(int64_t now_ns, const Attempt& attempt) {
    size_t kept = 0;
    // Closing a session that is not open completes no calls, so the list does not change on the way.
    for (const SessionId id : pending_) {
      TcpSession* const session = find(id);
      if (session == nullptr || !session->isPending()) continue;
      if (now_ns >= session->deadline_ns) {
        closeOverdue(*session);
        continue;
      }
      pending_[kept++] = id;
      const bool is_connecting = session->state == TcpSession::State::Connecting;
      if (is_connecting && now_ns >= session->connecting.attempt_again_ns) attempt(table_.pointerTo(id));
    }
    pending_.resize(kept);
  }
  int64_t nextPendingNs() const;
  /// Drops a pending session that was accepted, to make room for another one or for a connect of our own. If the new
  /// one were refused instead, a peer that opens connections and leaves them could shut out all others. At least one
  /// such session is in its handshake (checked).
  void dropAccepted();

 private:
  void closeOverdue(TcpSession& session);
  void closeSocket(TcpSession& session);
  void letGo(TcpSession& session);

  TcpEndpoint& owner_;
  const TcpContext& context_;
  HotSessions& hot_;
  SleeperRounds& rounds_;
  Warnings warnings_;
  Table table_;
  Admission admission_;
  std::vector<SessionId> pending_;  // sessions that are not open yet have deadlines
  FailedSessions failed_;
  ClosedSessions<TcpSession> closed_;
  uint64_t bad_count_ = 0;
};

}  // namespace ramcore::transport::tcp
