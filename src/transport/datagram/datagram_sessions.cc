#include "transport/datagram/datagram_sessions.h"

namespace ramcore::transport::datagram {

DatagramSessions::DatagramSessions(const DatagramOptions& options, const DatagramContext& context, DatagramClock& clock)
    : entropy_(context.entropy),
      clock_(clock),
      warnings_(context.clock, context.trace, "dpdk: "),
      admission_(options.sessions_max, options.greetings_max) {}

const SessionId* DatagramSessions::idOfPeer(const MacAddress& address, uint64_t peer_number) const {
  const auto found = by_peer_.find({address, peer_number});
  return found != by_peer_.end() ? &found->second : nullptr;
}

// Lost sessions keep their places until the sink has been told of them.
Session* DatagramSessions::add(uint32_t places, bool is_accepted) {
  if (table_.count() >= places) return nullptr;
  Session& session = *table_.add([](SessionId id) { return std::make_unique<Session>(id); });
  do {
    session.route.number = (entropy_.next() & ~kIndexMask) | session.id.index;
  } while ((session.route.number & ~kIndexMask) == 0);
  session.heard_ns = clock_.nowNs();
  session.is_accepted = is_accepted;
  admission_.begins(is_accepted);
  clock_.runTimeoutsNow();
  return &session;
}

void DatagramSessions::setPeer(const Session& session) {
  by_peer_[{session.route.address, session.route.peer_number}] = session.id;
}

void DatagramSessions::open(Session& session) {
  if (session.is_bounded) admission_.provesToBeClient();
  session.state = Session::State::Open;
  session.heard_ns = clock_.nowNs();
  session.expected_ns = clock_.nowNs();
  admission_.opens(session.is_accepted);
  clock_.runTimeoutsNow();
  opened_.push_back(session.id);
}

void DatagramSessions::end(Session& session, Status reason) {
  admission_.ends(session.state == Session::State::Open, session.is_accepted, session.is_bounded);
  session.state = Session::State::Lost;
  session.lost_reason = reason;
  closed_.add(session);
  // (A peer may have given two sessions the same number; the entry may be that of the other one.)
  const auto named = by_peer_.find({session.route.address, session.route.peer_number});
  if (named != by_peer_.end() && named->second == session.id) by_peer_.erase(named);
  session.greeting.reset();
}

void DatagramSessions::announceOpened(MessageSink& sink) {
  for (size_t i = 0; i < opened_.size(); ++i) {
    Session* const session = findOpen(opened_[i]);
    if (session == nullptr) continue;
    session->is_announced = true;
    sink.onSessionOpen(session->id);
  }
  opened_.clear();
}

// The sink may close other sessions meanwhile, which are then added behind in the list.
void DatagramSessions::report(MessageSink& sink, OpenFailure& open_failure) {
  closed_.report(sink, open_failure, [this](Session& session) { table_.remove(session.id); });
}

}  // namespace ramcore::transport::datagram
