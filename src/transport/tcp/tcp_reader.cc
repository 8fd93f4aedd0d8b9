#include "transport/tcp/tcp_reader.h"

namespace ramcore::transport::tcp {

TcpReader::TcpReader(const TcpOptions& options, const TcpContext& context, TcpSessions& sessions, HotSessions& hot,
                     SleeperRounds& rounds, TcpMemory& memory)
    : options_(options), context_(context), sessions_(sessions), hot_(hot), rounds_(rounds), memory_(memory) {}

uint32_t TcpReader::read(TcpSession& session, uint32_t message_max) {
  if (session.isReadPaused(options_.unsent_bytes_max)) return 0;
  if (!session.has_unread) {
    // The session is looked at again in every round, and keeps the thread awake.
    if (mustWaitForMemory(session)) return 0;
    if (!readSocket(session)) {
      hot_.noteMiss(session);
      return 0;
    }
  }
  session.misses = 0;
  const uint32_t delivered = deliver(session, message_max);
  if (session.state == TcpSession::State::Open && !session.has_unread && session.channel->reader.hasPart() &&
      !session.reception.is_going_on) {
    receptions_.note(session, context_.clock.nowNs());
  }
  return delivered;
}

// True if something came.
bool TcpReader::readSocket(TcpSession& session) {
  FrameReader& reader = session.channel->reader;
  const MutableByteSpan room = reader.room();
  Error error;
  const size_t bytes = session.socket.readSome(room, error);
  reader.received(static_cast<uint32_t>(bytes));
  if (!error) {
    // A read that leaves room has taken all there was, and the sleeper tells of what comes later. Only the end of the
    // stream may have been told already (has_ended).
    session.is_drained = bytes < room.size() && !session.has_ended;
    return true;
  }
  if (error == asio::error::would_block || error == asio::error::try_again) {
    session.is_drained = true;
    return false;
  }
  if (error == asio::error::interrupted) return false;
  if (error == asio::error::eof && reader.hasPart()) {
    sessions_.closeMalformed(session, "it ended in the middle of a message");
    return false;
  }
  context_.trace.debug("tcp: lost " + session.peer.address + ": " + error.message());
  sessions_.close(session, Status::SessionLost);
  return false;
}

uint32_t TcpReader::deliver(TcpSession& session, uint32_t message_max) {
  uint32_t delivered = 0;
  session.has_unread = true;
  while (session.state == TcpSession::State::Open && delivered < message_max) {
    switch (session.channel->reader.step()) {
      case FrameStep::Message:
        ++delivered;
        deliverMessage(session);
        break;
      case FrameStep::Close:
        sessions_.close(session, Status::Shutdown);
        break;
      case FrameStep::Bad:
        sessions_.closeMalformed(session, "a frame header that makes no sense");
        break;
      case FrameStep::Nothing:
        session.has_unread = false;
        return delivered;
    }
  }
  return delivered;
}

void TcpReader::deliverMessage(TcpSession& session) {
  const wire::FrameHeader header = session.channel->reader.header();
  RxMessage message = session.channel->reader.takeMessage();
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

void TcpReader::handOver(MessageSink& sink) {
  if (requests_.empty()) return;
  sink.onRequests(requests_);
  requests_.clear();
}

// ---- memory

// Only clients have to wait: messages of the cluster's own processes may be what frees memory. They wait for new memory
// only: a message that has its memory already is read on, because it will free that when it is whole.
bool TcpReader::mustWaitForMemory(const TcpSession& session) {
  const FrameReader& reader = session.channel->reader;
  const uint32_t wanted_bytes = reader.wantedBytes();
  if (memory_.heldBytes() + wanted_bytes <= options_.held_bytes_max) [[likely]]
    return false;
  if (!session.is_bounded || (reader.hasPart() && wanted_bytes == 0)) return false;
  memory_.is_short = true;
  rounds_.askSoon();
  return true;
}

void TcpReader::checkReceptions(int64_t now_ns) {
  receptions_.check(
      sessions_.table(), now_ns, options_.stall_close_ns,
      [this](const TcpSession& session) {
        return session.isReadPaused(options_.unsent_bytes_max) || mustWaitForMemory(session);
      },
      [this](TcpSession& session) { sessions_.closeLater(session, "it does not send the rest of its message"); });
}

int64_t TcpReader::nextReceptionNs() const { return receptions_.nextNs(sessions_.table(), options_.stall_close_ns); }

void TcpReader::considerStalled(LargestHolder<TcpSession>& largest, int64_t now_ns) const {
  receptions_.forEach(sessions_.table(), [&](TcpSession& session) {
    if (!session.is_bounded || now_ns - session.reception.progress.sinceNs() < options_.stall_evict_ns) return;
    largest.consider(session, session.heldBytes());
  });
}

}  // namespace ramcore::transport::tcp
