#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "runtime/random.h"
#include "transport/transport.h"
#include "wire/handshake_messages.h"

namespace ramcore::transport {

enum class HandshakeSide : uint8_t { Initiator, Acceptor };

struct HandshakeOptions {
  HandshakeSide side = HandshakeSide::Initiator;
  Identity identity;  ///< as it is now
  /// Initiator: the server id that the peer must prove; 0 = any peer. A server without an id gives RetryLater, because
  /// it may get this id.
  uint64_t expected_id = 0;
  uint16_t slot_count = 1;        ///< 1..wire::kSlotCountMax
  bool peer_is_local = false;     ///< the peer is on this machine; without a secret, other peers are refused
  std::vector<Locator> locators;  ///< acceptor: where its process listens; at most wire::kHandshakeLocatorsMax
  /// Acceptor: called when a client has proven the secret. False: the client is told that there is no room. Empty:
  /// there is always room.
  std::function<bool()> has_room_for_client = {};
};

/// The refusal that an acceptor sends in place of all other messages when it takes no more sessions for now.
wire::HandshakeRefused busyRefusal();

/// The mutual handshake in front of every session, without a socket: bytes in, bytes out, the same on every transport.
///
/// Both sides prove that they know the cluster secret by a MAC over everything that was said (roles, ids, nonces,
/// cluster name, version, slots, locators) and over their side, so a proof cannot be replayed in another session or
/// sent back to its sender. The initiator proves first. So an initiator that does not know the secret learns only what
/// the Challenge says of the acceptor: its role, its id, its slots, and the id and name of its cluster. Without a
/// secret the proofs run with an empty key and prove nothing: then only processes of the same machine are let in.
///
/// One thread. Does not know time: the owner gives up at its deadline.
class Handshake {
 public:
  enum class State : uint8_t {
    Running,
    Done,    ///< toSend() may still hold the last message
    Failed,  ///< status() and failureText(); toSend() may hold the refusal to be told to the peer
  };
  using Key = std::array<uint8_t, 32>;

  Handshake(HandshakeOptions options, runtime::Entropy& entropy);

  /// How many bytes the next receive() wants at most. They never reach beyond the end of the handshake, so a caller
  /// that reads no more than that leaves the messages behind it in the socket. 0 unless Running.
  uint32_t wantedBytes() const;
  /// Takes `bytes` that arrived, at most wantedBytes().
  void receive(ByteSpan bytes);

  /// Bytes for the peer. The view lasts until the next call of a function that is not const.
  ByteSpan toSend() const { return ByteSpan(out_).subspan(sent_bytes_); }
  void sent(size_t bytes);

  State state() const { return state_; }
  bool isInitiator() const { return options_.side == HandshakeSide::Initiator; }

  /// Once Done: role, id and locators of the other end (address and transport are the owner's to fill in).
  const Peer& peer() const { return peer_; }
  /// Once Done: how many calls may be in flight on this session.
  uint16_t slotCount() const { return slot_count_; }
  /// Once Done: a key that only the two ends know. For transports that authenticate each packet.
  const Key& sessionKey() const { return session_key_; }

  /// Once Failed: Refused, WrongCluster, WrongServerId, RetryLater (the peer is a server without an id), or
  /// Unreachable: one side takes no more sessions for now, or nothing listens there.
  Status status() const { return status_; }
  /// Once Failed: for a person, e.g. "wrong cluster secret".
  const std::string& failureText() const { return failure_text_; }
  /// Once Failed: true if the peer sent bytes that no honest one of this cluster sends; a wrong secret is among them,
  /// because a recorded handshake that is played again looks like one.
  bool isBad() const { return is_bad_; }
  /// Once Failed: true if nothing is wrong with either end, but the initiator looked for another server.
  bool wasForAnother() const { return was_for_another_; }

 private:
  void onMessage();
  void onIntroduction(wire::HandshakeKind kind);
  void onProof();
  void onAccept();
  void onRefusal();
  bool readLocators(ByteSpan list, uint32_t count);
  void sendIntroduction(wire::HandshakeKind kind);
  void sendProof();
  void sendAccept();
  void send(ByteSpan message);
  void finish();
  /// Ends the handshake, and tells the peer.
  void fail(wire::HandshakeRefusal reason, Status status, std::string text);
  void failBad(std::string_view what);
  void failSecret();
  void failCluster();
  bool isOfAnotherCluster() const;
  void say(ByteSpan bytes) { transcript_.insert(transcript_.end(), bytes.begin(), bytes.end()); }
  Key mac(std::string_view purpose, ByteSpan more = {}) const;
  bool checkMac(const Key& expected, const Key& got) const;

  HandshakeOptions options_;
  runtime::Entropy& entropy_;
  State state_ = State::Running;
  wire::HandshakeKind awaited_;
  std::vector<std::byte> in_;  ///< the message that is arriving
  std::vector<std::byte> out_;
  size_t sent_bytes_ = 0;
  std::vector<std::byte> transcript_;  ///< Hello, Challenge: what the proofs are over

  Peer peer_;
  uint16_t slot_count_ = 0;
  Key session_key_{};
  Status status_ = Status::Ok;
  std::string failure_text_;
  bool is_bad_ = false;
  bool was_for_another_ = false;
};

}  // namespace ramcore::transport
