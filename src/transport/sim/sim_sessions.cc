#include "transport/sim/sim_sessions.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "base/check.h"
#include "transport/sim/sim_endpoint.h"

namespace ramcore::transport {
namespace {

constexpr uint32_t kMillion = 1'000'000;
constexpr int64_t kReorderNsMax = 200'000;
constexpr uint32_t kSlowNicPpm = 10'000;
constexpr int64_t kSlowNicFactor = 50;

bool isMessage(SimFrameKind kind) { return kind == SimFrameKind::Request || kind == SimFrameKind::Response; }

}  // namespace

void SimFrame::fire(Timer& timer) {
  SimFrame& frame = static_cast<SimFrame&>(timer);
  frame.network.onArrival(frame);
}

SimSessions::SimSessions(runtime::SimScheduler& scheduler, const SimNetworkOptions& options, const SimPaths& paths)
    : scheduler_(scheduler),
      options_(options),
      paths_(paths),
      latency_(scheduler.stream("network.latency")),
      faults_(scheduler.stream("network.faults")) {}

SimSessions::~SimSessions() {
  RC_CHECK_MSG(borrowed_.empty(), "a received message outlived the simulated network");
  RC_CHECK_MSG(listeners_.empty(), "an endpoint outlived the simulated network");
}

// ---- Paths

void SimSessions::releaseStalled() {
  for (auto& [id, connection] : connections_) {
    SimFrameList& stalled = connection.directions[0].stalled;
    while (!stalled.empty()) {
      SimFrameList one;
      one.splice(one.end(), stalled, stalled.begin());
      const int64_t arrival_ns = scheduler_.nowNs() + drawLatency(one.front());
      launch(std::move(one), arrival_ns);
    }
  }
}

bool SimSessions::isRead(uint64_t connection_id, uint8_t from_end) {
  if (paths_.areAllReading()) return true;
  const Connection* connection = find(connection_id);
  return connection == nullptr || paths_.isReading(connection->ends[1 - from_end].node);
}

uint32_t SimSessions::cut(std::string_view a, std::string_view b) {
  uint32_t count = 0;
  for (auto& [id, connection] : connections_) {
    const std::string& first = connection.ends[0].node;
    const std::string& second = connection.ends[1].node;
    if (connection.is_cut || !((first == a && second == b) || (first == b && second == a))) continue;
    cutConnection(connection);
    ++count;
  }
  return count;
}

uint32_t SimSessions::cutAll(std::string_view node) {
  uint32_t count = 0;
  for (auto& [id, connection] : connections_) {
    if (connection.is_cut || (connection.ends[0].node != node && connection.ends[1].node != node)) continue;
    cutConnection(connection);
    ++count;
  }
  return count;
}

void SimSessions::cutConnection(Connection& connection) {
  connection.is_cut = true;
  ++counts_.cuts;
  for (uint8_t end = 0; end < 2; ++end) {
    connection.directions[end].held.clear();
    SimFrameList frame = makeFrame({.kind = SimFrameKind::Lost, .from_end = end, .connection = connection.id});
    const int64_t arrival_ns = scheduler_.nowNs() + drawLatency(frame.front());
    launch(std::move(frame), arrival_ns);
  }
}

// ---- Connections

Outcome<Locator> SimSessions::bind(const Locator& where, SimEndpoint& endpoint) {
  if (where.scheme != "sim" || where.host.empty()) {
    return Failure{Status::BadConfig, "the simulated network listens at sim://node, not at " + where.toString()};
  }
  if (!listeners_.emplace(where.host, &endpoint).second) {
    return Failure{Status::InUse, where.toString() + " is in use; stop the process that listens there"};
  }
  return where;
}

void SimSessions::unbind(SimEndpoint& endpoint) {
  std::erase_if(listeners_, [&endpoint](const auto& listener) { return listener.second == &endpoint; });
}

uint64_t SimSessions::openConnection(const std::string& node, SimEndpoint& endpoint, SessionId session,
                                     const std::string& target) {
  const uint64_t id = ++last_connection_;
  Connection& connection = connections_[id];
  by_id_.push_back(&connection);
  connection.id = id;
  connection.target = target;
  connection.is_datagram =
      options_.mode == SimMode::Datagram || (options_.mode == SimMode::Mixed && faults_.below(2) == 0);
  connection.ends[0] = End{.node = node, .endpoint = &endpoint, .session = session};
  // The endpoint that accepts decides where the messages go. Until then partitions go by the node of the listener, or
  // by the name if none listens.
  const auto listener = listeners_.find(target);
  connection.ends[1].node = listener != listeners_.end() ? listener->second->node_ : target;
  for (uint8_t end = 0; end < 2; ++end) {
    GiveUp& give_up = connection.directions[end].give_up;
    give_up.network = this;
    give_up.connection = id;
    give_up.from_end = end;
  }
  return id;
}

bool SimSessions::acceptConnection(uint64_t connection_id, SimEndpoint& endpoint, SessionId session) {
  Connection* connection = find(connection_id);
  if (connection == nullptr || connection->is_cut) return false;
  connection->ends[1] = End{.node = endpoint.node_, .endpoint = &endpoint, .session = session};
  return true;
}

void SimSessions::detach(uint64_t connection_id, uint8_t end) {
  Connection* connection = find(connection_id);
  if (connection == nullptr) return;
  connection->ends[end].endpoint = nullptr;
  if (connection->ends[1 - end].endpoint != nullptr) return;
  by_id_[connection_id - 1] = nullptr;
  connections_.erase(connection_id);
}

// ---- Sending

bool SimSessions::happens(uint32_t ppm) { return ppm != 0 && faults_.below(kMillion) < ppm; }

int64_t SimSessions::drawBelow(int64_t bound_ns) {
  return static_cast<int64_t>(latency_.below(static_cast<uint64_t>(bound_ns) + 1));
}

int64_t SimSessions::drawLatency(const SimFrame& frame) {
  return options_.latency_ns_min + drawBelow(options_.latency_ns_max - options_.latency_ns_min) +
         static_cast<int64_t>(frame.bytes.size()) * options_.ns_per_kilobyte / 1024;
}

int64_t SimSessions::drawNicDelay() {
  const int64_t bound_ns = options_.nic_ns_max * (latency_.below(kMillion) < kSlowNicPpm ? kSlowNicFactor : 1);
  return drawBelow(bound_ns);
}

SimFrameList SimSessions::makeFrame(const SimFrameContents& contents) {
  SimFrameList frame;
  frame.emplace_back(*this, contents);
  frame.front().self = frame.begin();
  return frame;
}

void SimSessions::sendControl(uint64_t connection, uint8_t from_end, SimFrameKind kind) {
  send(makeFrame({.kind = kind, .from_end = from_end, .connection = connection}));
}

void SimSessions::send(SimFrameList one) {
  const SimFrame& frame = one.front();
  Connection* connection = find(frame.connection);
  if (connection == nullptr || connection->is_cut) return;
  const bool blocked =
      paths_.isBlocked(connection->ends[frame.from_end].node, connection->ends[1 - frame.from_end].node);
  if (isMessage(frame.kind)) {
    ++counts_.sent;
    scheduler_.mix(frame.bytes);
    if (happens(rates_.lose_ppm)) {
      loseMessage(*connection, frame);
      return;
    }
  }
  if (connection->is_datagram && isMessage(frame.kind)) {
    if (blocked) {
      ++counts_.blocked;
      if (!isHushed(*connection)) loseMessage(*connection, frame);
      return;
    }
    sendDatagram(*connection, std::move(one));
    return;
  }
  sendInOrder(*connection, std::move(one), blocked);
}

// Sends messages of streams, and the beginning and end of every session. Frames that a partition blocks are held, as by
// a sender that repeats them until it gives up. Only Lost is dropped: that news is not worth repeating.
void SimSessions::sendInOrder(Connection& connection, SimFrameList one, bool blocked) {
  const SimFrame& frame = one.front();
  Direction& direction = connection.directions[frame.from_end];
  if (blocked || !direction.held.empty()) {
    ++counts_.blocked;
    if (frame.kind == SimFrameKind::Lost) return;
    if (direction.held.empty() && !isHushed(connection)) {
      scheduler_.after(direction.give_up,
                       options_.give_up_ns_min + drawBelow(options_.give_up_ns_max - options_.give_up_ns_min));
    }
    direction.held.splice(direction.held.end(), one);
    return;
  }
  int64_t arrival_ns = scheduler_.nowNs() + drawLatency(frame);
  if (happens(rates_.delay_ppm)) {
    ++counts_.delayed;
    arrival_ns += drawBelow(rates_.delay_ns_max);
  }
  arrival_ns = std::max(arrival_ns, direction.last_arrival_ns + 1);
  direction.last_arrival_ns = arrival_ns;
  if (!isMessage(frame.kind)) direction.not_before_ns = arrival_ns + 1;
  launch(std::move(one), arrival_ns);
}

void SimSessions::sendDatagram(Connection& connection, SimFrameList one) {
  const SimFrame& frame = one.front();
  Direction& direction = connection.directions[frame.from_end];
  if (frame.kind == SimFrameKind::Request && frame.from_end == 0 && isStalled(connection)) {
    ++counts_.late;
    tellCaller(connection, frame);
    direction.stalled.splice(direction.stalled.end(), one);
    return;
  }
  if (happens(rates_.duplicate_ppm)) duplicate(direction, frame);
  int64_t arrival_ns = std::max(scheduler_.nowNs() + drawLatency(frame), direction.not_before_ns);
  if (happens(rates_.delay_ppm)) {
    ++counts_.delayed;
    arrival_ns += drawBelow(rates_.delay_ns_max);
  }
  if (happens(rates_.reorder_ppm)) arrival_ns += drawBelow(kReorderNsMax);
  if (happens(rates_.late_ppm)) {
    ++counts_.late;
    arrival_ns += drawBelow(rates_.late_ns_max);
    tellCaller(connection, frame);
  }
  if (arrival_ns < direction.last_arrival_ns) ++counts_.reordered;
  direction.last_arrival_ns = std::max(direction.last_arrival_ns, arrival_ns);
  launch(std::move(one), arrival_ns);
}

void SimSessions::launch(SimFrameList one, int64_t arrival_ns) {
  SimFrame& frame = one.front();
  in_flight_.splice(in_flight_.end(), one);
  scheduler_.at(frame, arrival_ns);
}

void SimSessions::releaseHeld() {
  for (auto& [id, connection] : connections_) {
    for (uint8_t end = 0; end < 2; ++end) {
      Direction& direction = connection.directions[end];
      if (direction.held.empty() || paths_.isBlocked(connection.ends[end].node, connection.ends[1 - end].node))
        continue;
      direction.give_up.cancel();
      // The sender repeats the frames some time after the repair.
      const int64_t repeat_ns = drawBelow(options_.give_up_ns_min);
      while (!direction.held.empty()) {
        SimFrameList one;
        one.splice(one.end(), direction.held, direction.held.begin());
        const int64_t arrival_ns = std::max(scheduler_.nowNs() + repeat_ns, direction.last_arrival_ns + 1);
        direction.last_arrival_ns = arrival_ns;
        direction.not_before_ns = arrival_ns + 1;
        launch(std::move(one), arrival_ns);
      }
    }
  }
}

void SimSessions::giveUpHeld(GiveUp& give_up) {
  Connection* connection = find(give_up.connection);
  RC_CHECK(connection != nullptr);
  connection->directions[give_up.from_end].held.clear();
  ++counts_.cuts;
  breakEnd(*connection, give_up.from_end);
}

// One end gives the session up. The other one is told, if that gets through.
void SimSessions::breakEnd(Connection& connection, uint8_t end) {
  End& here = connection.ends[end];
  if (here.endpoint == nullptr) return;
  here.endpoint->deliver(
      makeFrame({.kind = SimFrameKind::Lost, .from_end = static_cast<uint8_t>(1 - end), .connection = connection.id}),
      here.session);
  const bool is_unheard =
      connection.is_datagram && end == 0 && (isStalled(connection) || happens(rates_.lose_notice_ppm));
  if (!is_unheard) sendControl(connection.id, end, SimFrameKind::Lost);
}

void SimSessions::loseMessage(Connection& connection, const SimFrame& frame) {
  ++counts_.lost;
  if (!connection.is_datagram) {
    cutConnection(connection);
    return;
  }
  tellCaller(connection, frame);
}

// Tells the end that called, which would otherwise wait for ever.
void SimSessions::tellCaller(const Connection& connection, const SimFrame& frame) {
  const auto caller = static_cast<uint8_t>(frame.kind == SimFrameKind::Request ? frame.from_end : 1 - frame.from_end);
  const End& end = connection.ends[caller];
  if (end.endpoint != nullptr) end.endpoint->onMessageLost(end.session, frame.slot, frame.sequence);
}

void SimSessions::watchLost(uint64_t connection, uint8_t end, uint16_t slot, uint32_t sequence) {
  launch(makeFrame({.kind = SimFrameKind::GiveUp,
                    .from_end = end,
                    .connection = connection,
                    .slot = slot,
                    .sequence = sequence}),
         scheduler_.nowNs() + options_.give_up_ns_min + drawBelow(options_.give_up_ns_max - options_.give_up_ns_min));
}

void SimSessions::duplicate(const Direction& direction, const SimFrame& frame) {
  ++counts_.duplicated;
  SimFrameList copy = makeFrame(frame);
  copy.front().is_copy = true;
  // Half of the copies arrive close to the original, and often before it.
  const int64_t later_ns = drawBelow(faults_.below(2) == 0 ? options_.latency_ns_max : rates_.duplicate_ns_max);
  launch(std::move(copy), std::max(scheduler_.nowNs() + options_.latency_ns_min + later_ns, direction.not_before_ns));
}

// ---- Arriving

void SimSessions::onArrival(SimFrame& frame) {
  SimFrameList one;
  one.splice(one.end(), in_flight_, frame.self);
  Connection* connection = find(frame.connection);
  if (frame.is_copy) {
    // If the session is over, a receiver finds none for the copy.
    const bool is_over =
        connection == nullptr || connection->is_cut || connection->ends[1 - frame.from_end].endpoint == nullptr;
    counts_.suppressed += is_over ? 1 : 0;
    if (is_over || paths_.isBlocked(connection->ends[frame.from_end].node, connection->ends[1 - frame.from_end].node))
      return;
  }
  if (connection == nullptr) return;
  if (frame.kind == SimFrameKind::GiveUp) {
    const End& end = connection->ends[frame.from_end];
    if (end.endpoint == nullptr || !end.endpoint->stillWaitsForLost(end.session, frame.slot, frame.sequence)) return;
    ++counts_.cuts;
    breakEnd(*connection, frame.from_end);
    return;
  }
  if (connection->is_cut && frame.kind != SimFrameKind::Lost) return;
  if (frame.kind == SimFrameKind::Hello) {
    arriveHello(*connection, std::move(one));
    return;
  }
  const End& end = connection->ends[1 - frame.from_end];
  const bool is_given_up = connection->ends[frame.from_end].endpoint == nullptr;
  if (end.endpoint != nullptr) {
    if (frame.kind == SimFrameKind::Request && is_given_up) ++counts_.given_up_late;
    end.endpoint->deliver(std::move(one), end.session);
  } else if (frame.kind != SimFrameKind::Lost) {
    // The session is unknown at the other end, or over: the sender is told.
    sendControl(connection->id, static_cast<uint8_t>(1 - frame.from_end), SimFrameKind::Lost);
  }
}

void SimSessions::arriveHello(Connection& connection, SimFrameList one) {
  const auto listener = listeners_.find(connection.target);
  if (listener != listeners_.end()) {
    listener->second->deliver(std::move(one), SessionId{});
    return;
  }
  send(makeFrame(
      {.kind = SimFrameKind::Refusal, .from_end = 1, .connection = connection.id, .status = Status::Unreachable}));
}

// ---- Receiving

RxMessage SimSessions::borrow(SimFrameList one, runtime::Random& random) {
  SimFrame& frame = one.front();
  borrowed_.splice(borrowed_.end(), one);
  const ByteSpan bytes = frame.bytes;
  // The head is at least what the sender asked for. Where the rest is split means nothing, so it is split anywhere.
  size_t head_bytes = std::min<size_t>(frame.contiguous_bytes, bytes.size());
  if (random.below(4) == 0) head_bytes = bytes.size();
  ByteSpan rest = bytes.subspan(head_bytes);
  size_t span_count = 0;
  while (!rest.empty()) {
    const bool last = span_count + 1 == SimFrame::kTailSpansMax || random.below(2) == 0;
    const size_t span_bytes = last ? rest.size() : 1 + random.below(rest.size());
    frame.tail[span_count++] = rest.first(span_bytes);
    rest = rest.subspan(span_bytes);
  }
  return RxMessage(bytes.first(head_bytes), std::span(frame.tail).first(span_count), this,
                   reinterpret_cast<uint64_t>(&frame));
}

void SimSessions::releaseMessage(uint64_t token) noexcept {
  SimFrame* frame = reinterpret_cast<SimFrame*>(token);
  borrowed_.erase(frame->self);
}

}  // namespace ramcore::transport
