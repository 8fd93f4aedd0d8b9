#pragma once

#include <array>
#include <cstdint>

#include "wire/frame.h"

namespace ramcore::wire {

/// The version of headers and messages that this build speaks. Two processes talk only if theirs are equal.
inline constexpr uint16_t kProtocolVersion = 4;

inline constexpr uint32_t kClusterNameBytesMax = 128;
inline constexpr uint32_t kHandshakeLocatorsMax = 16;
inline constexpr uint32_t kHandshakeLocatorBytesMax = 256;

/// "RCHANDSH" in the order of the bytes.
inline constexpr uint64_t kHandshakeMagic = 0x4853444e41484352;

/// The messages of a handshake, in the order in which they travel. Initiator: Hello, Proof. Acceptor: Challenge,
/// Accept. Either side may send Refusal instead of its next message and then ends the connection.
enum class HandshakeKind : uint8_t { Hello = 1, Challenge = 2, Proof = 3, Accept = 4, Refusal = 5 };

/// Why a side ends a handshake; the other side prints it.
enum class HandshakeRefusal : uint16_t {
  None = 0,
  Version = 1,        ///< header.version is what the sender speaks
  ClusterName = 2,    ///< the two belong to clusters of different names
  Secret = 3,         ///< the proof does not fit the sender's secret
  WrongServerId = 4,  ///< the initiator looked for another incarnation of the server
  NotLocal = 5,       ///< the sender has no secret and talks to its own machine only
  Malformed = 6,      ///< bytes that make no sense
  Busy = 7,           ///< the sender takes no more sessions for now
  ClusterId = 8,      ///< the two belong to clusters of different ids, perhaps of one name
};

/// In front of every message of the handshake. Its layout is the same in all protocol versions, so that two versions
/// can refuse each other in words.
struct HandshakeHeader {
  uint64_t magic;
  uint32_t message_bytes;  ///< length of the whole message, this header included; a multiple of 8
  uint16_t version;
  HandshakeKind kind;
  uint8_t reserved;  ///< zero, verified

  /// True if these bytes are a handshake.
  constexpr bool isValid() const { return magic == kHandshakeMagic && reserved == 0; }
};
static_assert(Message<HandshakeHeader> && sizeof(HandshakeHeader) == 16);

/// Hello and Challenge: the identity that the sender claims. The cluster name follows, padded with zero bytes to a
/// multiple of 8.
struct HandshakeIntroduction {
  HandshakeHeader header;
  std::array<uint8_t, 32> nonce;
  uint64_t id;
  uint64_t cluster;     ///< the sender's cluster id; 0: the sender does not know it (yet) and accepts any
  uint16_t slot_count;  ///< call slots that the sender can have in the session; the smaller number counts
  uint16_t cluster_name_bytes;
  uint8_t role;  ///< transport::Role
  uint8_t reserved[3];

  /// The reader checks whether there is such a role.
  constexpr bool isValid() const {
    return header.isValid() && slot_count != 0 && slot_count <= kSlotCountMax &&
           cluster_name_bytes <= kClusterNameBytesMax && isZero(reserved);
  }
};
static_assert(Message<HandshakeIntroduction> && sizeof(HandshakeIntroduction) == 72);

/// The initiator's proof that it knows the secret: a MAC over all that was said so far.
struct HandshakeProof {
  HandshakeHeader header;
  std::array<uint8_t, 32> mac;

  /// Whether the MAC is right depends on all that was said, so the reader checks that.
  constexpr bool isValid() const { return header.isValid(); }
};
static_assert(Message<HandshakeProof> && sizeof(HandshakeProof) == 48);

/// The acceptor's proof, and where its process listens: `locator_count` times a 16-bit length and the text of a
/// locator; zero bytes up to a multiple of 8.
struct HandshakeAccept {
  HandshakeHeader header;
  std::array<uint8_t, 32> mac;
  uint16_t locator_count;
  uint16_t locators_bytes;  ///< length of the list without its padding
  uint32_t reserved;

  constexpr bool isValid() const { return header.isValid() && locator_count <= kHandshakeLocatorsMax && reserved == 0; }
};
static_assert(Message<HandshakeAccept> && sizeof(HandshakeAccept) == 56);

struct HandshakeRefused {
  HandshakeHeader header;
  HandshakeRefusal reason;
  uint8_t reserved[6];  ///< zero, not verified

  /// A refusal may come from any protocol version. So every reason is valid, and the bytes behind it are not checked.
  constexpr bool isValid() const { return header.isValid(); }
};
static_assert(Message<HandshakeRefused> && sizeof(HandshakeRefused) == 24);

/// No message of a handshake is longer.
inline constexpr uint32_t kHandshakeMessageBytesMax =
    alignUp(sizeof(HandshakeAccept) + kHandshakeLocatorsMax * (2 + kHandshakeLocatorBytesMax), 8);

}  // namespace ramcore::wire
