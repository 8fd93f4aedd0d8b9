#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/random.h"
#include "runtime/sim/sim_scheduler.h"
#include "transport/sim/sim_buffers.h"
#include "transport/sim/sim_frame.h"
#include "transport/sim/sim_network_options.h"
#include "transport/sim/sim_paths.h"

namespace ramcore::transport {

class SimEndpoint;

/// The model of sessions of a simulated network: connects its endpoints, takes its time, loses, delays and copies
/// messages by the seed, and holds what a path does not let through.
///
/// One thread. All references outlive it; it outlives its endpoints, messages and buffers (checked).
class SimSessions final : private RxOwner {
 public:
  SimSessions(runtime::SimScheduler& scheduler, const SimNetworkOptions& options, const SimPaths& paths);
  SimSessions(const SimSessions&) = delete;
  SimSessions& operator=(const SimSessions&) = delete;
  ~SimSessions();

  const SimNetworkOptions& options() const { return options_; }
  /// Sets the rates from now on.
  void setRates(const SimFaultRates& rates) { rates_ = rates; }
  const SimFaultRates& rates() const { return rates_; }
  const SimFaultCounts& counts() const { return counts_; }

  /// As SimNetwork's.
  uint32_t cut(std::string_view a, std::string_view b);
  uint32_t cutAll(std::string_view node);
  /// Delivers what streams have held, as far as paths are open again.
  void releaseHeld();
  /// Delivers what stalled paths have swallowed.
  void releaseStalled();

 private:
  friend class SimEndpoint;
  friend class SimSender;
  friend struct SimFrame;

  struct End {
    std::string node;
    SimEndpoint* endpoint = nullptr;  // nullptr: not accepted yet, or over
    SessionId session;
  };
  struct GiveUp : runtime::Timer {
    GiveUp()
        : Timer([](Timer& timer) { static_cast<GiveUp&>(timer).network->giveUpHeld(static_cast<GiveUp&>(timer)); }) {}
    SimSessions* network = nullptr;
    uint64_t connection = 0;
    uint8_t from_end = 0;
  };
  struct Direction {
    int64_t last_arrival_ns = 0;
    int64_t not_before_ns = 0;  // the handshake's arrival: nothing overtakes it
    SimFrameList held;
    SimFrameList stalled;
    GiveUp give_up;
  };
  // Two ends: 0 connected, 1 accepted.
  struct Connection {
    uint64_t id = 0;
    std::string target;
    bool is_datagram = false;
    bool is_cut = false;
    End ends[2];
    Direction directions[2];  // from the end of this number
  };

  // For endpoints.
  Outcome<Locator> bind(const Locator& where, SimEndpoint& endpoint);
  void unbind(SimEndpoint& endpoint);
  uint64_t openConnection(const std::string& node, SimEndpoint& endpoint, SessionId session, const std::string& target);
  // False if the other end is gone already.
  bool acceptConnection(uint64_t connection, SimEndpoint& endpoint, SessionId session);
  const std::string& nodeOf(uint64_t connection, uint8_t end) { return find(connection)->ends[end].node; }
  void detach(uint64_t connection, uint8_t end);
  SimFrameList makeFrame(const SimFrameContents& contents);
  void send(SimFrameList frame);
  void sendControl(uint64_t connection, uint8_t from_end, SimFrameKind kind);
  // Ends the session some time later if `end` still waits for the answer then.
  void watchLost(uint64_t connection, uint8_t end, uint16_t slot, uint32_t sequence);
  RxMessage borrow(SimFrameList frame, runtime::Random& random);
  SimBufferPool& buffers() { return buffers_; }
  runtime::SimScheduler& scheduler() { return scheduler_; }
  int64_t drawNicDelay();

  // RxOwner
  void releaseMessage(uint64_t token) noexcept override;

  Connection* find(uint64_t connection) { return connection - 1 < by_id_.size() ? by_id_[connection - 1] : nullptr; }
  /// False if the process at the other end takes nothing.
  bool isRead(uint64_t connection, uint8_t from_end);
  bool isStalled(const Connection& connection) const {
    return paths_.isStalled(connection.ends[0].node, connection.ends[1].node);
  }
  bool isHushed(const Connection& connection) const {
    return paths_.isHushed(connection.ends[0].node, connection.ends[1].node);
  }
  bool happens(uint32_t ppm);
  int64_t drawBelow(int64_t bound_ns);
  int64_t drawLatency(const SimFrame& frame);
  void sendInOrder(Connection& connection, SimFrameList frame, bool blocked);
  void sendDatagram(Connection& connection, SimFrameList frame);
  void launch(SimFrameList frame, int64_t arrival_ns);
  void giveUpHeld(GiveUp& give_up);
  void duplicate(const Direction& direction, const SimFrame& frame);
  void loseMessage(Connection& connection, const SimFrame& frame);
  static void tellCaller(const Connection& connection, const SimFrame& frame);
  void cutConnection(Connection& connection);
  void breakEnd(Connection& connection, uint8_t end);
  void onArrival(SimFrame& frame);
  void arriveHello(Connection& connection, SimFrameList frame);

  runtime::SimScheduler& scheduler_;
  const SimNetworkOptions& options_;
  const SimPaths& paths_;
  SimFaultRates rates_;
  SimFaultCounts counts_;
  runtime::Random latency_;
  runtime::Random faults_;
  std::map<std::string, SimEndpoint*> listeners_;
  std::map<uint64_t, Connection> connections_;  // those that are not over, by id
  std::vector<Connection*> by_id_;              // all there have been; nullptr: over
  uint64_t last_connection_ = 0;
  SimFrameList in_flight_;
  SimFrameList borrowed_;
  SimBufferPool buffers_;
};

}  // namespace ramcore::transport
