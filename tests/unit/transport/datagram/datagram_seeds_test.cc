// Processes that call, answer late, abandon, close, die, come back and stand still, over a network that loses, copies,
// mixes and changes frames: all of it from a seed, in simulated time. RAMCORE_DATAGRAM_SEEDS says how many seeds (200),
// RAMCORE_DATAGRAM_SEED which one first.
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "unit/transport/datagram/datagram_harness.h"

namespace ramcore::transport::datagram {
namespace {

constexpr size_t kServers = 2;
constexpr uint32_t kAnswerBit = 1u << 31;

/// What is to become of a request. Short requests do not have it, and are answered with their own bytes.
struct Order {
  uint32_t number;
  uint32_t answer_bytes;
  uint32_t delay_us;
  uint32_t content;
};
static_assert(Fixed<Order> && sizeof(Order) == 16);

struct Shape {
  bool is_quiet = false;  // nobody dies, stands still or is closed by a server
  FaultRates rates;
  SimEthernet::Options network;
  int64_t active_ns = 0;
  uint32_t bytes_left = 0;  // of all messages
};

Shape shapeOf(runtime::Random& random) {
  Shape shape;
  shape.is_quiet = random.chance(0.3);
  const auto rate = [&](double most) { return random.chance(0.4) ? 0 : random.unit() * most; };
  shape.rates.loss = rate(0.2);
  shape.rates.duplicate = rate(0.2);
  shape.rates.reorder = rate(0.2);
  shape.rates.corrupt = rate(0.05);
  shape.rates.delay_ns_max = static_cast<int64_t>(random.between(1, 500)) * kMicro;
  shape.network.delay_ns_max = static_cast<int64_t>(random.between(1'000, 100'000));
  shape.network.read_ns_max = static_cast<int64_t>(random.between(1, 20'000));
  shape.network.queue_frames = random.between(20, 1000);
  shape.network.ring_frames = random.between(4, 256);
  shape.network.frame_bytes_max = random.chance(0.7) ? 1514 : static_cast<uint32_t>(random.between(576, 9064));
  shape.active_ns = static_cast<int64_t>(random.between(5, 60)) * kMilli;
  shape.bytes_left = random.chance(0.05) ? 20'000'000 : 1'500'000;
  return shape;
}

class SeededWorld {
 public:
  explicit SeededWorld(uint64_t seed)
      : random_(seed), shape_(shapeOf(random_)), lan_(seed, shape_.network), nodes_(kServers + random_.between(1, 3)) {
    for (size_t i = 0; i < nodes_.size(); ++i) start(i);
  }

  void run() {
    const int64_t end_ns = lan_.nowNs() + shape_.active_ns;
    while (lan_.nowNs() < end_ns) {
      if (random_.chance(0.2)) act();
      round();
    }
    // Now everything has to come to an end, over the same bad network.
    is_over_ = true;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].station == nullptr) start(i);
    }
    ASSERT_TRUE(goOnUntil([this] { return open_calls_ == 0; }, 30 * kSecond)) << open_calls_ << " calls never end";
    ASSERT_TRUE(goOnUntil([this] { return isAllTold(); }, 10 * kSecond)) << "what has arrived is still being sent";
    for (Node& node : nodes_) {
      for (const SessionId session : node.sessions) node.station->endpoint->close(session);
    }
    ASSERT_TRUE(goOnUntil([this] { return isEmpty(); }, 10 * kSecond)) << "something is held for ever";
    for (const Node& node : nodes_) checkEnded(*node.station);
  }
  uint64_t traceHash() const { return lan_.scheduler.traceHash(); }
  uint64_t answeredCount() const { return answered_; }

 private:
  struct Call;
  struct Due {
    RxMessage request;
    int64_t at_ns = 0;
  };
  struct Node {
    std::unique_ptr<Station> station;
    std::vector<SessionId> sessions;  // that it connected and that are not lost
    std::vector<Due> due;             // answers
    std::set<std::tuple<uint32_t, uint32_t, uint16_t, uint32_t>> delivered;
    std::map<uint32_t, std::unique_ptr<Call>> calls;
    size_t lost_seen = 0;
    int64_t away_until_ns = 0;
    int64_t longest_away_ns = 0;
    int64_t back_at_ns = 0;  // of one that died
  };
  struct Call : PendingCall {
    Call(SeededWorld& in, Node& by) : PendingCall(&Call::onComplete), world(in), node(by) {}
    static void onComplete(PendingCall& call, Status status, RxMessage response) {
      auto& self = static_cast<Call&>(call);
      self.world.finish(self, status, std::move(response));
    }
    SeededWorld& world;
    Node& node;
    SessionId session;
    uint32_t number = 0;
    uint32_t bytes = 0;
    uint32_t answer_bytes = 0;
  };

  // ---- processes

  bool isServer(const Node& node) const { return &node < &nodes_[kServers]; }

  DatagramOptions drawOptions() {
    DatagramOptions options;
    options.slots_per_session = static_cast<uint16_t>(random_.between(1, 20));
    options.unasked_packets = static_cast<uint16_t>(random_.between(1, 32));
    options.grant_window = static_cast<uint32_t>(random_.between(1, 80));
    options.granted_messages = static_cast<uint32_t>(random_.between(1, 8));
    options.wants_seal = random_.chance(0.5);
    options.borrowed_ns_max = static_cast<int64_t>(random_.between(1, 50)) * kMilli;
    options.greeting_timeout_ns = kSecond;
    options.idle_probe_ns = 50 * kMilli;
    options.held_bytes_max = 64 * 1024 * 1024;
    return options;
  }

  void start(size_t i) {
    Node& node = nodes_[i];
    FaultRates rates = shape_.rates;
    rates.seed = random_.next();
    node.station = std::make_unique<Station>(lan_, static_cast<uint8_t>(i + 1),
                                             Station::Setup{.role = i < kServers ? Role::Server : Role::Client,
                                                            .options = drawOptions(),
                                                            .rates = rates,
                                                            .wake_by = {}});
    node.station->on_request = [this, &node](RxMessage& request) { take(node, request); };
    if (i < kServers) node.station->listen();
    node.delivered.clear();
    node.lost_seen = 0;
    node.longest_away_ns = 0;
  }

  void die(Node& node) {
    checkAlways(*node.station);
    node.due.clear();
    node.station->die();
    EXPECT_EQ(node.station->lender.heldCount(), 0u) << "what was borrowed by a process that died";
    open_calls_ -= node.calls.size();
    node.calls.clear();
    node.sessions.clear();
    node.station.reset();
    node.back_at_ns = lan_.nowNs() + static_cast<int64_t>(random_.below(20)) * kMilli;
  }

  // ---- what they do

  void act() {
    Node& node = nodes_[random_.below(nodes_.size())];
    if (node.station == nullptr || node.away_until_ns > lan_.nowNs()) return;
    DatagramEndpoint& endpoint = *node.station->endpoint;
    const uint64_t what = random_.below(1000);
    if (what < 700) {
      if (!node.sessions.empty()) ask(node);
    } else if (what < 800) {
      const Node& server = nodes_[random_.below(kServers)];
      if (node.sessions.size() < 3 && server.station != nullptr && &server != &node) {
        node.sessions.push_back(node.station->connect(*server.station, 20 * kSecond));
      }
    } else if (what < 850) {
      if (node.calls.empty()) return;
      auto it = node.calls.begin();
      std::advance(it, random_.below(node.calls.size()));
      endpoint.abandon(it->second->session, *it->second);
      node.calls.erase(it);
      --open_calls_;
    } else if (what < 865) {
      if (!node.sessions.empty()) endpoint.close(node.sessions[random_.below(node.sessions.size())]);
    } else if (what < 880 && !shape_.is_quiet) {
      if (!node.station->opened.empty()) {
        endpoint.close(node.station->opened[random_.below(node.station->opened.size())]);
      }
    } else if (what < 890 && !shape_.is_quiet) {
      const int64_t for_ns =
          static_cast<int64_t>(random_.chance(0.1) ? random_.below(4'000) : random_.below(30)) * kMilli;
      node.away_until_ns = lan_.nowNs() + for_ns;
      node.longest_away_ns = std::max(node.longest_away_ns, for_ns);
    } else if (what < 895 && !shape_.is_quiet) {
      die(node);
    }
  }

  uint32_t drawBytes() {
    const uint64_t kind = random_.below(100);
    uint64_t bytes = random_.below(300);
    if (kind < 5) bytes = 0;
    if (kind >= 60) bytes = random_.below(5'000);
    if (kind >= 80) bytes = random_.below(60'000);
    if (kind >= 92) bytes = random_.below(600'000);
    if (kind >= 98) bytes = random_.below(8'000'000);
    if (bytes > shape_.bytes_left) bytes = random_.below(100);
    shape_.bytes_left -= static_cast<uint32_t>(std::min<uint64_t>(bytes, shape_.bytes_left));
    return static_cast<uint32_t>(bytes);
  }

  void ask(Node& node) {
    const SessionId session = node.sessions[random_.below(node.sessions.size())];
    if (node.station->endpoint->peer(session) == nullptr) return;
    auto call = std::make_unique<Call>(*this, node);
    call->session = session;
    call->number = ++last_number_;
    call->bytes = drawBytes();
    call->answer_bytes = call->bytes;
    TxMessage request;
    if (call->bytes < sizeof(Order)) {
      request = node.station->make(call->bytes, call->number);
    } else {
      call->answer_bytes = drawBytes();
      const uint32_t delay_us = random_.chance(0.7) ? 0 : static_cast<uint32_t>(random_.below(20'000));
      request = node.station->endpoint->allocate(sizeof(Order));
      request.appendHead(Order{call->number, call->answer_bytes, delay_us, 0});
      fillBehind(*node.station, request, call->bytes, call->number);
    }
    if (node.station->endpoint->call(session, request, {}, *call) != Status::Ok) return;
    ++open_calls_;
    node.calls[call->number] = std::move(call);
  }

  // The rest of a message of so many bytes, in chunks.
  void fillBehind(Station& station, TxMessage& message, uint32_t bytes, uint32_t name) {
    uint32_t at = message->head_bytes;
    while (at < bytes) {
      const bool is_last = message->chunk_count + 1 == TxBuffer::kChunkCountMax;
      const auto piece = is_last ? bytes - at : std::min(bytes - at, static_cast<uint32_t>(random_.between(0, 20'000)));
      message.appendChunk(station.lender.borrow(piece, name, at));
      at += piece;
    }
  }

  // ---- what they hear

  void take(Node& node, RxMessage& request) {
    const ReplyTo& to = request.reply_to;
    EXPECT_TRUE(node.delivered.emplace(to.session.index, to.session.generation, to.slot, to.sequence).second)
        << "a request came twice";
    EXPECT_NE(node.station->endpoint->peer(to.session), nullptr) << "of a session that is over";
    int64_t delay_ns = 0;
    const uint32_t bytes = request.messageBytes();
    if (bytes >= sizeof(Order)) {
      const auto order = loadAs<Order>(request.head().data());
      EXPECT_TRUE(numbers_delivered_.insert(order.number).second) << "a request came by two sessions";
      EXPECT_TRUE(isContent(request.head().subspan(sizeof(Order)), order.number, sizeof(Order)));
      delay_ns = order.delay_us * kMicro;
    }
    node.due.push_back({std::move(request), lan_.nowNs() + delay_ns});
  }

  void answerDue(Node& node) {
    for (size_t i = 0; i < node.due.size();) {
      Due& due = node.due[i];
      if (due.at_ns > lan_.nowNs()) {
        ++i;
        continue;
      }
      const ByteSpan head = due.request.head();
      TxMessage response = node.station->endpoint->allocate(64);
      if (head.size() < sizeof(Order)) {
        response.appendHead(head);
      } else {
        const auto order = loadAs<Order>(head.data());
        fillBehind(*node.station, response, order.answer_bytes, order.number | kAnswerBit);
      }
      node.station->endpoint->reply(due.request.reply_to, std::move(response));
      due = std::move(node.due.back());
      node.due.pop_back();
    }
  }

  void finish(Call& call, Status status, RxMessage response) {
    if (status == Status::Ok) {
      ++answered_;
      const uint32_t name = call.bytes < sizeof(Order) ? call.number : call.number | kAnswerBit;
      EXPECT_TRUE(hasContent(response, call.answer_bytes, name)) << "the answer to call " << call.number;
    } else {
      EXPECT_EQ(status, Status::SessionLost);
    }
    Node& node = call.node;
    --open_calls_;
    node.calls.erase(call.number);
    // Calls that complete do what they like.
    if (is_over_ || node.calls.empty()) return;
    if (random_.chance(0.02)) {
      const auto& other = node.calls.begin()->second;
      node.station->endpoint->abandon(other->session, *other);
      node.calls.erase(node.calls.begin());
      --open_calls_;
    } else if (random_.chance(0.02)) {
      node.station->endpoint->close(node.calls.begin()->second->session);
    } else if (random_.chance(0.1) && !node.sessions.empty()) {
      ask(node);
    }
  }

  // ---- time

  void round() {
    uint64_t packets = 0;
    for (Node& node : nodes_) {
      if (node.station == nullptr) {
        if (lan_.nowNs() >= node.back_at_ns) start(static_cast<size_t>(&node - nodes_.data()));
        continue;
      }
      if (node.away_until_ns > lan_.nowNs()) continue;
      answerDue(node);
      node.station->step();
      const auto& lost = node.station->lost;
      for (; node.lost_seen < lost.size(); ++node.lost_seen) {
        // (Whoever accepted may meet the end of a session that its peer closed before it knew that it was open.)
        const bool is_own = std::erase(node.sessions, lost[node.lost_seen].first) != 0;
        if (shape_.is_quiet && is_own) {
          EXPECT_EQ(lost[node.lost_seen].second, Status::Shutdown) << "a session between the living broke";
        }
      }
      const PacketCounts& counts = node.station->endpoint->packetCounts();
      packets += counts.sent + counts.received;
    }
    quiet_rounds_ = packets == packets_ ? quiet_rounds_ + 1 : 0;
    packets_ = packets;
    lan_.pass(quiet_rounds_ > 20 ? 100 * kMicro : 5 * kMicro);
  }

  bool goOnUntil(const std::function<bool()>& condition, int64_t within_ns) {
    const int64_t end_ns = lan_.nowNs() + within_ns;
    while (!condition()) {
      if (lan_.nowNs() > end_ns) return false;
      round();
    }
    return true;
  }

  // True if no node keeps a message for a peer that has it.
  bool isAllTold() const {
    return std::ranges::all_of(nodes_, [](const Node& node) {
      return node.due.empty() && node.station->endpoint->heldCounts().outgoing == 0;
    });
  }

  bool isEmpty() const {
    return std::ranges::all_of(nodes_, [](const Node& node) {
      const HeldCounts held = node.station->endpoint->heldCounts();
      return held.sessions == 0 && held.outgoing == 0 && node.due.empty() && node.station->lender.heldCount() == 0;
    });
  }

  // ---- what is always true

  void checkAlways(const Station& station) {
    EXPECT_FALSE(station.lender.isAnyReleasedTwice());
    EXPECT_EQ(station.trace.count("closing the session"), 0u) << station.trace.all.back();
    EXPECT_EQ(station.trace.count("refusing"), 0u);
    // Ports read what is borrowed after it was sealed: nobody may have got it back before.
    if (shape_.rates.corrupt == 0) {
      EXPECT_EQ(station.endpoint->packetCounts().unproven, 0u);
    }
    if (shape_.is_quiet) {
      EXPECT_EQ(station.endpoint->badSessionCount(), 0u);
    }
  }

  void checkEnded(const Station& station) {
    checkAlways(station);
    const HeldCounts held = station.endpoint->heldCounts();
    EXPECT_EQ(held.blocks, 0u);
    EXPECT_EQ(held.frames, 0u);
    for (const Node& node : nodes_) {
      if (node.station.get() != &station) continue;
      // A node copies nothing while its thread is away; a full ring is read in less than a millisecond.
      EXPECT_LE(station.lender.longestNs(), 50 * kMilli + node.longest_away_ns + 2 * kMilli);
    }
  }

  runtime::Random random_;
  Shape shape_;
  Lan lan_;
  std::vector<Node> nodes_;
  std::set<uint32_t> numbers_delivered_;
  uint32_t last_number_ = 0;
  uint64_t answered_ = 0;
  size_t open_calls_ = 0;
  uint64_t packets_ = 0;
  int quiet_rounds_ = 0;
  bool is_over_ = false;
};

uint64_t fromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(DatagramSeeds, WhateverHappensEndsAndLeavesNothing) {
  const uint64_t first = fromEnvironment("RAMCORE_DATAGRAM_SEED", 1);
  const uint64_t count = fromEnvironment("RAMCORE_DATAGRAM_SEEDS", 200);
  uint64_t answered = 0;
  for (uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededWorld world(seed);
    world.run();
    answered += world.answeredCount();
  }
  if (count >= 100) {
    EXPECT_GT(answered, 50 * count) << "too little happens for this to show anything";
  }
}

TEST(DatagramSeeds, TheSameSeedIsTheSameRun) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SeededWorld first(seed);
    first.run();
    SeededWorld second(seed);
    second.run();
    EXPECT_EQ(first.traceHash(), second.traceHash());
    SeededWorld other(seed + 1000);
    other.run();
    EXPECT_NE(first.traceHash(), other.traceHash());
  }
}

}  // namespace
}  // namespace ramcore::transport::datagram
