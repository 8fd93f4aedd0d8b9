#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "transport/session/admission.h"
#include "transport/session/closed_sessions.h"
#include "transport/session/failed_sessions.h"
#include "transport/session/session_table.h"
#include "transport/session/warnings.h"
#include "transport/shm/ring_scan.h"
#include "transport/shm/shm_options.h"

namespace ramcore::transport::shm {

/// The life of the sessions of one endpoint: their table, their sockets in the thread's sleeper, and their ends. One
/// thread.
class ShmSessions {
 public:
  using Table = SessionTable<std::unique_ptr<Session>>;

  /// All borrowed; `owner` is the endpoint, to which sessions pass on the events of the sleeper.
  ShmSessions(ShmEndpoint& owner, const ShmOptions& options, const ShmContext& context, EpollSleeper& sleeper,
              RingScan& rings);
  ShmSessions(const ShmSessions&) = delete;
  ShmSessions& operator=(const ShmSessions&) = delete;
  /// Calls in flight are not completed.
  ~ShmSessions();

  Session* find(SessionId id) const { return table_.find(id); }
  Session* findOpen(SessionId id) const { return table_.findOpen(id); }
  const Table& table() const { return table_; }
  const Admission& admission() const { return admission_; }
  Warnings& warnings() { return warnings_; }
  uint64_t badCount() const { return bad_count_; }
  /// Counts a peer whose handshake makes no sense, or that may not connect at all.
  void noteBad() { ++bad_count_; }

  /// @param socket  none if connecting has failed already
  Session& add(Descriptor socket, bool is_accepted);
  /// Opens a session whose handshake has succeeded and that has its channel.
  void open(Session& session, MessageSink& sink);

  /// Completes the session's calls; the sink hears of it in report().
  void close(Session& session, Status reason);
  void closeMalformed(Session& session, std::string_view why);
  /// Does the same in the next round. For functions in which calls must not complete.
  void closeMalformedLater(const Session& session, std::string_view why) {
    failed_.add(session.id, std::string(why), true);
  }
  bool hasFailed() const { return !failed_.empty(); }
  void closeFailed();
  bool hasClosed() const { return !closed_.empty(); }
  void report(MessageSink& sink, OpenFailure& open_failure);

  /// Closes the pending sessions whose time is over.
  void checkPending(int64_t now_ns);
  int64_t nextPendingNs() const;
  /// Drops a pending session that was accepted, to make room for another one. If the new one were refused instead, a
  /// peer that opens connections and leaves them could shut out all others. Returns false if there is none.
  bool dropAccepted();

 private:
  void closeSocket(Session& session);

  ShmEndpoint& owner_;
  EpollSleeper& sleeper_;
  RingScan& rings_;
  Warnings warnings_;
  Table table_;
  Admission admission_;
  FailedSessions failed_;
  ClosedSessions<Session> closed_;
  uint64_t bad_count_ = 0;
};

}  // namespace ramcore::transport::shm
