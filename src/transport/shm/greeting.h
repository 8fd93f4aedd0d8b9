#pragma once

#include <string>

#include "transport/os/descriptor.h"
#include "transport/session/handshake.h"
#include "transport/shm/shared_memory.h"

namespace ramcore::transport::shm {

/// The first part of a session: the mutual handshake over the UNIX socket, and then, from the server to the client, the
/// memory with the rings. One thread; never blocks.
class Greeting {
 public:
  enum class Step : uint8_t {
    Pending,  ///< waits for the peer
    Ready,    ///< peer(), slotCount() and takeMemory() are there
    Failed,   ///< status()
  };

  /// @param handshake    options of the handshake; its acceptor makes the memory.
  /// @param ring_bytes   of the memory that an acceptor makes.
  /// @param deadline_ns  when the endpoint gives up.
  Greeting(HandshakeOptions handshake, uint32_t ring_bytes, int64_t deadline_ns, runtime::Entropy& entropy);

  /// Sends what opens the handshake. If the peer is gone, the next step() fails.
  void start(int socket);
  /// Does what can be done now; called when there is something to read.
  Step step(int socket);
  bool isServer() const { return !handshake_.isInitiator(); }
  int64_t deadlineNs() const { return deadline_ns_; }
  /// True once the peer has said something.
  bool hasReceived() const { return has_received_; }

  /// Once Ready.
  const Peer& peer() const { return handshake_.peer(); }
  uint16_t slotCount() const { return handshake_.slotCount(); }
  SharedMemory takeMemory() { return std::move(memory_); }

  /// Once Failed: Unreachable (the peer is gone), Refused, WrongServerId, IoError (no memory).
  Status status() const { return status_; }
  const std::string& failureText() const { return failure_text_; }
  /// True if the failure was bytes that no honest peer sends, or the end in the middle of them.
  bool isBad() const { return is_bad_; }
  /// True if one side has refused the other one.
  bool isRefusal() const { return handshake_.state() == Handshake::State::Failed; }
  /// As Handshake::wasForAnother().
  bool wasForAnother() const { return handshake_.wasForAnother(); }

 private:
  Step fail(Status status, std::string text, bool is_bad);
  Step failEnded();
  bool sendOutput(int socket);
  Step stepHandshake(int socket);
  Step offerMemory(int socket);
  Step receiveMemory(int socket);

  Handshake handshake_;
  uint32_t ring_bytes_;
  int64_t deadline_ns_;
  bool has_received_ = false;
  SharedMemory memory_;
  Status status_ = Status::Ok;
  std::string failure_text_;
  bool is_bad_ = false;

  Descriptor received_descriptor_;
  SharedOffer offer_;
  size_t offer_bytes_ = 0;
};

}  // namespace ramcore::transport::shm
