#pragma once

#include <string>
#include <string_view>

#include "transport/transport.h"

namespace ramcore::transport {

/// The words for why sessions do not open, the same on every transport: cause and remedy, on one line.
inline constexpr std::string_view kNoAnswerInTime =
    "no answer in time; check that it runs there and that no firewall is in between";
inline constexpr std::string_view kLeftInHandshake =
    "it ended the connection during the handshake; check that a Ramcore process listens there, and its log";

/// Of a `connect` that failed with `error` of the system (errno).
std::string connectFailureText(int error);
/// Of a host that has no address, says who has to know.
std::string unknownHostText(std::string_view host);
/// Of a host that could not be looked up just now.
std::string lookupFailureText(std::string_view host, std::string_view why);
/// Of a handshake that failed with `status`.
OpenFailure openFailureOf(Status status, const std::string& text);

}  // namespace ramcore::transport
