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

/// Of the sessions of one process, at most so many are listed one by one.
inline constexpr size_t kSessionsListedMax = 256;
/// An address beyond this is cut: it is for people.
inline constexpr size_t kPeerAddressBytesMax = 128;
/// A bound for one listed session as bytes of a message.
inline constexpr size_t kListedSessionBytesMax = kPeerAddressBytesMax + 32;

/// Writes down which sessions a process has over each of its transports: all are counted, and some are listed.
/// Dispatch thread.
/// @param listed_max  of all transports together. When there are more sessions, those with clients are left out first:
///                    they come in thousands, and what goes wrong between servers does not.
void reportSessions(const Dispatch& dispatch, size_t listed_max,
                    google::protobuf::RepeatedPtrField<wire::control::TransportSessions>& out);

}  // namespace ramcore::rpc
