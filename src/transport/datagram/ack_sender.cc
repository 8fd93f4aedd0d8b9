#include "transport/datagram/ack_sender.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace ramcore::transport::datagram {

void AckSender::note(Session& session, const wire::PacketHeader& answer) {
  Channel& channel = *session.channel;
  OwnCall& own = channel.own[answer.slot];
  if (std::exchange(own.owes_taken, true)) return;
  own.taken_ns = clock_.nowNs();
  if (!std::exchange(own.is_in_taken, true)) channel.taken.push_back(answer.slot);
  if (!std::exchange(session.has_taken, true)) due_.push_back(session.id);
  const bool is_full = channel.taken.size() >= wire::kAckEntriesMax;
  first_due_ns_ = std::min(first_due_ns_, is_full ? clock_.nowNs() : clock_.nowNs() + kAckDelayNs);
}

// Sends all acknowledgements that the session owes, as soon as the first has waited for long enough. True: none is
// left.
bool AckSender::sendAcks(Session& session, bool all) {
  Channel& channel = *session.channel;
  std::erase_if(channel.taken, [&](uint16_t slot) {
    OwnCall& own = channel.own[slot];
    if (!own.owes_taken) own.is_in_taken = false;
    return !own.owes_taken;
  });
  int64_t since_ns = runtime::kNever;
  for (const uint16_t slot : channel.taken) since_ns = std::min(since_ns, channel.own[slot].taken_ns);
  if (channel.taken.empty()) return true;
  if (!all && channel.taken.size() < wire::kAckEntriesMax && clock_.nowNs() - since_ns < kAckDelayNs) {
    first_due_ns_ = std::min(first_due_ns_, since_ns + kAckDelayNs);
    return false;
  }
  std::array<wire::AckEntry, wire::kAckEntriesMax> entries;
  size_t count = 0;
  for (const uint16_t slot : channel.taken) {
    OwnCall& own = channel.own[slot];
    own.owes_taken = false;
    own.is_in_taken = false;
    entries[count++] = {.sequence = own.sequence, .slot = slot, .reserved = 0};
    if (count < entries.size()) continue;
    packets_.sendControlPacket(session, wire::PacketKind::Ack, {}, std::as_bytes(std::span(entries)));
    count = 0;
  }
  if (count != 0)
    packets_.sendControlPacket(session, wire::PacketKind::Ack, {}, std::as_bytes(std::span(entries).first(count)));
  channel.taken.clear();
  return true;
}

void AckSender::send(bool all) {
  first_due_ns_ = runtime::kNever;
  std::erase_if(due_, [&](SessionId id) {
    Session* const session = sessions_.findOpen(id);
    if (session == nullptr) return true;
    if (!sendAcks(*session, all)) return false;
    session->has_taken = false;
    return true;
  });
}

}  // namespace ramcore::transport::datagram
