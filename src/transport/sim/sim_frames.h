#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/sim/sim_clock.h"
#include "transport/datagram/datagram_endpoint.h"
#include "transport/sim/sim_ethernet.h"

namespace ramcore::transport {

class SimFrameNodes;
class SimNetwork;

/// What a process polls where the network carries frames (SimMode::Frames): the product's protocol over them, on a port
/// of its own at the simulated switch. Locators are `sim://node` all the same.
class SimFramesEndpoint final : public Endpoint {
 public:
  static datagram::DatagramOptions optionsOf(const SimNetwork& network, uint16_t slots_per_session);

  /// All borrowed. @param wake  as a SimTransport's
  SimFramesEndpoint(SimNetwork& network, runtime::SimClock& clock, const Limits& limits, std::string node,
                    const Identity& identity, std::function<void()> wake);
  ~SimFramesEndpoint() override;

  const Limits& limits() const override { return inner_->limits(); }
  Outcome<Locator> listen(const Locator& where) override;
  SessionId connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns) override;
  TxMessage allocate(uint32_t head_bytes) override { return inner_->allocate(head_bytes); }
  Status call(SessionId session, TxMessage& request, const CallOptions& options, PendingCall& call) override {
    return inner_->call(session, request, options, call);
  }
  void abandon(SessionId session, PendingCall& call) override { inner_->abandon(session, call); }
  void reply(const ReplyTo& to, TxMessage response) override { inner_->reply(to, std::move(response)); }
  uint32_t poll(MessageSink& sink, uint32_t message_max) override { return inner_->poll(sink, message_max); }
  void flush() override { inner_->flush(); }
  bool prepareSleep() override { return inner_->prepareSleep(); }
  void awake() override { inner_->awake(); }
  const Peer* peer(SessionId session) const override { return inner_->peer(session); }
  void close(SessionId session) override { inner_->close(session); }
  uint32_t sessionCount() const override { return inner_->sessionCount(); }
  uint64_t badSessionCount() const override { return inner_->badSessionCount(); }
  BorrowedCounts borrowedCounts() const override { return inner_->borrowedCounts(); }
  SendCounts sendCounts() const override { return inner_->sendCounts(); }
  PacketCounts packetCounts() const override { return inner_->packetCounts(); }

 private:
  void wakeBy(int64_t local_ns);

  SimFrameNodes& nodes_;
  runtime::SimClock& clock_;
  const std::string node_;
  const std::function<void()> wake_;
  runtime::SeededEntropy entropy_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  int64_t armed_ns_ = runtime::kNever;
  SimEthernetPort port_;
  std::unique_ptr<datagram::DatagramEndpoint> inner_;
};

}  // namespace ramcore::transport
