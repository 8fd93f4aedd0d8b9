#pragma once

#include <string>
#include <string_view>

#include "transport/transport.h"

namespace ramcore::transport {

/// The texts that say why sessions do not open, the same on every transport: cause and remedy, on one line.
inline constexpr std::string_view kNoAnswerInTime =
    "no answer in time; check that it runs there and that no firewall is in between";
inline constexpr std::string_view kLeftInHandshake =
    "it ended the connection during the handshake; check that a Ramcore process listens there, and its log";
/// The same texts serve the side that connects and the side that accepts.
inline constexpr std::string_view kTooManySessions =
    "this process has as many sessions as it may; raise its --sessions-max";
inline constexpr std::string_view kNoDescriptor =
    "this process may open no more files; raise its limit (ulimit -n, LimitNOFILE= of the unit)";
inline constexpr std::string_view kNotWatched =
    "the system lets this user watch no more descriptors; raise /proc/sys/fs/epoll/max_user_watches";

/// Text for a `connect` that failed with `error` of the system (errno).
std::string connectFailureText(int error);
/// Text for a socket that the system did not make (errno).
std::string noSocketText(int error);
/// Text for a socket that could not be added to what the thread waits for (errno).
std::string notWatchedText(int error);
/// Text for a host that has no address, by an authoritative answer.
std::string unknownHostText(std::string_view host);
/// Text for a host that could not be looked up just now.
std::string lookupFailureText(std::string_view host, std::string_view why);
/// The failure of a handshake that ended with `status`.
OpenFailure openFailureOf(Status status, const std::string& text);

}  // namespace ramcore::transport
