#include "transport/tcp/tcp_writer.h"

#include <sys/epoll.h>

#include <array>

namespace ramcore::transport::tcp {
namespace {

// Vectored writes for one session before the next has its turn.
constexpr int kWritesMax = 8;

}  // namespace

TcpWriter::TcpWriter(const TcpOptions& options, const TcpContext& context, TcpSessions& sessions, HotSessions& hot,
                     SleeperRounds& rounds)
    : options_(options),
      context_(context),
      limits_{.copy_ns = options.stall_copy_ns,
              .close_ns = options.stall_close_ns,
              .borrowed_ns_max = options.borrowed_ns_max},
      sessions_(sessions),
      hot_(hot),
      rounds_(rounds) {}

void TcpWriter::send(TcpSession& session, const wire::FrameHeader& header, TxMessage message) {
  if (message->chunk_count != 0) message->borrowed_since_ns = context_.clock.nowNs();
  session.channel->queue.push(std::move(message), header);
  session.is_copied_out = false;
  // While the kernel takes nothing there is nothing to flush: unblock() goes on.
  if (!session.is_write_armed) makeDirty(session);
}

void TcpWriter::makeDirty(TcpSession& session) {
  if (session.is_dirty) return;
  session.is_dirty = true;
  dirty_.push_back(session.id);
}

void TcpWriter::flush() {
  if (dirty_.empty()) return;
  std::swap(dirty_, flushing_);
  for (const SessionId id : flushing_) {
    TcpSession* session = sessions_.findOpen(id);
    if (session == nullptr) continue;
    session->is_dirty = false;
    write(*session);
  }
  flushing_.clear();
}

void TcpWriter::write(TcpSession& session) {
  SendQueue& queue = session.channel->queue;
  for (int i = 0; i < kWritesMax && !queue.empty(); ++i) {
    std::array<ByteSpan, StreamSocket::kPiecesMax> pieces;
    const size_t count = queue.gather(pieces);
    Error error;
    const size_t bytes = session.socket.writeSome(std::span<const ByteSpan>(pieces).first(count), error);
    if (error == asio::error::would_block || error == asio::error::try_again) return block(session);
    if (error) return sessions_.closeLater(session, error.message());
    const size_t finished = queue.advance(bytes);
    if (!session.is_blocked) continue;
    const int64_t now_ns = context_.clock.nowNs();
    session.taken_bytes += bytes;
    session.sending.note(now_ns, session.taken_bytes);
    if (finished != 0) session.first_since_ns = now_ns;
  }
  // If reading was paused, the session has cooled down meanwhile, and only this makes it hot again. It is done whether
  // the session is blocked or not: many answers pause reading even if the kernel takes bytes in every write.
  if (!session.is_hot && session.mustRead(options_.unsent_bytes_max)) hot_.add(session);
  if (!queue.empty()) makeDirty(session);
}

// ---- peers that do not read

void TcpWriter::block(TcpSession& session) {
  if (!session.is_blocked) {
    session.is_blocked = true;
    session.first_since_ns = context_.clock.nowNs();
    session.sending.begin(session.first_since_ns, session.taken_bytes);
    blocked_.push_back(session.id);
    rounds_.askSoon();
  }
  armWrite(session);
}

void TcpWriter::armWrite(TcpSession& session) {
  if (session.is_write_armed) return;
  session.is_write_armed = true;
  // EPOLLOUT is asked for only while it is needed: a socket that could be written to would end every sleep that follows
  // a packet.
  context_.sleeper.listenTo(session.key, kReadEvents | EPOLLOUT);
}

void TcpWriter::unblock(TcpSession& session) {
  session.is_write_armed = false;
  context_.sleeper.listenTo(session.key, kReadEvents);
  if (session.state == TcpSession::State::Open) {
    write(session);
  } else {
    hot_.add(session);
  }
}

void TcpWriter::checkBlocked(int64_t now_ns) {
  size_t kept = 0;
  for (const SessionId id : blocked_) {
    TcpSession* session = sessions_.findOpen(id);
    if (session == nullptr) continue;
    session->is_blocked = checkStall(*session, now_ns);
    if (session->is_blocked) blocked_[kept++] = id;
  }
  blocked_.resize(kept);
}

Stall TcpWriter::stallOf(const TcpSession& session) const {
  return {.progress_ns = session.sending.sinceNs(),
          .waits_since_ns = session.first_since_ns,
          .oldest_borrowed_ns = session.channel->queue.oldestBorrowedNs(),
          .is_copied_out = session.is_copied_out};
}

bool TcpWriter::checkStall(TcpSession& session, int64_t now_ns) {
  SendQueue& queue = session.channel->queue;
  if (queue.empty()) return false;
  const StallStep step = nextStep(stallOf(session), limits_, now_ns);
  if (step == StallStep::Wait) return true;
  if (step == StallStep::Close) {
    sessions_.closeLater(session, "it does not read what we send");
    return false;
  }
  const bool copies_all = step == StallStep::CopyAll;
  const int64_t overdue_ns = now_ns - options_.borrowed_ns_max;
  const uint64_t bytes = copies_all ? queue.unsentBytes() : queue.bytesInCopies(overdue_ns);
  if (bytes > options_.stall_bytes_max) {
    dropUnread(session, bytes);
    return false;
  }
  borrowed_counts_.messages_copied_out += queue.copyOut(copies_all ? now_ns : overdue_ns);
  if (copies_all) session.is_copied_out = true;
  return true;
}

void TcpWriter::dropUnread(TcpSession& session, uint64_t bytes) {
  ++borrowed_counts_.sessions_dropped;
  sessions_.warnings().warn(
      "closing the session with " + session.peer.address + ": it leaves " + std::to_string(bytes) +
      " bytes of answers unread, too many to copy them out of the log, which they would keep" + " from being freed");
  sessions_.closeLater(session, "it leaves too many bytes unread");
}

int64_t TcpWriter::nextBlockedNs() const {
  int64_t next_ns = runtime::kNever;
  for (const SessionId id : blocked_) {
    const TcpSession* session = sessions_.findOpen(id);
    if (session != nullptr) next_ns = std::min(next_ns, nextStepNs(stallOf(*session), limits_));
  }
  return next_ns;
}

void TcpWriter::considerStalled(LargestHolder<TcpSession>& largest, int64_t now_ns) const {
  for (const SessionId id : blocked_) {
    TcpSession* session = sessions_.findOpen(id);
    if (session == nullptr || !session->is_bounded) continue;
    if (now_ns - session->sending.sinceNs() >= options_.stall_evict_ns)
      largest.consider(*session, session->heldBytes());
  }
}

void TcpWriter::sayClose(TcpSession& session) {
  if (!session.channel->queue.isAtFrame()) return;
  wire::FrameHeader header{};
  header.kind = wire::FrameKind::Close;
  Error error;
  session.socket.writeSome(bytesOf(header), error);
  if (error) return;
  session.socket.shutDownSend();
  // Closing a socket with unread bytes resets the connection, and the peer would not see the frame.
  std::array<std::byte, 4096> unread;
  for (int i = 0; i < 64 && !error; ++i) session.socket.readSome(unread, error);
}

}  // namespace ramcore::transport::tcp
