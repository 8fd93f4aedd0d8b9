#include "contract/transport_suite.h"

#include <algorithm>
#include <chrono>

namespace ramcore::transport::contract {

std::vector<Subject>& subjects() {
  static std::vector<Subject> all;
  return all;
}

void RecordingSink::onRequests(std::span<RxMessage> requests) {
  batch_max = std::max(batch_max, requests.size());
  for (RxMessage& request : requests) {
    ++request_count;
    if (on_request) {
      on_request(request);
    } else {
      held.push_back(std::move(request));
    }
  }
}

void TestCall::onComplete(PendingCall& call, Status status, RxMessage response) {
  auto& self = static_cast<TestCall&>(call);
  ++self.completions;
  self.status = status;
  self.response = std::move(response);
}

CountingOwner::~CountingOwner() {
  EXPECT_EQ(releasedOnce(), borrowedCount()) << "every owner is released exactly once";
}

ChunkArena& chunkArena() {
  static ChunkArena arena;
  return arena;
}

Chunk CountingOwner::borrow(uint32_t bytes, uint8_t first) {
  auto borrowed = std::make_unique<Borrowed>();
  ChunkArena& arena = chunkArena();
  const bool is_from_arena = arena.region != 0 && arena.used_bytes + bytes <= ChunkArena::kBytes;
  if (is_from_arena) {
    borrowed->bytes = {arena.base + arena.used_bytes, bytes};
    arena.used_bytes += bytes;
  } else {
    borrowed->own.resize(bytes);
    borrowed->bytes = borrowed->own;
  }
  for (std::byte& byte : borrowed->bytes) byte = std::byte{first++};
  const Chunk chunk{borrowed->bytes.data(), bytes, is_from_arena ? arena.region : RegionId{0}, this, borrowed_.size()};
  borrowed_.push_back(std::move(borrowed));
  return chunk;
}

// Released bytes are wiped: a transport that reads them later sends the wrong ones.
void CountingOwner::releaseChunk(uint64_t token) noexcept {
  Borrowed& borrowed = *borrowed_[token];
  ++borrowed.releases;
  std::fill(borrowed.bytes.begin(), borrowed.bytes.end(), std::byte{0xdd});
}

size_t CountingOwner::releasedOnce() const {
  return static_cast<size_t>(
      std::count_if(borrowed_.begin(), borrowed_.end(), [](const auto& borrowed) { return borrowed->releases == 1; }));
}

bool CountingOwner::isAnyReleasedTwice() const {
  return std::any_of(borrowed_.begin(), borrowed_.end(), [](const auto& borrowed) { return borrowed->releases > 1; });
}

Process::Process(World& where, Role role, uint64_t id, std::string secret, uint16_t slots, std::string cluster_name,
                 uint32_t sessions_max)
    : world(where),
      identity{.role = role, .id = id, .cluster_name = std::move(cluster_name), .secret = std::move(secret)},
      node(where.makeNode({.identity = identity, .slots_per_session = slots, .sessions_max = sessions_max}, identity)) {
}

void Process::step() {
  if (node == nullptr) return;
  endpoint().poll(sink, endpoint().limits().burst_messages_max);
  endpoint().flush();
}

void Process::die() {
  sink.held.clear();
  node.reset();
}

void Process::echoRequests() {
  sink.on_request = [this](RxMessage& request) {
    TxMessage response = endpoint().allocate(request.messageBytes());
    response.appendHead(request.head());
    for (const ByteSpan& span : request.tail()) response.appendHead(span);
    endpoint().reply(request.reply_to, std::move(response));
  };
}

TxMessage makeMessage(Endpoint& endpoint, CountingOwner& owner, uint32_t bytes, uint8_t first, uint32_t chunk_bytes) {
  TxMessage message = endpoint.allocate(64);
  const uint32_t head_bytes = std::min<uint32_t>(bytes, 61);
  uint8_t next = first;
  std::byte* head = message.extendHead(head_bytes);
  for (uint32_t i = 0; i < head_bytes; ++i) head[i] = std::byte{next++};
  for (uint32_t done = head_bytes; done < bytes;) {
    const uint32_t piece = std::min(chunk_bytes, bytes - done);
    message.appendChunk(owner.borrow(piece, static_cast<uint8_t>(first + done)));
    done += piece;
  }
  return message;
}

bool hasPattern(const RxMessage& message, uint32_t bytes, uint8_t first) {
  if (message.messageBytes() != bytes) return false;
  uint8_t next = first;
  for (const std::byte byte : message.head()) {
    if (byte != std::byte{next++}) return false;
  }
  for (const ByteSpan& span : message.tail()) {
    for (const std::byte byte : span) {
      if (byte != std::byte{next++}) return false;
    }
  }
  return true;
}

bool stepUntil(World& world, const std::vector<Process*>& processes, const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    for (Process* process : processes) process->step();
    world.passTime();
    if (std::chrono::steady_clock::now() > deadline) return false;
  }
  return true;
}

}  // namespace ramcore::transport::contract
