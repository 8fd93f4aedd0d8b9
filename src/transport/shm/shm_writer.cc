#include "transport/shm/shm_writer.h"

#include <algorithm>

namespace ramcore::transport::shm {

ShmWriter::ShmWriter(const ShmOptions& options, const ShmContext& context, ShmSessions& sessions, TimeoutRounds& rounds)
    : options_(options),
      context_(context),
      limits_{.copy_ns = options.stall_copy_ns,
              .close_ns = options.stall_close_ns,
              .borrowed_ns_max = options.borrowed_ns_max},
      sessions_(sessions),
      rounds_(rounds) {}

void ShmWriter::send(Session& session, const wire::FrameHeader& header, TxMessage message) {
  FrameWriter& writer = session.channel->writer;
  if (message->chunk_count != 0) message->borrowed_since_ns = context_.clock.nowNs();
  // The session is not closed here: its calls must not complete inside call().
  if (!writer.send(header, std::move(message))) sessions_.closeMalformedLater(session, kImpossiblePosition);
  if (!session.is_dirty) {
    session.is_dirty = true;
    dirty_.push_back(session.id);
  }
  if (!writer.isBlocked()) return;
  session.is_copied_out = false;
  if (!session.is_blocked) {
    session.is_blocked = true;
    session.peer_position = writer.peerPosition();
    session.sending.begin(context_.clock.nowNs(), session.peer_position);
    blocked_.push_back(session.id);
    rounds_.readClockSoon();
  }
}

void ShmWriter::flush() {
  for (const SessionId id : dirty_) {
    Session* session = sessions_.findOpen(id);
    if (session == nullptr) continue;
    session->is_dirty = false;
    publish(*session);
  }
  dirty_.clear();
}

void ShmWriter::publish(Session& session) {
  session.channel->writer.publish();
  session.channel->wakePeer(session.socket.get());
  session.channel->writer.prepareNext();
}

void ShmWriter::pumpBlocked() {
  size_t kept = 0;
  queued_bytes_ = 0;
  for (size_t i = 0; i < blocked_.size(); ++i) {
    Session* session = sessions_.findOpen(blocked_[i]);
    if (session == nullptr) continue;
    FrameWriter& writer = session->channel->writer;
    if (!writer.pump()) {
      sessions_.closeMalformedLater(*session, kImpossiblePosition);
      continue;
    }
    if (writer.peerPosition() != session->peer_position) {
      session->peer_position = writer.peerPosition();
      session->sending.note(context_.clock.nowNs(), session->peer_position);
      publish(*session);
    }
    queued_bytes_ += writer.queuedBytes();
    session->is_blocked = writer.isBlocked();
    if (session->is_blocked) blocked_[kept++] = blocked_[i];
  }
  blocked_.resize(kept);
}

// ---- peers that do not read

Stall ShmWriter::stallOf(const Session& session) {
  return {.progress_ns = session.sending.sinceNs(),
          .waits_since_ns = session.sending.sinceNs(),
          .oldest_borrowed_ns = session.channel->writer.oldestBorrowedNs(),
          .is_copied_out = session.is_copied_out};
}

void ShmWriter::checkBlocked(int64_t now_ns) {
  for (const SessionId id : blocked_) {
    if (Session* session = sessions_.findOpen(id)) checkStall(*session, now_ns);
  }
}

void ShmWriter::checkStall(Session& session, int64_t now_ns) {
  const StallStep step = nextStep(stallOf(session), limits_, now_ns);
  if (step == StallStep::Wait) return;
  if (step == StallStep::Close) return sessions_.closeMalformedLater(session, "it does not read its messages");
  const bool copies_all = step == StallStep::CopyAll;
  const auto copied = session.channel->writer.copyOutQueue(options_.stall_bytes_max,
                                                           copies_all ? now_ns : now_ns - options_.borrowed_ns_max);
  if (!copied) {
    ++borrowed_counts_.sessions_dropped;
    sessions_.closeMalformedLater(
        session, "it leaves too many answers unread to copy them out of the log, which they keep from being freed");
    return;
  }
  borrowed_counts_.messages_copied_out += *copied;
  if (copies_all) session.is_copied_out = true;
}

int64_t ShmWriter::nextBlockedNs() const {
  int64_t next_ns = runtime::kNever;
  for (const SessionId id : blocked_) {
    const Session* session = sessions_.findOpen(id);
    if (session != nullptr) next_ns = std::min(next_ns, nextStepNs(stallOf(*session), limits_));
  }
  return next_ns;
}

void ShmWriter::considerStalled(LargestHolder<Session>& largest, int64_t now_ns) const {
  for (const SessionId id : blocked_) {
    Session* session = sessions_.findOpen(id);
    if (session == nullptr || !session->is_bounded) continue;
    if (now_ns - session->sending.sinceNs() >= options_.stall_evict_ns)
      largest.consider(*session, session->heldBytes());
  }
}

}  // namespace ramcore::transport::shm
