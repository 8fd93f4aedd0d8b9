#pragma once

#include <string>

#include "transport/session/handshake.h"
#include "transport/verbs/queue_pair.h"

namespace ramcore::transport::verbs {

/// The first part of a session, over a stream: the mutual handshake, then each side tells how its queue pair is
/// reached, with a proof under the key of the session, and the initiator says that it is ready. No peer gets a queue
/// pair before it has proven that it belongs to the cluster. One thread; never blocks.
class Greeting {
 public:
  enum class Step : uint8_t {
    Pending,    ///< waits for the peer
    WantsPair,  ///< setPair() is to be called, and then step() again
    Ready,      ///< the queue pair is connected
    Failed,     ///< status()
  };

  /// @param deadline_ns  when the endpoint gives up.
  Greeting(HandshakeOptions handshake, int64_t deadline_ns, runtime::Entropy& entropy);

  /// Sends what opens the handshake. If the peer is gone, the next step() fails.
  void start(int socket);
  /// Does what can be done now.
  Step step(int socket, const ConnectionTiming& timing);
  void setPair(std::unique_ptr<QueuePair> pair, uint32_t receive_bytes);

  bool isServer() const { return !handshake_.isInitiator(); }
  int64_t deadlineNs() const { return deadline_ns_; }
  bool hasReceived() const { return has_received_; }

  /// Once Ready.
  const Peer& peer() const { return handshake_.peer(); }
  uint16_t slotCount() const { return handshake_.slotCount(); }
  std::unique_ptr<QueuePair> takePair() { return std::move(pair_); }
  bool hasPair() const { return pair_ != nullptr; }
  const QueuePair& pair() const { return *pair_; }
  /// Longest message, header included, that the peer receives without a transfer.
  uint32_t peerReceiveBytes() const { return peer_address_.receive_bytes; }

  /// Once Failed: Unreachable (the peer is gone), Refused, WrongServerId, IoError.
  Status status() const { return status_; }
  const std::string& failureText() const { return failure_text_; }
  bool isBad() const { return is_bad_; }
  /// True if one side has refused the other one.
  bool isRefusal() const { return handshake_.state() == Handshake::State::Failed; }

 private:
  enum class Phase : uint8_t { Handshake, Pair, Address, Ready };

  Step fail(Status status, std::string text, bool is_bad);
  Step failEnded();
  bool sendAll(int socket, ByteSpan bytes);
  bool sendOutput(int socket);
  Step stepHandshake(int socket);
  Step receive(int socket, MutableByteSpan into);
  Step receiveAddress(int socket, const ConnectionTiming& timing);
  Step receiveReady(int socket);
  Handshake handshake_;
  const int64_t deadline_ns_;
  Phase phase_ = Phase::Handshake;
  bool has_received_ = false;
  std::unique_ptr<QueuePair> pair_;
  wire::VerbsAddress own_address_{};
  wire::VerbsAddress peer_address_{};
  size_t received_bytes_ = 0;  ///< of what is received next
  Status status_ = Status::Ok;
  std::string failure_text_;
  bool is_bad_ = false;
};

}  // namespace ramcore::transport::verbs
