#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "transport/session/handshake.h"
#include "wire/verbs_messages.h"

/// Checks of bytes that a peer sent, without a device and without a session: they let through what an honest peer could
/// send in some session. Nothing here keeps a state or reads beyond the bytes that it is given.
namespace ramcore::transport::verbs {

/// What one receive buffer held.
struct VerbsMessage {
  wire::VerbsHeader header{};
  ByteSpan body;  ///< borrowed; as long as the kind of message has it
};

/// @param slot_count  of the session
/// @return why no honest peer sends this (`message` is undefined then); empty: `message` is valid
std::string_view decodeMessage(ByteSpan bytes, uint16_t slot_count, VerbsMessage& message);

/// Reads where the request of a RequestOffer stands: in pieces that are together as long as the offer says.
/// @param offer  decoded
/// @return false: no honest peer offers this (`pieces` is undefined then)
[[nodiscard]] bool decodeOffer(const VerbsMessage& offer, std::vector<wire::VerbsPiece>& pieces);

/// Reads from a ResponsePlace where an answer of `response_bytes` is to be written; nothing: there is no room for it.
/// @param place  decoded
std::optional<wire::VerbsPiece> decodePlace(const VerbsMessage& place, uint32_t response_bytes);

/// The proof of an address: a MAC under the key of the session, over the address and the side that says it.
Handshake::Key proofOf(const wire::VerbsAddress& address, bool of_server, const Handshake::Key& key);

/// Whether a queue pair may be connected to this address: it is proven, and each of its numbers is one that there is.
/// @param of_server  true: the server said it; false: the client
/// @return why not; empty: it may
std::string_view checkAddress(const wire::VerbsAddress& address, bool of_server, const Handshake::Key& key);

}  // namespace ramcore::transport::verbs
