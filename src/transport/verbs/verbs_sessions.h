#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/session/admission.h"
#include "transport/session/closed_sessions.h"
#include "transport/session/failed_sessions.h"
#include "transport/session/session_table.h"
#include "transport/session/warnings.h"
#include "transport/verbs/channels.h"
#include "transport/verbs/early_messages.h"
#include "transport/verbs/waiting_reads.h"

namespace ramcore::transport::verbs {

/// The life of the sessions of one endpoint: their table, their sockets in the thread's sleeper, and their ends. One
/// thread.
class VerbsSessions {
 public:
  using Table = SessionTable<std::unique_ptr<Session>>;

  /// What it works with. All borrowed.
  struct Parts {
    VerbsEndpoint& owner;  ///< to which sessions pass on the events of the sleeper
    const VerbsOptions& options;
    const VerbsContext& context;
    EpollSleeper& sleeper;
    Warnings& warnings;
    const VerbsQueues& queues;
    Channels& channels;
    EarlyMessages& early;
    WaitingReads& waiting_reads;
  };
  explicit VerbsSessions(const Parts& parts);
  VerbsSessions(const VerbsSessions&) = delete;
  VerbsSessions& operator=(const VerbsSessions&) = delete;
  /// Calls in flight are not completed. The channels go to Channels.
  ~VerbsSessions();

  Session* find(SessionId id) const { return table_.find(id); }
  Session* findOpen(SessionId id) const { return table_.findOpen(id); }
  const Table& table() const { return table_; }
  const Admission& admission() const { return admission_; }
  Warnings& warnings() { return parts_.warnings; }
  uint64_t badCount() const { return bad_count_; }
  /// Counts a peer whose handshake makes no sense.
  void noteBad() { ++bad_count_; }

  Session& add(bool is_accepted);
  /// To be called when the peer of a session in handshake is known. A session that was accepted from a client takes a
  /// client's place.
  void noteRole(Session& session, Role role);
  /// Opens a session whose handshake has succeeded and that has its channel.
  void open(Session& session, MessageSink& sink);
  void closeSocket(Session& session);

  /// Completes the session's calls; the sink hears of it in report().
  void close(Session& session, Status reason);
  void closeMalformed(Session& session, std::string_view why);
  /// Closes a session that our own connect() began and that cannot be opened.
  void failConnect(Session& session, const std::string& why, OpenFailure::Kind kind = OpenFailure::Kind::Unreachable);
  /// Closes the session in the next round. For functions in which calls must not complete.
  /// @param is_bad  the peer's bytes are to blame, not the network
  void closeLater(const Session& session, std::string why, bool is_bad) {
    failed_.add(session.id, std::move(why), is_bad);
  }
  bool hasFailed() const { return !failed_.empty(); }
  void closeFailed();

  /// To be called when the peer of an open session has gone. What has arrived from it still counts.
  void noteEnded(Session& session);
  bool hasEnded() const { return !ended_.empty(); }
  /// Closes those whose peers have gone, and of which all that had arrived has been taken.
  /// @param nothing_arrived  there was nothing more to be taken
  void closeEnded(bool nothing_arrived);

  bool hasClosed() const { return !closed_.empty(); }
  void report(MessageSink& sink, OpenFailure& open_failure);

  /// Closes the pending sessions whose time is over.
  void checkPending(int64_t now_ns);
  /// The time by which checkPending() has to be called.
  /// @param soon_ns  for look-ups, which have to be asked whether they are done
  int64_t nextPendingNs(int64_t soon_ns) const;
  /// Drops a pending session that was accepted, to make room for another one or for a connect of our own. If the new
  /// one were refused instead, a peer that opens connections and leaves them could shut out all others. Returns false
  /// if there is none.
  bool dropAccepted();

 private:
  const Parts parts_;
  Table table_;
  Admission admission_;
  FailedSessions failed_;
  std::vector<SessionId> ended_;  // whose peers have gone
  ClosedSessions<Session> closed_;
  uint64_t bad_count_ = 0;
};

}  // namespace ramcore::transport::verbs
