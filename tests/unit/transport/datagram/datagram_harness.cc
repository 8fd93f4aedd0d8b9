#include "unit/transport/datagram/datagram_harness.h"

#include <algorithm>

namespace ramcore::transport::datagram {

namespace {

uint64_t wordOf(uint32_t name, size_t i) {
  uint64_t x = (uint64_t{name} << 32) + i + 1;
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  return x ^ x >> 29;
}

// Calls `onPiece(word, first byte of it, position, count)` for all words in the way.
template <typename OnPiece>
void eachWord(size_t bytes, uint32_t name, size_t from, OnPiece onPiece) {
  for (size_t at = 0; at < bytes;) {
    const size_t skipped = (from + at) % 8;
    const size_t count = std::min(8 - skipped, bytes - at);
    const uint64_t word = wordOf(name, (from + at) / 8);
    onPiece(reinterpret_cast<const std::byte*>(&word) + skipped, at, count);
    at += count;
  }
}

}  // namespace

void fillContent(MutableByteSpan into, uint32_t name, size_t from) {
  eachWord(into.size(), name, from,
           [&](const std::byte* bytes, size_t at, size_t count) { std::memcpy(into.data() + at, bytes, count); });
}

bool isContent(ByteSpan bytes, uint32_t name, size_t from) {
  bool is_it = true;
  eachWord(bytes.size(), name, from, [&](const std::byte* right, size_t at, size_t count) {
    is_it = is_it && std::memcmp(bytes.data() + at, right, count) == 0;
  });
  return is_it;
}

bool hasContent(const RxMessage& message, uint32_t bytes, uint32_t name) {
  if (message.messageBytes() != bytes) return false;
  size_t from = 0;
  const auto continues = [&](ByteSpan span) { return isContent(span, name, std::exchange(from, from + span.size())); };
  return continues(message.head()) && std::ranges::all_of(message.tail(), continues);
}

// ---- Lender

Chunk Lender::borrow(uint32_t bytes, uint32_t name, size_t from) {
  auto borrowed = std::make_unique<Borrowed>();
  borrowed->bytes.resize(bytes);
  fillContent(borrowed->bytes, name, from);
  borrowed->since_ns = lan_.nowNs();
  const Chunk chunk{borrowed->bytes.data(), bytes, 1, this, borrowed_.size()};
  borrowed_.push_back(std::move(borrowed));
  ++held_;
  return chunk;
}

void Lender::releaseChunk(uint64_t token) noexcept {
  Borrowed& borrowed = *borrowed_[token];
  if (std::exchange(borrowed.is_released, true)) {
    is_any_released_twice_ = true;
    return;
  }
  --held_;
  longest_ns_ = std::max(longest_ns_, lan_.nowNs() - borrowed.since_ns);
  std::ranges::fill(borrowed.bytes, std::byte{0xdd});
}

// ---- calls

void Asked::onComplete(PendingCall& call, Status status, RxMessage response) {
  auto& self = static_cast<Asked&>(call);
  ++self.completions;
  self.status = status;
  self.response = std::move(response);
  if (self.then) self.then(self);
}

// ---- Station

Station::Station(Lan& where, uint8_t number, const Setup& setup)
    : lan(where),
      identity{.role = setup.role, .id = number, .cluster_name = "test", .secret = setup.secret},
      port(lan.network, macOf(number), {}),
      faulty(port, setup.rates, lan.clock),
      cut(faulty),
      lender(lan),
      endpoint(std::make_unique<DatagramEndpoint>(
          setup.options, DatagramContext{lan.clock, lan.entropy, trace, setup.wake_by},
          DatagramEndpoint::limitsOf(setup.options), std::vector<FramePort*>{&cut}, identity)) {
  on_request = [this](RxMessage& request) { answer(request); };
}

Locator Station::listen() { return endpoint->listen(Locator::parse("dpdk://any@1").value()).value(); }

SessionId Station::connect(const Station& to, int64_t within_ns) {
  const std::string where = "dpdk://" + to.port.facts().address.toString() + "@1";
  return endpoint->connect(Locator::parse(where).value(), 0, lan.nowNs() + within_ns);
}

SessionId Station::open(Station& to) {
  const SessionId session = connect(to);
  EXPECT_TRUE(runUntil(lan, {this, &to}, [&] { return std::ranges::count(opened, session) == 1; }));
  return session;
}

void Station::step() {
  if (endpoint == nullptr) return;
  endpoint->awake();
  spin();
}

void Station::spin() {
  if (endpoint == nullptr) return;
  endpoint->poll(*this, endpoint->limits().burst_messages_max);
  endpoint->flush();
}

TxMessage Station::make(uint32_t bytes, uint32_t name, uint32_t chunk_bytes) {
  const uint32_t head_bytes = std::min(bytes, 61u);
  TxMessage message = endpoint->allocate(head_bytes);
  fillContent({message.extendHead(head_bytes), head_bytes}, name, 0);
  // The last chunk has all bytes that no further chunk is left for.
  for (uint32_t done = head_bytes; done < bytes;) {
    const bool is_last = message->chunk_count + 1 == TxBuffer::kChunkCountMax;
    const uint32_t piece = is_last ? bytes - done : std::min(chunk_bytes, bytes - done);
    message.appendChunk(lender.borrow(piece, name, done));
    done += piece;
  }
  return message;
}

Status Station::call(SessionId session, Asked& asked, uint32_t bytes, uint32_t name, uint32_t chunk_bytes) {
  TxMessage request = make(bytes, name, chunk_bytes);
  return endpoint->call(session, request, {}, asked);
}

void Station::answer(const RxMessage& request) {
  const uint32_t bytes = request.messageBytes();
  TxMessage response = endpoint->allocate(64);
  const auto whole = request.head();
  const size_t head_bytes = std::min<size_t>(whole.size(), 64);
  response.appendHead(whole.first(head_bytes));
  if (head_bytes < bytes) {
    // (What this transport delivers is in one piece.)
    EXPECT_EQ(whole.size(), bytes);
    Chunk chunk = lender.borrow(static_cast<uint32_t>(bytes - head_bytes), 0, 0);
    std::ranges::copy(whole.subspan(head_bytes), const_cast<std::byte*>(chunk.address));
    response.appendChunk(chunk);
  }
  endpoint->reply(request.reply_to, std::move(response));
}

void Station::onRequests(std::span<RxMessage> requests) {
  for (RxMessage& request : requests) {
    ++request_count;
    on_request(request);
  }
}

bool runUntil(Lan& lan, const std::vector<Station*>& stations, const std::function<bool()>& condition,
              int64_t within_ns, int64_t step_ns) {
  const int64_t end_ns = lan.nowNs() + within_ns;
  while (!condition()) {
    if (lan.nowNs() > end_ns) return false;
    for (Station* station : stations) station->step();
    lan.pass(step_ns);
  }
  return true;
}

}  // namespace ramcore::transport::datagram
