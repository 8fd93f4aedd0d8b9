#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "transport/session/handshake.h"
#include "wire/verbs_messages.h"

/// Bytes that a peer sent, judged without a device and without a session: what is let through here is what an honest
/// peer could send to somebody. Nothing here keeps a state or reads beyond the bytes that it is given.
namespace ramcore::transport::verbs {

/// What one receive buffer held.
struct VerbsMessage {
  wire::VerbsHeader header{};
  ByteSpan body;  ///< borrowed; as long as the kind of message has it
};

/// @param slot_count  of the session
/// @return why no honest peer sends this, and `message` says nothing; empty: `message` is what it is
std::string_view decodeMessage(ByteSpan bytes, uint16_t slot_count, VerbsMessage& message);

/// Where the request of a RequestOffer stands: pieces that are together as long as it says.
/// @param offer  decoded
/// @return false: no honest peer offers this, and `pieces` says nothing
[[nodiscard]] bool decodeOffer(const VerbsMessage& offer, std::vector<wire::VerbsPiece>& pieces);

/// Where an answer of `response_bytes` is to be written, as a ResponsePlace says; nothing: there is no room for it.
/// @param place  decoded
std::optional<wire::VerbsPiece> decodePlace(const VerbsMessage& place, uint32_t response_bytes);

/// The proof of an address, under the key of the session and over who says it.
Handshake::Key proofOf(const wire::VerbsAddress& address, bool of_server, const Handshake::Key& key);

/// Whether a queue pair may be connected to this address: it is proven, and each of its numbers is one that there is.
/// @param of_server  who said it
/// @return why not; empty: it may
std::string_view checkAddress(const wire::VerbsAddress& address, bool of_server, const Handshake::Key& key);

}  // namespace ramcore::transport::verbs
