#include "transport/verbs/borrow_watch.h"

#include <algorithm>

#include "transport/memory/chunk_copy.h"

namespace ramcore::transport::verbs {

void BorrowWatch::check(int64_t now_ns) {
  if (watched_.empty()) return;
  size_t kept = 0;
  copied_out_bytes_ = 0;
  for (size_t i = 0; i < watched_.size(); ++i) {
    Session* session = sessions_.findOpen(watched_[i]);
    if (session == nullptr) continue;
    session->is_watched = check(*session, now_ns);
    if (session->is_watched) watched_[kept++] = watched_[i];
  }
  watched_.resize(kept);
}

// Messages that wait to be posted, and answers that wait until the peer asks for them.
WaitingBytes BorrowWatch::waitingBytes(const Channel& channel, int64_t borrowed_by_ns) {
  WaitingBytes found;
  if (channel.queue.hasWaiting()) found = channel.queue.waitingBytes(borrowed_by_ns);
  if (channel.responses_waiting == 0) return found;
  for (const ServedTransfer& served : channel.served) {
    if (served.response) found.add(served.response, borrowed_by_ns);
  }
  return found;
}

// True if the adapter makes no progress with what it was given, or if the peer does not ask for an answer that was
// announced. Fewer than kProgressMin requests that end are no progress.
bool BorrowWatch::standsStill(Channel& channel, int64_t now_ns) const {
  constexpr uint32_t kProgressMin = 16;
  const uint32_t completed = channel.queue.completedPosition();
  if (!channel.queue.awaitsCompletion() || completed - channel.seen_completed >= kProgressMin || channel.seen_ns == 0) {
    channel.seen_completed = completed;
    channel.seen_ns = now_ns;
  }
  if (now_ns - channel.seen_ns >= options_.stall_close_ns) return true;
  return channel.responses_waiting != 0 && std::ranges::any_of(channel.served, [&](const ServedTransfer& served) {
           return served.response && now_ns - served.response_since_ns >= options_.stall_close_ns;
         });
}

// False if nothing of the session waits any more, or it is given up.
bool BorrowWatch::check(Session& session, int64_t now_ns) {
  Channel& channel = *session.channel;
  if (standsStill(channel, now_ns)) {
    sessions_.closeLater(session, "it takes nothing of what we send", false);
    return false;
  }
  const int64_t overdue_ns = now_ns - options_.borrowed_ns_max;
  const WaitingBytes waiting = waitingBytes(channel, overdue_ns);
  // The bounds are checked before anything is copied.
  if (waiting.own_bytes > options_.stall_bytes_max || copied_out_bytes_ + waiting.own_bytes > options_.held_bytes_max) {
    ++counts_.sessions_dropped;
    sessions_.warnings().warn(
        "closing the session with " + session.peer.address + ": it leaves " + std::to_string(waiting.own_bytes) +
        " bytes of answers unread, too many to copy them out of the log, which they would keep from" + " being freed");
    sessions_.closeLater(session, "it leaves too many bytes unread", false);
    return false;
  }
  copied_out_bytes_ += waiting.own_bytes;
  if (waiting.is_overdue) {
    counts_.messages_copied_out += channel.queue.copyOutWaiting(overdue_ns);
    for (ServedTransfer& served : channel.served) {
      if (!served.response || served.response->borrowed_since_ns > overdue_ns || !holdsBorrowed(*served.response))
        continue;
      chunk_copies.replaceAll(*served.response, false);
      ++counts_.messages_copied_out;
    }
  }
  return channel.responses_waiting != 0 || channel.queue.hasWaiting() || channel.queue.awaitsCompletion();
}

int64_t BorrowWatch::nextNs() const {
  int64_t next_ns = runtime::kNever;
  for (const SessionId id : watched_) {
    const Session* session = sessions_.findOpen(id);
    if (session == nullptr) continue;
    const Channel& channel = *session->channel;
    // By the beginning of time no message is overdue, so all borrowed ones count.
    const WaitingBytes waiting = waitingBytes(channel, INT64_MIN);
    if (waiting.oldest_borrowed_ns != INT64_MAX)
      next_ns = std::min(next_ns, waiting.oldest_borrowed_ns + options_.borrowed_ns_max);
    next_ns = std::min(next_ns, channel.seen_ns + options_.stall_close_ns);
  }
  return next_ns;
}

}  // namespace ramcore::transport::verbs
