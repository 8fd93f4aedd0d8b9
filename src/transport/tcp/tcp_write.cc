#include <sys/epoll.h>

#include <array>

#include "transport/tcp/tcp_endpoint.h"

namespace ramcore::transport::tcp {
namespace {

// Vectored writes for one session before the next has its turn.
constexpr int kWritesMax = 8;

}  // namespace

void TcpEndpoint::send(TcpSession& session, const wire::FrameHeader& header, TxMessage message) {
  SendQueue& queue = session.channel->queue;
  unsent_bytes_ -= queue.unsentBytes();
  if (message->chunk_count != 0) message->borrowed_since_ns = context_.clock.nowNs();
  queue.push(std::move(message), header);
  unsent_bytes_ += queue.unsentBytes();
  session.is_copied_out = false;
  // While the kernel takes nothing there is nothing to flush: unblock() goes on.
  if (session.is_dirty || session.is_write_armed) return;
  session.is_dirty = true;
  dirty_.push_back(session.id);
}

void TcpEndpoint::flush() {
  if (dirty_.empty()) return;
  std::swap(dirty_, flushing_);
  for (const SessionId id : flushing_) {
    TcpSession* session = findOpen(id);
    if (session == nullptr) continue;
    session->is_dirty = false;
    write(*session);
  }
  flushing_.clear();
}

// Runs inside the sleep too: neither the sink nor a call may be touched.
void TcpEndpoint::write(TcpSession& session) {
  SendQueue& queue = session.channel->queue;
  for (int i = 0; i < kWritesMax && !queue.empty(); ++i) {
    std::array<ByteSpan, StreamSocket::kPiecesMax> pieces;
    const size_t count = queue.gather(pieces);
    Error error;
    const size_t bytes = session.socket.writeSome(std::span<const ByteSpan>(pieces).first(count), error);
    if (error == asio::error::would_block || error == asio::error::try_again) return block(session);
    if (error) {
      closeLater(session, error.message(), false);
      return;
    }
    const size_t finished = queue.advance(bytes);
    unsent_bytes_ -= bytes;
    if (!session.is_blocked) continue;
    const int64_t now_ns = context_.clock.nowNs();
    session.taken_bytes += bytes;
    session.sending.note(now_ns, session.taken_bytes);
    if (finished != 0) session.first_since_ns = now_ns;
  }
  // Reading was paused, and nobody else looks at it: it was cooled down meanwhile. Not only while is_blocked, which
  // ends as soon as the kernel has taken something: the pause may end a write later.
  if (!session.is_hot && mustRead(session)) makeHot(session);
  if (queue.empty() || session.is_dirty) return;
  session.is_dirty = true;
  dirty_.push_back(session.id);
}

void TcpEndpoint::block(TcpSession& session) {
  if (!session.is_blocked) {
    session.is_blocked = true;
    session.first_since_ns = context_.clock.nowNs();
    session.sending.begin(session.first_since_ns, session.taken_bytes);
    blocked_.push_back(session.id);
    rounds_to_sleeper_ = 1;
  }
  armWrite(session);
}

void TcpEndpoint::armWrite(TcpSession& session) {
  if (session.is_write_armed) return;
  session.is_write_armed = true;
  // Only while it is asked for: a socket that could be written to would end every sleep that follows a packet.
  context_.sleeper.listenTo(session.key, kReadEvents | EPOLLOUT);
}

void TcpEndpoint::unblock(TcpSession& session) {
  session.is_write_armed = false;
  context_.sleeper.listenTo(session.key, kReadEvents);
  if (session.state == TcpSession::State::Open) {
    write(session);
  } else {
    makeHot(session);
  }
}

void TcpEndpoint::checkBlocked(int64_t now_ns) {
  size_t kept = 0;
  for (const SessionId id : blocked_) {
    TcpSession* session = findOpen(id);
    if (session == nullptr) continue;
    session->is_blocked = checkStall(*session, now_ns);
    if (session->is_blocked) blocked_[kept++] = id;
  }
  blocked_.resize(kept);
}

bool TcpEndpoint::checkStall(TcpSession& session, int64_t now_ns) {
  SendQueue& queue = session.channel->queue;
  if (queue.empty()) return false;
  if (now_ns - session.sending.sinceNs() >= options_.stall_close_ns) {
    closeLater(session, "it does not read what we send", false);
    return false;
  }
  // All of it when the session stands still, so that it holds nothing; else what has waited for too long.
  const bool stands_still = !session.is_copied_out && now_ns - session.first_since_ns >= options_.stall_copy_ns;
  const int64_t overdue_ns = now_ns - options_.borrowed_ns_max;
  if (!stands_still && queue.oldestBorrowedNs() > overdue_ns) return true;
  const uint64_t bytes = stands_still ? queue.unsentBytes() : queue.bytesInCopies(overdue_ns);
  if (bytes > options_.stall_bytes_max) {
    dropUnread(session, bytes);
    return false;
  }
  borrowed_counts_.messages_copied_out += queue.copyOut(stands_still ? now_ns : overdue_ns);
  if (stands_still) session.is_copied_out = true;
  return true;
}

void TcpEndpoint::dropUnread(TcpSession& session, uint64_t bytes) {
  ++borrowed_counts_.sessions_dropped;
  warnings_.warn("closing the session with " + session.peer.address + ": it leaves " + std::to_string(bytes) +
                 " bytes of answers unread, too many to copy them out of the log, which they would keep from" +
                 " being freed");
  closeLater(session, "it leaves too many bytes unread", false);
}

// As far as the kernel takes it: the peer notices the end in any case.
void TcpEndpoint::sayClose(TcpSession& session) {
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
