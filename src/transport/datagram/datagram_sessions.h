#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "transport/datagram/datagram_clock.h"
#include "transport/datagram/datagram_options.h"
#include "transport/datagram/session.h"
#include "transport/session/admission.h"
#include "transport/session/closed_sessions.h"
#include "transport/session/session_table.h"
#include "transport/session/warnings.h"

namespace ramcore::transport::datagram {

/// The sessions of one endpoint: their table, by ids, numbers and peers, and what the sink has to hear of their
/// beginnings and ends. Finding a session is inline: it lies on the way of each packet. One thread.
class DatagramSessions {
 public:
  /// All borrowed.
  DatagramSessions(const DatagramOptions& options, const DatagramContext& context, DatagramClock& clock);

  Session* find(SessionId id) const { return table_.find(id); }
  /// Returns nullptr if there is no such session, or if it is not open.
  Session* findOpen(SessionId id) const { return table_.findOpen(id); }
  /// The session that has our number `number`, or nullptr if there is none or it has ended.
  Session* findNumber(uint64_t number) const {
    Session* const session = table_.atIndex(number & kIndexMask);
    const bool is_it = session != nullptr && session->route.number == number && session->state != Session::State::Lost;
    return is_it ? session : nullptr;
  }
  /// The session that a peer has given this number, by setPeer(). Valid until the next change; nullptr: none.
  const SessionId* idOfPeer(const MacAddress& address, uint64_t peer_number) const;
  /// Calls visit(Session&) for each session in any state.
  template <typename Visit>
  void forEach(const Visit& visit) const {
    table_.forEach(visit);
  }
  /// Number of sessions in any state.
  size_t count() const { return table_.count(); }
  const Admission& admission() const { return admission_; }
  Warnings& warnings() { return warnings_; }
  uint64_t badCount() const { return bad_count_; }
  /// Counts a peer that sent something that makes no sense, or that may not connect at all.
  void noteBad() { ++bad_count_; }

  /// Adds a session in state Greeting, with a new number. Returns nullptr if there are `places` sessions already, in
  /// any state.
  Session* add(uint32_t places, bool is_accepted);
  /// To be called when the session's route names its peer: idOfPeer() finds the session from now on.
  void setPeer(const Session& session);
  /// Opens a session whose handshake has succeeded and that has its channel. The sink hears of it in announceOpened().
  void open(Session& session);
  /// Ends a session that has not ended yet: it is not found by number or peer any more. The caller drops its channel.
  /// The sink hears of it in report().
  void end(Session& session, Status reason);

  bool hasOpened() const { return !opened_.empty(); }
  bool hasClosed() const { return !closed_.empty(); }
  void announceOpened(MessageSink& sink);
  /// @param open_failure  the endpoint's: why the session did not open, while the sink hears of it
  void report(MessageSink& sink, OpenFailure& open_failure);

 private:
  /// The peer's address and its number of a session. Duplicates of the session's first packet find it by this key.
  using PeerKey = std::pair<MacAddress, uint64_t>;
  // The index of a session in its number; the rest is random.
  static constexpr uint64_t kIndexMask = 0xffff;

  SessionTable<std::unique_ptr<Session>> table_;
  runtime::Entropy& entropy_;
  DatagramClock& clock_;
  Warnings warnings_;
  Admission admission_;
  std::map<PeerKey, SessionId> by_peer_;
  std::vector<SessionId> opened_;  // to be announced
  ClosedSessions<Session> closed_;
  uint64_t bad_count_ = 0;
};

}  // namespace ramcore::transport::datagram
