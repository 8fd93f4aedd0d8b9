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
  /// Initiator: what the peer must prove to be; 0 = anybody. A server without an id gives RetryLater: it may become
  /// that.
  uint64_t expected_id = 0;
  uint16_t slot_count = 1;        ///< 1..wire::kSlotCountMax
  bool peer_is_local = false;     ///< it connects from this machine; without a secret others are refused
  std::vector<Locator> locators;  ///< acceptor: where its process listens; at most wire::kHandshakeLocatorsMax
  /// Acceptor: asked of a client that has proven the secret; false: it is told that there is no room. Empty: there is.
  std::function<bool()> has_room_for_client = {};
};

/// What an acceptor says that takes no more sessions for now, in place of all else.
wire::HandshakeRefused busyRefusal();

/// The mutual handshake in front of every session, without a socket: bytes in, bytes out, the same on every transport.
///
/// Both sides prove that they know the cluster secret by a MAC over everything that was said (roles, ids, nonces,
/// cluster name, version, slots, locators) and over their side, so a proof cannot be played back in another session
/// or sent back to where it came from. The initiator proves first: whoever does not know the secret learns nothing but
/// the acceptor's id and cluster name. Without a secret the proofs run with an empty key and prove nothing: then only
/// processes of the same machine are let in.
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

  /// How many bytes the next receive() wants at most; they never reach over the end of the handshake, so whoever reads
  /// that many leaves the frames behind it in the socket. 0 unless Running.
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
  /// Once Done: calls in flight on this session.
  uint16_t slotCount() const { return slot_count_; }
  /// Once Done: known to the two ends only. For transports that authenticate each packet.
  const Key& sessionKey() const { return session_key_; }

  /// Once Failed: Refused, WrongCluster, WrongServerId, or Unreachable: the peer takes no more sessions for now, or
  /// nobody listens.
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
  /// Ends here, and tells the peer.
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
