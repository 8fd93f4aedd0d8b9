#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/sim/sim_scheduler.h"
#include "transport/sim/sim_buffers.h"
#include "transport/sim/sim_ethernet.h"
#include "transport/sim/sim_frame.h"

namespace ramcore::transport {

class SimEndpoint;
class SimFramesEndpoint;

/// What the sessions of a simulated network are made of.
enum class SimMode : uint8_t {
  Stream,    ///< like tcp and shm: messages keep their order; one that cannot be delivered ends the session
  Datagram,  ///< like our own protocol on frames: each message is lost, delayed and overtaken for itself
  Mixed,     ///< each session is one or the other, by the seed
  /// The product's protocol over frames of a simulated switch, which loses, delays, copies and changes them. Nobody
  /// hears that a peer is gone but by its silence: sessions cannot be cut, and nothing is stalled.
  Frames,
};

/// The quiet part of the network. Times are drawn uniformly up to the bounds.
struct SimNetworkOptions {
  SimMode mode = SimMode::Mixed;
  int64_t latency_ns_min = 1'000;
  int64_t latency_ns_max = 20'000;
  int64_t ns_per_kilobyte = 100;  ///< of bandwidth
  int64_t nic_ns_max = 3'000;     ///< from flush() until the bytes have been read and owners can be released
  uint16_t slots_per_session = 32;
  /// How long at most bytes are borrowed by a message that waits because the node it goes to reads nothing.
  int64_t borrowed_ns_max = 100'000'000;
  /// What may wait, copied, for one session whose peer reads nothing; beyond it the session is closed.
  uint64_t unread_bytes_max = 64 * 1024 * 1024;
  /// How long a sender tries before it gives a session up: a stream whose messages are held by a partition, a datagram
  /// session whose lost message somebody still waits for.
  int64_t give_up_ns_min = 100'000'000;
  int64_t give_up_ns_max = 2'000'000'000;
};

/// Faults that happen by themselves, per message, in millionths.
struct SimFaultRates {
  uint32_t lose_ppm = 0;       ///< datagram: the message is gone. Stream: the session is cut
  uint32_t delay_ppm = 0;      ///< it arrives up to delay_ns_max later
  uint32_t reorder_ppm = 0;    ///< datagram: it arrives a little later, so that others overtake it
  uint32_t duplicate_ppm = 0;  ///< datagram: it arrives twice, the copy up to duplicate_ns_max later
  /// Datagram: it arrives up to late_ns_max later. Its caller cannot tell that from a loss and may give the session up
  /// before; `lose_notice_ppm` of the times the other end does not hear that, and takes it when it comes.
  uint32_t late_ppm = 0;
  uint32_t lose_notice_ppm = 0;
  int64_t delay_ns_max = 20'000'000;
  int64_t late_ns_max = 3'000'000'000;
  int64_t duplicate_ns_max = 3'000'000'000;
};

/// What really happened, for the totals of a run.
struct SimFaultCounts {
  uint64_t sent = 0;     ///< messages, to compare with
  uint64_t lost = 0;     ///< by themselves
  uint64_t blocked = 0;  ///< lost or held because of a partition
  uint64_t delayed = 0;
  uint64_t late = 0;
  uint64_t given_up_late = 0;  ///< requests that arrived after their caller had given the session up
  uint64_t reordered = 0;      ///< arrived before one that was sent earlier on the same session
  uint64_t duplicated = 0;     ///< messages that were sent once and travelled twice
  uint64_t suppressed = 0;     ///< recognised by the receiver, by session or call number, and thrown away
  uint64_t changed = 0;        ///< frames of which a bit was turned over
  uint64_t partitions = 0;
  uint64_t cuts = 0;  ///< sessions ended by a fault
};

/// The network of a simulated cluster: connects the endpoints of all nodes, takes its time, and fails by the seed and
/// on command. Nodes are known by name; a restarted process keeps its node's name.
///
/// Copies of a message arrive before or after it, also when its call is answered and its session is over. Endpoints
/// recognise them: the contract of transport.h holds on top of this network.
///
/// One thread. The scheduler outlives the network; the network outlives its endpoints, messages and buffers (checked).
class SimNetwork final : private RxOwner {
 public:
  SimNetwork(runtime::SimScheduler& scheduler, const SimNetworkOptions& options);
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;
  ~SimNetwork();

  const SimNetworkOptions& options() const { return options_; }
  /// From now on; messages on their way keep their fate. Of frames also a tenth as many as are lost are changed.
  void setRates(const SimFaultRates& rates);
  const SimFaultRates& rates() const { return rates_; }

  /// Nothing gets from `from` to `to` any more; the other direction works.
  void partitionOneWay(std::string_view from, std::string_view to);
  void partition(std::string_view a, std::string_view b);
  /// Nothing gets to or from `node`: its cable is out, or its machine is off.
  void isolate(std::string_view node);
  /// A path that swallows the requests of datagram sessions and delivers them at unstall(). Their callers take them for
  /// lost, and the receiver does not hear that they gave the session up.
  void stall(std::string_view from, std::string_view to);
  void unstall();
  /// The process at `node` takes nothing out of its connections, as one that is stopped in a debugger: messages to it
  /// wait at their senders. Those sent after resumeReading() may overtake what waited.
  void stopReading(std::string_view node);
  void resumeReading(std::string_view node);
  /// Nothing gets to or from `node`, and nobody's transport ever gives it up: its machine hangs, or something between
  /// acknowledges what it drops. Streams hold their messages for ever, and callers are not told of what datagrams lose.
  void hush(std::string_view node);
  void unhush(std::string_view node);
  /// Undo; what streams held is delivered then, if they still are.
  void heal(std::string_view a, std::string_view b);
  void rejoin(std::string_view node);
  void healAll();
  bool isBlocked(std::string_view from, std::string_view to) const;

  /// Ends all sessions between two nodes, or all of one node; both ends hear it. Returns how many.
  uint32_t cut(std::string_view a, std::string_view b);
  uint32_t cutAll(std::string_view node);

  /// The process at `node` is dead: of frames, it hears nothing and is not heard of any more. (Sessions are cut, or
  /// their node isolated.) Its successor is, from the time on when it has an endpoint.
  void silence(std::string_view node);

  SimFaultCounts counts() const;

 private:
  friend class SimEndpoint;
  friend struct SimFrame;

  struct End {
    std::string node;
    SimEndpoint* endpoint = nullptr;  // nullptr: not accepted yet, or over
    SessionId session;
  };
  struct GiveUp : runtime::Timer {
    GiveUp()
        : Timer([](Timer& timer) { static_cast<GiveUp&>(timer).network->giveUpHeld(static_cast<GiveUp&>(timer)); }) {}
    SimNetwork* network = nullptr;
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

  // For endpoints on frames.
  friend class SimFramesEndpoint;
  friend class SimTransport;
  SimEthernet* ethernet() { return ethernet_.get(); }
  const datagram::MacAddress& addressOf(std::string_view node);
  uint64_t frameSeed();
  void join(SimFramesEndpoint& endpoint) { frame_endpoints_.push_back(&endpoint); }
  void leave(SimFramesEndpoint& endpoint);
  int64_t nowNs() const { return scheduler_.nowNs(); }
  void callAt(int64_t at_ns, std::function<void()> action) { scheduler_.call(at_ns, std::move(action)); }

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
  uint64_t nextEndpointNumber() { return ++last_endpoint_; }
  runtime::SimScheduler& scheduler() { return scheduler_; }
  int64_t drawNicDelay();

  // RxOwner
  void releaseMessage(uint64_t token) noexcept override;

  Connection* find(uint64_t connection) { return connection - 1 < by_id_.size() ? by_id_[connection - 1] : nullptr; }
  /// False if the process at the other end takes nothing.
  bool isRead(uint64_t connection, uint8_t from_end);
  bool isStalled(const Connection& connection) const;
  bool isHushed(const Connection& connection) const;
  bool happens(uint32_t ppm);
  int64_t drawBelow(int64_t bound_ns);
  int64_t drawLatency(const SimFrame& frame);
  void sendInOrder(Connection& connection, SimFrameList frame, bool blocked);
  void sendDatagram(Connection& connection, SimFrameList frame);
  void launch(SimFrameList frame, int64_t arrival_ns);
  void releaseHeld();
  void giveUpHeld(GiveUp& give_up);
  void duplicate(const Direction& direction, const SimFrame& frame);
  void loseMessage(Connection& connection, const SimFrame& frame);
  static void tellCaller(const Connection& connection, const SimFrame& frame);
  void cutConnection(Connection& connection);
  void breakEnd(Connection& connection, uint8_t end);
  void onArrival(SimFrame& frame);
  void arriveHello(Connection& connection, SimFrameList frame);

  runtime::SimScheduler& scheduler_;
  SimNetworkOptions options_;
  SimFaultRates rates_;
  SimFaultCounts counts_;
  runtime::Random latency_;
  runtime::Random faults_;
  std::set<std::pair<std::string, std::string>> blocked_;
  std::set<std::string> not_reading_;
  std::set<std::string> isolated_;
  std::set<std::string> hushed_;
  std::set<std::pair<std::string, std::string>> stalled_;
  std::map<std::string, SimEndpoint*> listeners_;
  std::map<uint64_t, Connection> connections_;  // those that are not over, by id
  std::vector<Connection*> by_id_;              // all there have been; nullptr: over
  uint64_t last_connection_ = 0;
  uint64_t last_endpoint_ = 0;
  SimFrameList in_flight_;
  SimFrameList borrowed_;
  SimBufferPool buffers_;
  std::unique_ptr<SimEthernet> ethernet_;  // of frames
  std::map<std::string, datagram::MacAddress, std::less<>> addresses_;
  std::map<datagram::MacAddress, std::string> nodes_by_address_;
  std::vector<SimFramesEndpoint*> frame_endpoints_;
};

}  // namespace ramcore::transport
