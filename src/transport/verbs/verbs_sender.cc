#include "transport/verbs/verbs_sender.h"

namespace ramcore::transport::verbs {
namespace {

// At most this many messages wait for room in a session's send queue, for each slot and besides.
constexpr uint32_t kWaitingPerSlot = 4;
constexpr uint32_t kWaitingBesides = 64;

}  // namespace

void VerbsSender::sendControlPacket(Session& session, wire::VerbsHeader header, wire::VerbsKind kind, ByteSpan body) {
  header.kind = kind;
  TxMessage message(heads_.takeBuffer(static_cast<uint32_t>(body.size())));
  message.appendHead(body);
  send(session, header, std::move(message));
}

void VerbsSender::flush() {
  if (dirty_.empty()) return;
  std::swap(dirty_, posting_);
  for (const SessionId id : posting_) {
    Session* session = sessions_.findOpen(id);
    if (session == nullptr) continue;
    session->is_dirty = false;
    SendQueue& queue = session->channel->queue;
    // The session is not closed here: its calls must not complete inside flush().
    if (!queue.post()) {
      sessions_.closeLater(*session, "its queue pair takes nothing, or no more memory can be registered", false);
    } else if (queue.waitingCount() > kWaitingPerSlot * session->channel->calls.slotCount() + kWaitingBesides) {
      // An honest peer has one answer a slot, and takes it before it asks again.
      sessions_.closeLater(*session, "it asks and takes no answers", true);
    } else if (queue.hasWaiting() || queue.awaitsCompletion()) {
      watch_.watch(*session);
    }
  }
  posting_.clear();
}

}  // namespace ramcore::transport::verbs
