// What a DatagramEndpoint sends.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "base/mutation.h"
#include "transport/datagram/datagram_endpoint.h"
#include "transport/memory/chunk_copy.h"
#include "wire/frame.h"

namespace ramcore::transport::datagram {
namespace {

// One long message does not keep the others waiting for longer than this takes to make.
constexpr uint32_t kPacketsInTurn = 16;
// Nor does sending keep the thread from looking what has come.
constexpr uint32_t kPacketsPerFlush = 256;
// Frames that a port has not taken yet; beyond it nothing is made for it.
constexpr size_t kBacklogMax = 256;
constexpr size_t kFlushFrames = 32;
// Of a chunk that the end of a frame cuts in two: shorter ends are copied.
constexpr uint32_t kCutCopiedBelow = 64;

/// The chunks of a message that one packet holds, or the parts of them.
struct Cut {
  std::array<Chunk, TxBuffer::kChunkCountMax> chunks;
  std::array<bool, TxBuffer::kChunkCountMax> is_cut;  // a piece of a longer chunk
  uint32_t chunk_count = 0;
};

ByteSpan cutHead(const TxBuffer& message, uint32_t offset, uint32_t bytes) {
  if (offset >= message.head_bytes) return {};
  return ByteSpan(message.head + offset, std::min(bytes, message.head_bytes - offset));
}

Cut cutChunks(const TxBuffer& message, uint32_t offset, uint32_t bytes) {
  Cut cut;
  uint32_t begin = message.head_bytes;
  for (uint32_t i = 0; i < message.chunk_count && bytes != 0; ++i) {
    const Chunk& chunk = message.chunks[i];
    if (offset < begin + chunk.bytes) {
      const uint32_t skipped = offset - begin;
      const uint32_t taken = std::min(bytes, chunk.bytes - skipped);
      Chunk piece = chunk;
      piece.address += skipped;
      piece.bytes = taken;
      cut.is_cut[cut.chunk_count] = taken != chunk.bytes;
      cut.chunks[cut.chunk_count++] = piece;
      offset += taken;
      bytes -= taken;
    }
    begin += chunk.bytes;
  }
  RC_DCHECK(bytes == 0);
  return cut;
}

// Bits of words, so that nothing is written in smaller pieces than it is read in.
HeaderWords ofPacket(HeaderWords header, uint32_t offset, uint32_t payload_bytes, bool is_again) {
  constexpr auto setAt = [](HeaderWords& words, size_t place, uint64_t value) {
    words[place / sizeof(uint64_t)] |= value << 8 * (place % sizeof(uint64_t));
  };
  setAt(header, offsetof(wire::PacketHeader, offset), offset);
  setAt(header, offsetof(wire::PacketHeader, payload_bytes), payload_bytes);
  if (is_again) setAt(header, offsetof(wire::PacketHeader, flags), wire::kPacketAgain);
  return header;
}

}  // namespace

// ---- messages

Outgoing& DatagramEndpoint::startSending(Session& session, TxMessage message, const Purpose& purpose) {
  if (free_outgoings_.empty()) free_outgoings_.push_back(outgoings_.emplace_back(std::make_unique<Outgoing>()).get());
  Outgoing& outgoing = *free_outgoings_.back();
  free_outgoings_.pop_back();
  Channel& channel = *session.channel;
  // As of when the thread last looked: what leaves is as old as its flush(), and it waits for no answer before that.
  outgoing.begins_expecting = channel.sending.empty();
  if (outgoing.begins_expecting) session.expected_ns = now_ns_;
  message->borrowed_since_ns = now_ns_;
  timeouts_due_ns_ = std::min(timeouts_due_ns_, now_ns_ + options_.borrowed_ns_max);
  outgoing.begin(session.id, std::move(message), purpose.kind, channel.packet_bytes, channel.unasked_packets);
  const TxBuffer& buffer = *outgoing.message;
  const uint32_t head_bytes = buffer.contiguous_bytes != 0 ? buffer.contiguous_bytes : buffer.head_bytes;
  outgoing.sequence = purpose.sequence;
  outgoing.header =
      std::bit_cast<HeaderWords>(wire::PacketHeader{.session = session.route.peer_number,
                                                    .seal = 0,
                                                    .sequence = purpose.sequence,
                                                    .message_bytes = outgoing.bytes,
                                                    .head_bytes = std::min(head_bytes, wire::kHeadBytesMax),
                                                    .offset = 0,
                                                    .response_bytes_max = purpose.response_bytes_max,
                                                    .slot = purpose.slot,
                                                    .payload_bytes = 0,
                                                    .priority = purpose.priority,
                                                    .flags = 0,
                                                    .reserved1 = 0,
                                                    .reserved2 = 0});
  outgoing.moved_ns = now_ns_;
  channel.sending.push_back(&outgoing);
  begun_.push_back(&outgoing);
  // What is one packet needs no turn where nobody waits for one.
  if (outgoing.packet_count == 1 && ready_.empty()) {
    outgoing.next = 1;
    if (sendPacket(session, outgoing, 0, false)) return outgoing;
    outgoing.next = 0;
  }
  makeReady(outgoing);
  return outgoing;
}

// What made them may have taken its time since the thread looked. (One that has become another message since then is
// named twice, and was begun as well.)
void DatagramEndpoint::dateBegun() {
  readClockIfStale();
  for (Outgoing* const outgoing : begun_) {
    if (!outgoing->isActive()) continue;
    Session& session = *find(outgoing->session);
    if (outgoing->begins_expecting) session.expected_ns = now_ns_;
    outgoing->is_dated = true;
    outgoing->message->borrowed_since_ns = now_ns_;
    outgoing->moved_ns = now_ns_;
    if (outgoing->next != 0) noteSent(session, *outgoing, true);
  }
  begun_.clear();
}

void DatagramEndpoint::makeReady(Outgoing& outgoing) {
  if (!std::exchange(outgoing.is_queued, true)) ready_.push_back(&outgoing);
}

void DatagramEndpoint::endSending(Channel& channel, Outgoing*& outgoing) {
  Outgoing& ended = *std::exchange(outgoing, nullptr);
  const auto found = std::ranges::find(channel.sending, &ended);
  RC_CHECK(found != channel.sending.end());
  *found = channel.sending.back();
  channel.sending.pop_back();
  retire(ended);
}

// Its bytes go back in flush(), behind what is sent there: a peer waits for that.
void DatagramEndpoint::retire(Outgoing& outgoing) {
  outgoing.finish();
  if (RC_MUTATION("forget-what-ports-read")) outgoing.recycle();
  retired_.push_back(&outgoing);
}

void DatagramEndpoint::recycleRetired() {
  size_t kept = 0;
  for (Outgoing* const outgoing : retired_) {
    // The owner of borrowed bytes has them back however long the list is that the message stands in.
    if (outgoing->isIdle()) outgoing->recycle();
    if (!outgoing->isIdle() || outgoing->is_queued) {
      retired_[kept++] = outgoing;
    } else {
      free_outgoings_.push_back(outgoing);
    }
  }
  retired_.resize(kept);
}

// At most `count` packets. Returns how many; fewer than there are: the port takes no more for now.
uint32_t DatagramEndpoint::sendSome(Session& session, Outgoing& outgoing, uint32_t count) {
  const bool is_first = outgoing.begun_ns == 0;
  uint32_t sent = 0;
  for (; sent < count && outgoing.isReady(); ++sent) {
    bool is_again = false;
    const uint32_t packet = outgoing.takeNext(is_again);
    if (sendPacket(session, outgoing, packet, is_again)) continue;
    outgoing.putBack(packet, is_again);
    is_blocked_ = true;
    break;
  }
  noteSent(session, outgoing, is_first && outgoing.next != 0);
  return sent;
}

void DatagramEndpoint::noteSent(const Session& session, Outgoing& outgoing, bool is_first) {
  if (is_first) outgoing.begun_ns = std::max<int64_t>(now_ns_, 1);
  outgoing.due_ns = now_ns_ + session.channel->round_trip.timeoutNs(outgoing.tries);
  timeouts_due_ns_ = std::min(timeouts_due_ns_, outgoing.due_ns);
}

// Each in turn sends some of its packets.
void DatagramEndpoint::pump() {
  is_blocked_ = false;
  for (uint32_t sent = 0; sent < kPacketsPerFlush && !ready_.empty() && !is_blocked_;) {
    Outgoing& outgoing = *ready_.front();
    ready_.pop_front();
    outgoing.is_queued = false;
    if (!outgoing.isActive()) continue;
    sent += sendSome(*find(outgoing.session), outgoing, kPacketsInTurn);
    if (!outgoing.isReady()) continue;
    outgoing.is_queued = true;
    if (is_blocked_) {
      ready_.push_front(&outgoing);
    } else {
      ready_.push_back(&outgoing);
    }
  }
}

// ---- frames

// False: the port takes no more for now.
bool DatagramEndpoint::sendPacket(Session& session, Outgoing& outgoing, uint32_t packet, bool is_again) {
  if (backlogs_[session.route.port].frames.size() >= kBacklogMax) return false;
  FramePort& port = *ports_[session.route.port];
  const TxBuffer& message = *outgoing.message;
  const uint32_t bytes = outgoing.bytesOf(packet);
  const ByteSpan head = cutHead(message, outgoing.offsetOf(packet), bytes);
  Frame frame;
  if (head.size() == bytes) [[likely]] {
    frame.handle = port.make(wire::kPacketHeaderBytes + bytes, frame.start);
    if (!frame.handle) return false;
    if (bytes != 0) std::memcpy(frame.start + wire::kPacketHeaderBytes, head.data(), bytes);
    frame_pieces_[0] = ByteSpan(frame.start + wire::kPacketHeaderBytes, bytes);
    frame.piece_count = 1;
  } else if (!gatherFrame(port, outgoing, head, outgoing.offsetOf(packet) + static_cast<uint32_t>(head.size()),
                          bytes - static_cast<uint32_t>(head.size()), frame)) {
    return false;
  }

  const HeaderWords header = ofPacket(outgoing.header, outgoing.offsetOf(packet), bytes, is_again);
  const uint64_t seal = session.channel->seal_out.of(wire::kDatagramVersion, outgoing.kind, header,
                                                     std::span<const ByteSpan>(frame_pieces_).first(frame.piece_count));
  writeStart(frame.start, session.route.address, outgoing.kind, header, seal);
  leave(session.route.port, frame.handle);
  ++packet_counts_.sent;
  if (is_again) ++packet_counts_.resent;
  if (packet == 0 && !is_again) ++send_counts_.messages;
  send_counts_.payload_bytes += bytes;
  if (backlogs_[session.route.port].frames.size() % kFlushFrames == 0) flushPort(session.route.port);
  return true;
}

// Long pieces stay where they are. False: the port has no memory for now.
bool DatagramEndpoint::gatherFrame(FramePort& port, Outgoing& outgoing, ByteSpan head, uint32_t offset, uint32_t bytes,
                                   Frame& frame) {
  const Cut cut = cutChunks(*outgoing.message, offset, bytes);
  const std::span<const Chunk> chunks = std::span(cut.chunks).first(cut.chunk_count);
  GatherLimits limits = options_.gather;
  // (Of all that is copied the first run is one piece with the headers: two entries of it fit into a frame of one.)
  limits.entries_max = std::max(2u, std::min(limits.entries_max, port.facts().pieces_max));
  limits.inline_bytes_max = 0;
  const auto isLong = [&](const Chunk& chunk) {
    return chunk.bytes >= limits.copy_below_bytes ||
           (cut.is_cut[static_cast<size_t>(&chunk - chunks.data())] && chunk.bytes >= kCutCopiedBelow);
  };
  // What is borrowed for too long is copied as soon as no port reads it: then there must be no end of new readers.
  const bool is_overdue = now_ns_ >= outgoing.message->borrowed_since_ns + options_.borrowed_ns_max;
  const auto canStay = [&](const Chunk& chunk) {
    return !is_overdue && port.facts().pieces_max >= 2 && chunk.owner != nullptr && chunk.owner != &chunk_copies &&
           port.canAttach(chunk.region) && !RC_MUTATION("copy-before-send") && !RC_MUTATION("copy-uncounted");
  };
  const GatherPlan plan = planPieces(static_cast<uint32_t>(wire::kPacketHeaderBytes + head.size()), chunks, limits,
                                     [&](const Chunk& chunk) { return !isLong(chunk) || !canStay(chunk); });

  // What is copied in front is one piece with the headers.
  auto first_bytes = static_cast<uint32_t>(head.size());
  size_t i = 0;
  for (; i < chunks.size() && plan.is_copied[i]; ++i) first_bytes += chunks[i].bytes;
  frame.handle = port.make(wire::kPacketHeaderBytes + first_bytes, frame.start);
  if (!frame.handle) return false;
  std::byte* at = frame.start + wire::kPacketHeaderBytes;
  if (first_bytes != 0) frame_pieces_[frame.piece_count++] = ByteSpan(at, first_bytes);
  at = std::ranges::copy(head, at).out;
  for (size_t k = 0; k < i; ++k) at = std::copy_n(chunks[k].address, chunks[k].bytes, at);
  while (i < chunks.size()) {
    ByteSpan piece;
    bool has_memory = true;
    if (!plan.is_copied[i]) {
      const Chunk& chunk = chunks[i++];
      if (chunk.bytes == 0) continue;
      piece = ByteSpan(chunk.address, chunk.bytes);
      ++outgoing.pieces_out;
      has_memory = port.attach(frame.handle, chunk.address, chunk.bytes, chunk.region, outgoing);
      if (!has_memory) --outgoing.pieces_out;
    } else {
      // What is copied side by side is one piece, as it was planned. (Empty chunks separate nothing.)
      uint32_t run_bytes = 0;
      size_t end = i;
      for (; end < chunks.size() && (plan.is_copied[end] || chunks[end].bytes == 0); ++end) {
        run_bytes += chunks[end].bytes;
      }
      std::byte* copy = run_bytes != 0 ? port.extend(frame.handle, run_bytes) : nullptr;
      has_memory = copy != nullptr || run_bytes == 0;
      piece = ByteSpan(copy, run_bytes);
      for (; has_memory && i < end; ++i) copy = std::copy_n(chunks[i].address, chunks[i].bytes, copy);
      if (has_memory && run_bytes == 0) continue;
    }
    if (!has_memory) {
      port.drop(frame.handle);
      return false;
    }
    frame_pieces_[frame.piece_count++] = piece;
  }
  for (size_t k = 0; k < chunks.size(); ++k) {
    if (chunks[k].bytes == 0) continue;
    if (!plan.is_copied[k] || (RC_MUTATION("copy-uncounted") && isLong(chunks[k]))) {
      ++send_counts_.chunks_gathered;
      send_counts_.gathered_bytes += chunks[k].bytes;
    } else {
      ++send_counts_.chunks_copied;
      if (isLong(chunks[k])) ++send_counts_.long_chunks_copied;
    }
  }
  return true;
}

void DatagramEndpoint::writeStart(std::byte* at, const MacAddress& to, wire::PacketKind kind, const HeaderWords& header,
                                  uint64_t seal) const {
  // Field by field: a FrameStart that is put together first is read in other pieces than it was written in.
  using Start = wire::FrameStart;
  constexpr std::array<uint8_t, 4> kRest = {wire::kDatagramEtherType >> 8, wire::kDatagramEtherType & 0xff,
                                            wire::kDatagramVersion, 0};
  static_assert(offsetof(Start, ether_type) + 2 == offsetof(Start, version) &&
                offsetof(Start, version) + 1 == offsetof(Start, kind) && offsetof(Start, kind) + 1 == sizeof(Start));
  storeAs(at + offsetof(Start, to), to.bytes);
  storeAs(at + offsetof(Start, from), address_.bytes);
  storeAs(at + offsetof(Start, ether_type), kRest);
  storeAs(at + offsetof(Start, kind), kind);
  at += sizeof(Start);
  static_assert(offsetof(wire::PacketHeader, seal) == sizeof(uint64_t));
  for (size_t i = 0; i < header.size(); ++i) storeAs(at + i * sizeof(uint64_t), i == 1 ? seal : header[i]);
}

void DatagramEndpoint::leave(uint32_t port, OutFrame frame) { backlogs_[port].frames.push_back(frame); }

void DatagramEndpoint::flushPort(uint32_t port) {
  TxBacklog& leaving = backlogs_[port];
  if (leaving.frames.empty()) return;
  const uint32_t taken = ports_[port]->send(leaving.frames);
  leaving.frames.erase(leaving.frames.begin(), leaving.frames.begin() + taken);
  if (leaving.frames.empty()) {
    leaving.refused_since_ns = runtime::kNever;
  } else if (taken != 0 || leaving.refused_since_ns == runtime::kNever) {
    readClockIfStale();
    leaving.refused_since_ns = now_ns_;
  }
  if (taken != 0) ++send_counts_.posts;
}

// ---- words: packets that are sent again only if somebody asks again

// Dropped if the port takes no more.
void DatagramEndpoint::sendOn(uint32_t port, const MacAddress& to, const PacketSeal& seal, wire::PacketKind kind,
                              wire::PacketHeader header, std::span<const ByteSpan> body) {
  if (backlogs_[port].frames.size() >= 2 * kBacklogMax) return;
  uint32_t bytes = 0;
  for (const ByteSpan& piece : body) bytes += static_cast<uint32_t>(piece.size());
  std::byte* start = nullptr;
  const OutFrame frame = ports_[port]->make(wire::kPacketHeaderBytes + bytes, start);
  if (!frame) return;
  header.payload_bytes = static_cast<uint16_t>(bytes);
  const auto words = std::bit_cast<HeaderWords>(header);
  writeStart(start, to, kind, words, seal.of(wire::kDatagramVersion, kind, words, body));
  std::byte* at = start + wire::kPacketHeaderBytes;
  for (const ByteSpan& piece : body) at = std::ranges::copy(piece, at).out;
  ++packet_counts_.sent;
  leave(port, frame);
}

void DatagramEndpoint::sendControlPacket(const Route& route, const PacketSeal& seal, wire::PacketKind kind,
                                         wire::PacketHeader header, ByteSpan body) {
  header.session = route.peer_number;
  const auto pieces = std::span<const ByteSpan>(&body, body.empty() ? 0 : 1);
  sendOn(route.port, route.address, seal, kind, header, pieces);
}

void DatagramEndpoint::sendControlPacket(Session& session, wire::PacketKind kind, const wire::PacketHeader& header,
                                         ByteSpan body) {
  sendControlPacket(session.route, session.channel->seal_out, kind, header, body);
}

// What is owed, all at once as soon as the first has waited for long enough. True: nothing is left.
bool DatagramEndpoint::sendAcks(Session& session, bool all) {
  Channel& channel = *session.channel;
  std::erase_if(channel.taken, [&](uint16_t slot) {
    OwnCall& own = channel.own[slot];
    if (!own.owes_taken) own.is_in_taken = false;
    return !own.owes_taken;
  });
  int64_t since_ns = runtime::kNever;
  for (const uint16_t slot : channel.taken) since_ns = std::min(since_ns, channel.own[slot].taken_ns);
  if (channel.taken.empty()) return true;
  if (!all && channel.taken.size() < wire::kAckEntriesMax && now_ns_ - since_ns < kAckDelayNs) {
    first_ack_due_ns_ = std::min(first_ack_due_ns_, since_ns + kAckDelayNs);
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
    sendControlPacket(session, wire::PacketKind::Ack, {}, std::as_bytes(std::span(entries)));
    count = 0;
  }
  if (count != 0) sendControlPacket(session, wire::PacketKind::Ack, {}, std::as_bytes(std::span(entries).first(count)));
  channel.taken.clear();
  return true;
}

void DatagramEndpoint::tellTakers(bool all) {
  first_ack_due_ns_ = runtime::kNever;
  std::erase_if(acks_due_, [&](SessionId id) {
    Session* const session = findOpen(id);
    if (session == nullptr) return true;
    if (!sendAcks(*session, all)) return false;
    session->has_taken = false;
    return true;
  });
}

}  // namespace ramcore::transport::datagram
