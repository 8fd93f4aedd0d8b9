#include "transport/verbs/send_queue.h"

#include <algorithm>
#include <cstring>

#include "base/mutation.h"
#include "runtime/clock.h"
#include "transport/memory/chunk_copy.h"

namespace ramcore::transport::verbs {
namespace {

// A completion is asked for after this many requests at the latest, whatever they hold.
constexpr uint32_t kUnsignalledMax = 32;
// Entries of one request while it is built; one of them is the head.
constexpr uint32_t kPiecesMax = TxBuffer::kChunkCountMax + 1;
// One transfer is cut into requests of at most this many bytes, so that the requests of others get between them.
constexpr uint64_t kTransferBytesMax = 1u << 20;

uint64_t bytesOfPieces(std::span<const ibv_sge> pieces) {
  uint64_t bytes = 0;
  for (const ibv_sge& piece : pieces) bytes += piece.length;
  return bytes;
}

}  // namespace

/// Requests that are handed over together.
struct SendQueue::Chain {
  SendScratch& scratch;
  uint32_t count = 0;
  uint32_t room = 0;
  bool borrows = false;  ///< some of its requests hold bytes of others
  bool must_signal = false;

  ibv_send_wr& add(ibv_wr_opcode opcode, std::span<const ibv_sge> pieces) {
    const size_t first = scratch.pieces.size();
    scratch.pieces.insert(scratch.pieces.end(), pieces.begin(), pieces.end());
    return addFrom(opcode, first);
  }
  /// A request that sends the pieces in the scratch from `first` on.
  ibv_send_wr& addFrom(ibv_wr_opcode opcode, size_t first) {
    // With more pieces the vector would move those that requests point to already.
    RC_CHECK(count < room && scratch.pieces.size() <= size_t{SendScratch::kRequestsMax} * kPiecesMax);
    ibv_send_wr& request = scratch.requests[count];
    request = {};
    request.opcode = opcode;
    request.sg_list = scratch.pieces.data() + first;
    request.num_sge = static_cast<int>(scratch.pieces.size() - first);
    if (count > 0) scratch.requests[count - 1].next = &request;
    ++count;
    return request;
  }
};

SendQueue::SendQueue(const Parts& parts, std::unique_ptr<QueuePair> pair, uint64_t tag)
    : parts_(parts),
      pair_(std::move(pair)),
      tag_(tag),
      limits_{std::min(pair_->size().gather, parts.entries_max), pair_->size().inline_bytes, parts.copy_below_bytes},
      ring_(pair_->size().sends) {
  parts_.scratch.pieces.reserve(size_t{SendScratch::kRequestsMax} * kPiecesMax);  // addresses stay
}

SendQueue::~SendQueue() {
  pair_.reset();  // from here on the adapter reads nothing
  for (; ring_count_ > 0; --ring_count_) {
    finish(ring_[first_]);
    first_ = (first_ + 1) % ring_.size();
  }
  dropWaiting();
}

void SendQueue::send(const wire::VerbsHeader& header, TxMessage message) {
  Waiting& waiting = waiting_.emplace_back();
  waiting.header = header;
  waiting.message = parts_.heads.adopt(std::move(message));
}

void SendQueue::write(const wire::VerbsHeader& header, TxMessage message, const wire::VerbsPiece& place) {
  Waiting& waiting = waiting_.emplace_back();
  waiting.kind = Kind::Write;
  waiting.header = header;
  waiting.message = parts_.heads.adopt(std::move(message));
  waiting.place = place;
}

void SendQueue::read(uint16_t slot, Block& into, std::span<const wire::VerbsPiece> pieces) {
  Waiting& waiting = waiting_.emplace_back();
  waiting.kind = Kind::Read;
  waiting.slot = slot;
  waiting.into = &into;
  waiting.pieces.assign(pieces.begin(), pieces.end());
}

void SendQueue::bind(std::shared_ptr<Place> place) {
  Waiting& waiting = waiting_.emplace_back();
  waiting.kind = Kind::Bind;
  waiting.opened = std::move(place);
}

void SendQueue::dropWaiting() {
  for (size_t i = waiting_begin_; i < waiting_.size(); ++i) {
    if (waiting_[i].into != nullptr) parts_.blocks.drop(waiting_[i].into);
  }
  waiting_.clear();
  waiting_begin_ = 0;
}

bool SendQueue::close(const wire::VerbsHeader& header) {
  dropWaiting();
  send(header, TxMessage(parts_.heads.takeBuffer(0)));
  // One place in the queue is kept for this last request (roomForRequests()).
  Chain chain{parts_.scratch, 0, 1};
  const bool is_posted =
      posted_ - completed_ < pair_->size().sends && appendSend(chain, waiting_.front()) && submit(chain);
  waiting_.clear();
  return is_posted;
}

bool SendQueue::post() {
  // The messages in front are posted: their room is used again before the list grows.
  if (waiting_begin_ > 64) {
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(waiting_begin_));
    waiting_begin_ = 0;
  }
  while (hasWaiting()) {
    const uint32_t room = std::min(roomForRequests(), SendScratch::kRequestsMax);
    Chain chain{parts_.scratch, 0, room};
    bool is_full = false;
    while (hasWaiting() && !is_full) {
      Waiting& next = waiting_[waiting_begin_];
      const uint32_t before = chain.count;
      const size_t pieces_before = chain.scratch.pieces.size();
      if (!append(chain, next)) {
        if (chain.count != before || chain.scratch.pieces.size() != pieces_before) {
          chain.scratch.pieces.clear();
          chain.scratch.handed_over.clear();
          chain.scratch.opened.clear();
          return false;
        }
        is_full = true;
      } else if (++waiting_begin_ == waiting_.size()) {
        waiting_.clear();
        waiting_begin_ = 0;
      }
    }
    if (chain.count == 0) return true;  // completions will make room
    if (!submit(chain)) return false;
  }
  return true;
}

// False if there is no room; then nothing was added. Also false if there is no memory; then something was.
bool SendQueue::append(Chain& chain, Waiting& waiting) {
  switch (waiting.kind) {
    case Kind::Send:
      return appendSend(chain, waiting);
    case Kind::Write:
      return appendWrite(chain, waiting);
    case Kind::Read:
      return appendRead(chain, waiting);
    case Kind::Bind:
      return appendBind(chain, waiting);
  }
  return false;
}

// False for bytes without an owner: nobody guarantees them any more when the call is abandoned.
bool SendQueue::isReachable(const Chunk& chunk) const {
  uint32_t key = 0;
  return chunk.owner != nullptr && parts_.regions.findKey(chunk, key) && !RC_MUTATION("copy-before-send") &&
         !RC_MUTATION("copy-uncounted");
}

bool SendQueue::appendSend(Chain& chain, Waiting& waiting) {
  if (chain.count == chain.room) return false;
  TxBuffer& buffer = *waiting.message;
  // The header stands in the room in front of the head, as one piece with it.
  storeAs(buffer.head - sizeof(wire::VerbsHeader), waiting.header);
  GatherLimits limits = limits_;
  limits.inline_bytes_max -= std::min<uint32_t>(limits.inline_bytes_max, sizeof(wire::VerbsHeader));
  const GatherPlan plan = planGather(buffer, limits, [this](const Chunk& chunk) { return isReachable(chunk); });
  const size_t first = chain.scratch.pieces.size();
  Block* copies = nullptr;
  if (!gatherPieces(chain, buffer, plan, copies)) return false;
  ibv_sge& head = chain.scratch.pieces[first];
  head.addr -= sizeof(wire::VerbsHeader);
  head.length += sizeof(wire::VerbsHeader);
  ibv_send_wr& request = chain.addFrom(IBV_WR_SEND, first);
  chain.must_signal = chain.must_signal || waiting.header.kind == wire::VerbsKind::Close;
  if (plan.is_inline) {
    request.send_flags |= IBV_SEND_INLINE;
    chain.scratch.handed_over.push_back(std::move(waiting.message));
    return true;
  }
  keep(chain, waiting, copies);
  return true;
}

// Adds the pieces of a message to the scratch. Copies go behind the head while it has room, and otherwise to a block.
bool SendQueue::gatherPieces(Chain& chain, TxBuffer& buffer, const GatherPlan& plan, Block*& copies) {
  std::vector<ibv_sge>& pieces = chain.scratch.pieces;
  parts_.counts.messages += 1;
  parts_.counts.payload_bytes += buffer.head_bytes;
  pieces.push_back({reinterpret_cast<uint64_t>(buffer.head), buffer.head_bytes, HeadPool::keyOf(buffer)});
  std::byte* to = buffer.head + buffer.head_bytes;
  uint32_t to_room = buffer.head_capacity - buffer.head_bytes;
  uint32_t to_key = pieces.back().lkey;
  uint32_t left = plan.copied_bytes;
  bool continues = true;  // what is copied next stands behind the last piece
  for (uint32_t i = 0; i < buffer.chunk_count; ++i) {
    const Chunk& chunk = buffer.chunks[i];
    if (chunk.bytes == 0) continue;
    parts_.counts.payload_bytes += chunk.bytes;
    if (plan.is_inline || !plan.is_copied[i]) {
      uint32_t key = 0;
      if (!plan.is_inline) RC_CHECK(parts_.regions.findKey(chunk, key));
      pieces.push_back({reinterpret_cast<uint64_t>(chunk.address), chunk.bytes, key});
      (plan.is_inline ? parts_.counts.chunks_copied : parts_.counts.chunks_gathered) += 1;
      if (!plan.is_inline) parts_.counts.gathered_bytes += chunk.bytes;
      continues = false;
      continue;
    }
    if (to_room < chunk.bytes) {
      copies = parts_.blocks.take(left);
      if (copies == nullptr) return false;
      to = copies->bytes();
      to_room = left;
      to_key = copies->region->lkey;
      continues = false;
    }
    std::memcpy(to, chunk.address, chunk.bytes);
    if (continues) {
      pieces.back().length += chunk.bytes;
    } else {
      pieces.push_back({reinterpret_cast<uint64_t>(to), chunk.bytes, to_key});
    }
    to += chunk.bytes;
    to_room -= chunk.bytes;
    left -= chunk.bytes;
    continues = true;
    if (RC_MUTATION("copy-uncounted")) {
      parts_.counts.chunks_gathered += 1;
      parts_.counts.gathered_bytes += chunk.bytes;
      continue;
    }
    parts_.counts.chunks_copied += 1;
    if (chunk.bytes >= parts_.copy_below_bytes) parts_.counts.long_chunks_copied += 1;
  }
  return true;
}

bool SendQueue::appendWrite(Chain& chain, Waiting& waiting) {
  TxBuffer& buffer = *waiting.message;
  // At most this many: the pieces, cut where a request may have no more bytes or entries, and the control packet
  // behind.
  const uint64_t bytes = waiting.message.messageBytes();
  const auto requests_max = static_cast<uint32_t>(bytes / kTransferBytesMax + kPiecesMax / limits_.entries_max + 3);
  if (chain.room - chain.count < requests_max) return false;
  const GatherLimits unlimited{kPiecesMax, 0, limits_.copy_below_bytes};
  const GatherPlan plan = planGather(buffer, unlimited, [this](const Chunk& chunk) { return isReachable(chunk); });
  const size_t first = chain.scratch.pieces.size();
  Block* copies = nullptr;
  if (!gatherPieces(chain, buffer, plan, copies)) return false;
  // This allocates, which does not count beside a transfer of this size.
  std::vector<ibv_sge> pieces(chain.scratch.pieces.begin() + static_cast<ptrdiff_t>(first), chain.scratch.pieces.end());
  chain.scratch.pieces.resize(first);
  uint64_t to = waiting.place.address;
  std::vector<ibv_sge> some;
  const auto submitSome = [&] {
    ibv_send_wr& request = chain.add(IBV_WR_RDMA_WRITE, some);
    request.wr.rdma.remote_addr = to;
    request.wr.rdma.rkey = waiting.place.key;
    to += bytesOfPieces(some);
    some.clear();
  };
  for (size_t i = 0; i < pieces.size();) {
    ibv_sge& piece = pieces[i];
    const uint64_t room = kTransferBytesMax - bytesOfPieces(some);
    ibv_sge part = piece;
    part.length = static_cast<uint32_t>(std::min<uint64_t>(piece.length, room));
    if (part.length != 0) some.push_back(part);
    piece.addr += part.length;
    piece.length -= part.length;
    if (piece.length == 0) ++i;
    if (some.size() == limits_.entries_max || bytesOfPieces(some) == kTransferBytesMax) submitSome();
  }
  if (!some.empty()) submitSome();
  std::byte* const word = buffer.head - sizeof(wire::VerbsHeader);
  storeAs(word, waiting.header);
  const ibv_sge piece{reinterpret_cast<uint64_t>(word), sizeof(wire::VerbsHeader), HeadPool::keyOf(buffer)};
  chain.add(IBV_WR_SEND, std::span(&piece, 1));
  keep(chain, waiting, copies);
  return true;
}

bool SendQueue::appendRead(Chain& chain, Waiting& waiting) {
  uint64_t total = 0;
  for (const wire::VerbsPiece& piece : waiting.pieces) total += piece.bytes;
  const auto requests_max = static_cast<uint32_t>(total / kTransferBytesMax + waiting.pieces.size() + 1);
  if (chain.room - chain.count < requests_max) return false;
  auto to = reinterpret_cast<uint64_t>(waiting.into->bytes());
  for (const wire::VerbsPiece& piece : waiting.pieces) {
    for (uint32_t done = 0; done < piece.bytes;) {
      const auto part = static_cast<uint32_t>(std::min<uint64_t>(piece.bytes - done, kTransferBytesMax));
      const ibv_sge local{to, part, waiting.into->region->lkey};
      ibv_send_wr& request = chain.add(IBV_WR_RDMA_READ, std::span(&local, 1));
      request.wr.rdma.remote_addr = piece.address + done;
      request.wr.rdma.rkey = piece.key;
      to += part;
      done += part;
    }
  }
  chain.must_signal = true;
  keep(chain, waiting, waiting.into);
  return true;
}

// Nothing of the request has to be kept: the place exists until its call is answered, and a peer that answers before
// the window is bound breaks its own session.
bool SendQueue::appendBind(Chain& chain, Waiting& waiting) {
  if (chain.count == chain.room) return false;
  const Place& place = *waiting.opened;
  ibv_send_wr& request = chain.add(IBV_WR_BIND_MW, {});
  request.bind_mw.mw = place.window.get();
  request.bind_mw.rkey = place.key;
  request.bind_mw.bind_info = {.mr = place.region.get(),
                               .addr = reinterpret_cast<uint64_t>(place.bytes),
                               .length = place.capacity,
                               .mw_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
  chain.scratch.opened.push_back(std::move(waiting.opened));
  return true;
}

// Keeps the message and its copies until the requests added so far are done.
void SendQueue::keep(Chain& chain, Waiting& waiting, Block* copies) {
  RC_CHECK(ring_count_ < ring_.size());
  Posted& posted = ring_[(first_ + ring_count_++) % ring_.size()];
  posted.end = posted_ + chain.count;
  posted.slot = waiting.slot;
  posted.copies = copies;
  if (waiting.message) chain.borrows = chain.borrows || waiting.message->chunk_count != 0 || copies != nullptr;
  posted.message = std::move(waiting.message);
  waiting.into = nullptr;
}

bool SendQueue::submit(Chain& chain) {
  SendScratch& scratch = parts_.scratch;
  ibv_send_wr& last = scratch.requests[chain.count - 1];
  posted_ += chain.count;
  last.wr_id = sendId(tag_, posted_);
  // Completions come in order: one for the last request of a chain answers for all of it.
  if (chain.must_signal || chain.borrows ||
      posted_ - signalled_ >= std::min(kUnsignalledMax, pair_->size().sends / 4)) {
    last.send_flags |= IBV_SEND_SIGNALED;
    signalled_ = posted_;
  }
  // If the queue pair breaks, the other requests come back as well, with numbers of their own.
  for (uint32_t i = 0; i + 1 < chain.count; ++i) {
    scratch.requests[i].wr_id = sendId(tag_, posted_ - chain.count + i + 1);
  }
  ibv_send_wr* refused = nullptr;
  const int error = ibv_post_send(pair_->raw(), scratch.requests.data(), &refused);
  parts_.counts.posts += 1;
  if (RC_MUTATION("release-at-post")) {
    for (size_t i = 0; i < ring_count_; ++i) {
      if (TxMessage& message = ring_[(first_ + i) % ring_.size()].message; message) TxMessage::releaseChunks(*message);
    }
  }
  scratch.pieces.clear();
  scratch.handed_over.clear();
  scratch.opened.clear();
  return error == 0;
}

void SendQueue::complete(uint32_t position, std::vector<uint16_t>& read_slots) {
  // Requests that asked for no completion count as well, though ring_ may have nothing of them.
  if (static_cast<int32_t>(position - completed_) > 0) completed_ = position;
  while (ring_count_ > 0 && static_cast<int32_t>(position - ring_[first_].end) >= 0) {
    Posted& posted = ring_[first_];
    if (posted.slot != kNoSlot) {
      read_slots.push_back(posted.slot);
      posted.copies = nullptr;  // it has the message that was read, and is the transfer's from here on
      posted.slot = kNoSlot;
    }
    finish(posted);
    first_ = (first_ + 1) % ring_.size();
    --ring_count_;
  }
}

void SendQueue::finish(Posted& posted) {
  posted.message = TxMessage();
  if (posted.copies != nullptr) parts_.blocks.drop(std::exchange(posted.copies, nullptr));
  posted.slot = kNoSlot;
}

WaitingBytes SendQueue::waitingBytes(int64_t borrowed_by_ns) const {
  WaitingBytes found;
  for (size_t i = waiting_begin_; i < waiting_.size(); ++i) {
    const TxMessage& message = waiting_[i].message;
    if (message) found.add(message, borrowed_by_ns);
  }
  return found;
}

size_t SendQueue::copyOutWaiting(int64_t borrowed_by_ns) {
  size_t count = 0;
  for (size_t i = waiting_begin_; i < waiting_.size(); ++i) {
    TxMessage& message = waiting_[i].message;
    if (!message || message->borrowed_since_ns > borrowed_by_ns || !holdsBorrowed(*message)) continue;
    if (chunk_copies.replaceAll(*message, false)) ++count;
  }
  return count;
}

void WaitingBytes::add(const TxMessage& message, int64_t borrowed_by_ns) {
  const bool is_borrowed = holdsBorrowed(*message);
  if (is_borrowed && message->borrowed_since_ns > borrowed_by_ns) {
    oldest_borrowed_ns = std::min(oldest_borrowed_ns, message->borrowed_since_ns);
    return;
  }
  own_bytes += message.messageBytes();
  is_overdue = is_overdue || is_borrowed;
}

void SendQueue::copyUnowned() {
  for (size_t i = waiting_begin_; i < waiting_.size(); ++i) {
    if (waiting_[i].message) chunk_copies.replaceAll(*waiting_[i].message, true);
  }
}

}  // namespace ramcore::transport::verbs
