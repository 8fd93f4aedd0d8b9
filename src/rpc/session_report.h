#pragma once

#include "rpc/dispatch.h"

namespace ramcore::wire::control {
class TransportSessions;
}
namespace google::protobuf {
template <typename T>
class RepeatedPtrField;
}

namespace ramcore::rpc {

/// The largest number of sessions of one process that are listed one by one.
inline constexpr size_t kSessionsListedMax = 256;
/// A longer address is cut: it is for people.
inline constexpr size_t kPeerAddressBytesMax = 128;
/// The largest number of bytes that one listed session takes in a message.
inline constexpr size_t kListedSessionBytesMax = kPeerAddressBytesMax + 32;

/// Reports which sessions a process has over each of its transports: all are counted, and some are listed.
/// Dispatch thread.
/// @param listed_max  how many are listed, of all transports together. If there are more sessions, those with clients
///                    are left out first: they come in thousands, and sessions between servers, which show what goes
///                    wrong there, do not.
void reportSessions(const Dispatch& dispatch, size_t listed_max,
                    google::protobuf::RepeatedPtrField<wire::control::TransportSessions>& out);

}  // namespace ramcore::rpc
