#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "runtime/sim/sim_scheduler.h"
#include "transport/sim/sim_frame_nodes.h"
#include "transport/sim/sim_network_options.h"
#include "transport/sim/sim_paths.h"
#include "transport/sim/sim_sessions.h"

namespace ramcore::transport {

class SimFramesEndpoint;

/// The network of a simulated cluster: connects the endpoints of all nodes, takes its time, and fails by the seed and
/// on command. Nodes are known by name; a restarted process keeps its node's name.
///
/// Copies of a message arrive before or after it, also when its call is answered and its session is over. Endpoints
/// recognise them: the contract of transport.h holds on top of this network.
///
/// One thread. The scheduler outlives the network; the network outlives its endpoints, messages and buffers (checked).
class SimNetwork {
 public:
  SimNetwork(runtime::SimScheduler& scheduler, const SimNetworkOptions& options);
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;
  ~SimNetwork();

  const SimNetworkOptions& options() const { return options_; }
  /// Sets the rates from now on; messages on their way keep their fate. In SimMode::Frames a tenth as many frames as
  /// are lost are changed as well.
  void setRates(const SimFaultRates& rates);
  const SimFaultRates& rates() const { return sessions_.rates(); }

  /// Nothing gets from `from` to `to` any more; the other direction works.
  void partitionOneWay(std::string_view from, std::string_view to);
  void partition(std::string_view a, std::string_view b);
  /// Nothing gets to or from `node`: its cable is out, or its machine is off.
  void isolate(std::string_view node);
  /// A path that swallows the requests of datagram sessions and delivers them at unstall(). Their callers take them for
  /// lost, and the receiver does not hear that they gave the session up.
  void stall(std::string_view from, std::string_view to) { paths_.stall(from, to); }
  void unstall();
  /// The process at `node` takes nothing out of its connections, as one that is stopped in a debugger: messages to it
  /// wait at their senders. Those sent after resumeReading() may overtake what waited.
  void stopReading(std::string_view node);
  void resumeReading(std::string_view node);
  /// Nothing gets to or from `node`, and nobody's transport ever gives it up: its machine hangs, or something between
  /// acknowledges what it drops. Streams hold their messages for ever, and callers are not told of what datagrams lose.
  void hush(std::string_view node) { paths_.hush(node); }
  void unhush(std::string_view node);
  /// These undo partitions. What streams held is delivered then, if they still exist.
  void heal(std::string_view a, std::string_view b);
  void rejoin(std::string_view node);
  void healAll();
  bool isBlocked(std::string_view from, std::string_view to) const { return paths_.isBlocked(from, to); }

  /// Ends all sessions between two nodes, or all of one node; both ends hear it. Returns how many.
  uint32_t cut(std::string_view a, std::string_view b) { return sessions_.cut(a, b); }
  uint32_t cutAll(std::string_view node) { return sessions_.cutAll(node); }

  /// The process at `node` is dead: in SimMode::Frames no frame reaches it or comes from it any more. (In the other
  /// modes its sessions are cut, or the node is isolated.) Frames reach the next process at `node` from the time on
  /// when that has an endpoint.
  void silence(std::string_view node);

  SimFaultCounts counts() const;

 private:
  friend class SimFramesEndpoint;
  friend class SimTransport;

  SimSessions& sessions() { return sessions_; }
  // nullptr, unless the mode is Frames.
  SimFrameNodes* frames() { return frames_.get(); }
  runtime::Random endpointRandom();
  uint64_t frameSeed();

  runtime::SimScheduler& scheduler_;
  const SimNetworkOptions options_;
  SimPaths paths_;
  uint64_t partitions_ = 0;
  uint64_t last_endpoint_ = 0;
  SimSessions sessions_;
  std::unique_ptr<SimFrameNodes> frames_;
};

}  // namespace ramcore::transport
