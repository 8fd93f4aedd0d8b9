#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/random.h"
#include "runtime/sim/sim_clock.h"
#include "transport/session/session_table.h"
#include "transport/sim/sim_sender.h"
#include "transport/sim/sim_sessions.h"
#include "transport/transport.h"

namespace ramcore::transport {

/// The endpoint of a simulated process. Messages wait in its inbox until the process polls, so a paused process keeps
/// its sessions. Its "hardware" reads the bytes of a message some time after flush(), also while the process is paused;
/// owners are released in the poll after that.
///
/// The network copies messages. A copy is recognised as every datagram transport has to: by its session, which must be
/// open, and by the number of its call, which is higher than that of any request delivered in its slot before.
class SimEndpoint final : public Endpoint, private SimSender::Owner {
 public:
  /// All borrowed. @param random  its own numbers @param wake  as a SimTransport's
  SimEndpoint(SimSessions& network, runtime::Random random, runtime::SimClock& clock, const Limits& limits,
              std::string node, const Identity& identity, std::function<void()> wake);
  /// Ends as if the process died: peers hear that their sessions are lost, unless a partition is between. Calls in
  /// flight are not completed: close their sessions before.
  ~SimEndpoint() override;

  const Limits& limits() const override { return limits_; }
  Outcome<Locator> listen(const Locator& where) override;
  SessionId connect(const Locator& where, uint64_t expected_id, int64_t deadline_ns) override;
  TxMessage allocate(uint32_t head_bytes) override;
  Status call(SessionId session, TxMessage& request, const CallOptions& options, PendingCall& call) override;
  void abandon(SessionId session, PendingCall& call) override;
  void reply(const ReplyTo& to, TxMessage response) override;
  uint32_t poll(MessageSink& sink, uint32_t message_max) override;
  void flush() override { sender_.flush(); }
  bool prepareSleep() override { return inbox_.empty() && closed_.empty() && sender_.isIdle(); }
  void awake() override {}
  const Peer* peer(SessionId session) const override;
  void close(SessionId session) override;
  uint32_t sessionCount() const override { return open_count_; }
  uint64_t badSessionCount() const override { return 0; }
  BorrowedCounts borrowedCounts() const override { return sender_.borrowedCounts(); }

 private:
  friend class SimSessions;

  struct Slot {
    PendingCall* call = nullptr;  // nullptr while taken: abandoned
    uint32_t sequence = 0;
    bool is_taken = false;
    bool is_lost = false;  // request or response: no answer will come
  };
  enum class State : uint8_t { Connecting, Open };
  struct Session : runtime::Timer {  // the timer is the deadline of connecting
    explicit Session(SimEndpoint& endpoint)
        : Timer([](Timer& timer) {
            Session& session = static_cast<Session&>(timer);
            session.endpoint.onConnectDeadline(session.id);
          }),
          endpoint(endpoint) {}
    SimEndpoint& endpoint;
    SessionId id;
    State state = State::Connecting;
    uint64_t connection = 0;
    uint8_t end = 0;
    uint64_t expected_id = 0;
    Peer peer;
    std::vector<Slot> slots;
    std::vector<uint16_t> free_slots;
    std::vector<uint32_t> served;  // by slot: the sequence of the peer's latest request
  };
  // For the sender.
  std::optional<Way> wayOf(SessionId session) const override;
  void closeUnread(SessionId session) override { close(session); }

  // For the network, as events outside of the process.
  void deliver(SimFrameList frame, SessionId session);
  void onConnectDeadline(SessionId session);
  void onMessageLost(SessionId session, uint16_t slot, uint32_t sequence);
  bool stillWaitsForLost(SessionId session, uint16_t slot, uint32_t sequence) const;

  Session* find(SessionId session) const { return sessions_.find(session); }
  Session& addSession();
  static void setSlots(Session& session, uint16_t slot_count);
  std::unique_ptr<Session> removeSession(SessionId session);
  void openSession(Session& session, const Identity& peer, const std::string& peer_node);
  void completeAll(Session& session, Status status);
  void releaseCall(Session& session, const PendingCall& call);

  static void freeSlot(Session& session, uint16_t slot_index);

  // What poll() does with frames that have come.
  void process(MessageSink& sink, SimFrameList frame);
  void processHello(MessageSink& sink, const SimFrame& hello);
  void processWelcome(MessageSink& sink, const SimFrame& welcome);
  void suppress() { ++network_.counts_.suppressed; }
  void processRequest(SimFrameList frame);
  void processResponse(SimFrameList frame);
  void closeSession(MessageSink& sink, SessionId session, Status reason);
  void handOver(MessageSink& sink);
  void tellClosed(MessageSink& sink);
  Status judge(const Identity& other) const;

  SimSessions& network_;
  runtime::SimClock& clock_;
  const Limits& limits_;
  std::string node_;
  const Identity& identity_;
  std::function<void()> wake_;
  runtime::Random random_;
  SessionTable<std::unique_ptr<Session>> sessions_;
  uint32_t open_count_ = 0;
  std::vector<SessionId> closed_;  // closed by the own process; the next poll tells the sink
  std::vector<Session*> ending_;   // sessions whose calls are being completed, which may abandon each other
  SimFrameList inbox_;
  SimSender sender_;
  std::vector<RxMessage> batch_;
  uint32_t delivered_ = 0;
  bool polling_ = false;
};

}  // namespace ramcore::transport
