#include "transport/shm/shm_reader.h"

namespace ramcore::transport::shm {

uint32_t ShmReader::pollSession(Session& session, uint32_t message_max) {
  if (session.state != Session::State::Open) return 0;
  FrameReader& reader = session.channel->reader;
  if (!reader.refresh()) {
    sessions_.closeMalformed(session, kImpossiblePosition);
    return 0;
  }
  uint32_t delivered = 0;
  session.has_unread = false;
  for (bool is_going_on = true; is_going_on && session.state == Session::State::Open;) {
    if (delivered == message_max) {
      session.has_unread = true;
      break;
    }
    switch (reader.step(roomBytes(session))) {
      case FrameStep::Message:
        ++delivered;
        deliver(session, reader.header(), reader.takeMessage());
        break;
      case FrameStep::Close:
        sessions_.close(session, Status::Shutdown);
        break;
      case FrameStep::Bad:
        sessions_.closeMalformed(session, "a frame header that makes no sense");
        break;
      case FrameStep::NoRoom:
        // The session is looked at again in every round, and the thread stays awake.
        session.has_unread = true;
        is_short_of_memory_ = true;
        is_going_on = false;
        break;
      case FrameStep::Nothing:
        is_going_on = false;
        break;
    }
  }
  if (session.state != Session::State::Open) return delivered;
  if (reader.hasPart() && !session.reception.is_going_on) [[unlikely]]
    receptions_.note(session, context_.clock.nowNs());
  if (reader.giveBack()) session.channel->wakePeer(session.socket.get());
  if (session.peer_has_ended && !session.has_unread) closeEnded(session);
  return delivered;
}

void ShmReader::closeEnded(Session& session) {
  if (session.channel->reader.hasPart()) {
    return sessions_.closeMalformed(session, "it ended in the middle of a message");
  }
  sessions_.close(session, Status::SessionLost);
}

void ShmReader::deliver(Session& session, const wire::FrameHeader& header, RxMessage message) {
  if (header.kind == wire::FrameKind::Response) {
    // An answer that nobody waits for is a late one of an abandoned call.
    PendingCall* call = session.channel->calls.finish(header.slot, header.sequence);
    if (call != nullptr) call->complete(*call, Status::Ok, std::move(message));
    return;
  }
  if (!session.channel->requests.begin(header.slot, header.sequence)) {
    sessions_.closeMalformed(session, "two requests at once in one slot");
    return;
  }
  message.reply_to = ReplyTo{session.id, header.sequence, header.slot, header.response_bytes_max};
  message.priority = static_cast<runtime::Priority>(header.priority);
  requests_.push_back(std::move(message));
}

void ShmReader::handOver(MessageSink& sink) {
  if (requests_.empty()) return;
  sink.onRequests(requests_);
  requests_.clear();
}

// ---- memory

// Only clients have to wait: messages of the cluster's own processes may be what frees memory.
uint64_t ShmReader::roomBytes(const Session& session) const {
  if (!session.is_bounded) return UINT64_MAX;
  const uint64_t held_bytes = messages_.borrowedBytes() + writer_.queuedBytes();
  return held_bytes < options_.held_bytes_max ? options_.held_bytes_max - held_bytes : 0;
}

void ShmReader::checkReceptions(int64_t now_ns) {
  receptions_.check(
      sessions_.table(), now_ns, options_.stall_close_ns, [](const Session&) { return false; },
      [this](const Session& session) {
        sessions_.closeMalformedLater(session, "it does not send the rest of its message");
      });
}

void ShmReader::considerStalled(LargestHolder<Session>& largest, int64_t now_ns) const {
  receptions_.forEach(sessions_.table(), [&](Session& session) {
    if (!session.is_bounded || now_ns - session.reception.progress.sinceNs() < options_.stall_evict_ns) return;
    largest.consider(session, session.heldBytes());
  });
}

}  // namespace ramcore::transport::shm
