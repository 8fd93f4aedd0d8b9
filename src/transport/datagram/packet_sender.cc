#include "transport/datagram/packet_sender.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "base/mutation.h"
#include "transport/memory/chunk_copy.h"
#include "wire/frame.h"

namespace ramcore::transport::datagram {
namespace {

// Maximum number of frames that a port has not taken yet; beyond it no packets of messages are made for the port.
constexpr size_t kBacklogMax = 256;
constexpr size_t kFlushFrames = 32;
// If the end of a frame cuts a chunk in two, parts that are shorter than this are copied.
constexpr uint32_t kCutCopiedBelow = 64;
// Frames that a port has not taken for this long are dropped: they hold borrowed bytes, and what matters is sent again.
constexpr int64_t kPortStallNs = 50 * runtime::kNanosPerMilli;

ByteSpan cutHead(const TxBuffer& message, uint32_t offset, uint32_t bytes) {
  if (offset >= message.head_bytes) return {};
  return ByteSpan(message.head + offset, std::min(bytes, message.head_bytes - offset));
}

// Sets fields as bits of words, so that nothing is written in smaller pieces than it is read in.
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

PacketSender::PacketSender(const DatagramOptions& options, DatagramClock& clock, std::span<FramePort* const> ports)
    : ports_(ports),
      backlogs_(ports.size()),
      address_(ports[0]->facts().address),
      options_(options),
      clock_(clock),
      no_seal_(Handshake::Key{}, true, false) {}

// ---- packets of messages

bool PacketSender::send(const Session& session, Outgoing& outgoing, uint32_t packet, bool is_again) {
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
  backlogs_[session.route.port].frames.push_back(frame.handle);
  ++packet_counts_.sent;
  if (is_again) ++packet_counts_.resent;
  if (packet == 0 && !is_again) ++send_counts_.messages;
  send_counts_.payload_bytes += bytes;
  if (backlogs_[session.route.port].frames.size() % kFlushFrames == 0) flushPort(session.route.port);
  return true;
}

PacketSender::Cut PacketSender::cutChunks(const TxBuffer& message, uint32_t offset, uint32_t bytes) {
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

bool PacketSender::isLong(const Cut& cut, size_t chunk) const {
  const uint32_t bytes = cut.chunks[chunk].bytes;
  return bytes >= options_.gather.copy_below_bytes || (cut.is_cut[chunk] && bytes >= kCutCopiedBelow);
}

GatherPlan PacketSender::planFrame(const FramePort& port, const Outgoing& outgoing, const Cut& cut,
                                   size_t head_bytes) const {
  const std::span<const Chunk> chunks = cut.all();
  GatherLimits limits = options_.gather;
  // (When all is copied, the first run is one piece with the headers: two entries of it fit into a frame of one.)
  limits.entries_max = std::max(2u, std::min(limits.entries_max, port.facts().pieces_max));
  limits.inline_bytes_max = 0;
  // Bytes that are borrowed for too long are copied as soon as no port reads them, so no further frame may borrow them.
  const bool is_overdue = clock_.nowNs() >= outgoing.message->borrowed_since_ns + options_.borrowed_ns_max;
  const auto canStay = [&](const Chunk& chunk) {
    return !is_overdue && port.facts().pieces_max >= 2 && chunk.owner != nullptr && chunk.owner != &chunk_copies &&
           port.canAttach(chunk.region) && !RC_MUTATION("copy-before-send") && !RC_MUTATION("copy-uncounted");
  };
  return planPieces(
      static_cast<uint32_t>(wire::kPacketHeaderBytes + head_bytes), chunks, limits,
      [&](const Chunk& chunk) { return !isLong(cut, static_cast<size_t>(&chunk - chunks.data())) || !canStay(chunk); });
}

// Makes a frame in which long pieces stay where they are. False: the port has no memory for now.
bool PacketSender::gatherFrame(FramePort& port, Outgoing& outgoing, ByteSpan head, uint32_t offset, uint32_t bytes,
                               Frame& frame) {
  const Cut cut = cutChunks(*outgoing.message, offset, bytes);
  const std::span<const Chunk> chunks = cut.all();
  const GatherPlan plan = planFrame(port, outgoing, cut, head.size());

  // Chunks that are copied in front are one piece with the headers.
  auto first_bytes = static_cast<uint32_t>(head.size());
  size_t i = 0;
  for (; i < chunks.size() && plan.is_copied[i]; ++i) first_bytes += chunks[i].bytes;
  frame.handle = port.make(wire::kPacketHeaderBytes + first_bytes, frame.start);
  if (!frame.handle) return false;
  std::byte* at = frame.start + wire::kPacketHeaderBytes;
  if (first_bytes != 0) frame_pieces_[frame.piece_count++] = ByteSpan(at, first_bytes);
  at = std::ranges::copy(head, at).out;
  for (size_t k = 0; k < i; ++k) at = std::copy_n(chunks[k].address, chunks[k].bytes, at);
  if (!addPieces(port, outgoing, chunks, plan, i, frame)) return false;
  countChunks(cut, plan);
  return true;
}

// Adds all chunks from `first` on. If the port has no memory for now, drops the frame and returns false.
bool PacketSender::addPieces(FramePort& port, Outgoing& outgoing, std::span<const Chunk> chunks, const GatherPlan& plan,
                             size_t first, Frame& frame) {
  size_t i = first;
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
      // Chunks that are copied side by side are one piece, as it was planned. (Empty chunks separate nothing.)
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
  return true;
}

void PacketSender::countChunks(const Cut& cut, const GatherPlan& plan) {
  const std::span<const Chunk> chunks = cut.all();
  for (size_t k = 0; k < chunks.size(); ++k) {
    if (chunks[k].bytes == 0) continue;
    if (!plan.is_copied[k] || (RC_MUTATION("copy-uncounted") && isLong(cut, k))) {
      ++send_counts_.chunks_gathered;
      send_counts_.gathered_bytes += chunks[k].bytes;
    } else {
      ++send_counts_.chunks_copied;
      if (isLong(cut, k)) ++send_counts_.long_chunks_copied;
    }
  }
}

void PacketSender::writeStart(std::byte* at, const MacAddress& to, wire::PacketKind kind, const HeaderWords& header,
                              uint64_t seal) const {
  // Written field by field: a FrameStart that is put together first would be read in other pieces than it was written
  // in.
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

// ---- control packets

void PacketSender::sendOn(uint32_t port, const MacAddress& to, const PacketSeal& seal, wire::PacketKind kind,
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
  backlogs_[port].frames.push_back(frame);
}

void PacketSender::sendControlPacket(const Route& route, const PacketSeal& seal, wire::PacketKind kind,
                                     wire::PacketHeader header, ByteSpan body) {
  header.session = route.peer_number;
  const auto pieces = std::span<const ByteSpan>(&body, body.empty() ? 0 : 1);
  sendOn(route.port, route.address, seal, kind, header, pieces);
}

void PacketSender::sendControlPacket(const Session& session, wire::PacketKind kind, const wire::PacketHeader& header,
                                     ByteSpan body) {
  sendControlPacket(session.route, session.channel->seal_out, kind, header, body);
}

void PacketSender::sendUnsealed(uint32_t port, const MacAddress& to, wire::PacketKind kind,
                                const wire::PacketHeader& header, std::span<const ByteSpan> body) {
  sendOn(port, to, no_seal_, kind, header, body);
}

// ---- ports

void PacketSender::flush() {
  for (uint32_t port = 0; port < ports_.size(); ++port) {
    if (!backlogs_[port].frames.empty()) flushPort(port);
  }
}

void PacketSender::flushPort(uint32_t port) {
  TxBacklog& leaving = backlogs_[port];
  if (leaving.frames.empty()) return;
  const uint32_t taken = ports_[port]->send(leaving.frames);
  leaving.frames.erase(leaving.frames.begin(), leaving.frames.begin() + taken);
  if (leaving.frames.empty()) {
    leaving.refused_since_ns = runtime::kNever;
  } else if (taken != 0 || leaving.refused_since_ns == runtime::kNever) {
    clock_.readIfStale();
    leaving.refused_since_ns = clock_.nowNs();
  }
  if (taken != 0) ++send_counts_.posts;
}

bool PacketSender::hasBacklog() const {
  return std::ranges::any_of(backlogs_, [](const TxBacklog& leaving) { return !leaving.frames.empty(); });
}

bool PacketSender::runPortTimeouts(uint32_t port) {
  TxBacklog& leaving = backlogs_[port];
  const bool had_link = std::exchange(leaving.has_link, ports_[port]->runTimeouts());
  return had_link && !leaving.has_link && ports_[port]->facts().joins_two;
}

void PacketSender::dropStalled(uint32_t port) {
  TxBacklog& leaving = backlogs_[port];
  if (leaving.refused_since_ns == runtime::kNever ||
      clock_.nowNs() - std::max(leaving.refused_since_ns, clock_.listeningSinceNs()) < kPortStallNs)
    return;
  packet_counts_.dropped += leaving.frames.size();
  for (const OutFrame frame : leaving.frames) ports_[port]->drop(frame);
  leaving.frames.clear();
  leaving.refused_since_ns = runtime::kNever;
}

void PacketSender::stop() {
  for (uint32_t port = 0; port < ports_.size(); ++port) {
    flushPort(port);
    for (const OutFrame frame : backlogs_[port].frames) ports_[port]->drop(frame);
    backlogs_[port].frames.clear();
    ports_[port]->stop();
  }
}

}  // namespace ramcore::transport::datagram
