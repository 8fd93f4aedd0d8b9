#pragma once

#include <cstdint>
#include <vector>

#include "client/coordinator_stub.h"
#include "tools/support/json.h"

namespace ramcore::rc {

/// The state of a server as JSON: the numbers of wire::kServerNumbers in their order, and what is computed from them.
tools::Json serverJson(const client::ServerStatus& server);

/// What an object takes beside key and value: its header in the log and its share of the index; 0 without objects.
double overheadBytes(const client::ServerStatus& server);
/// The part of the live bytes that objects take.
uint64_t objectBytes(const client::ServerStatus& server);
/// Bytes sent to replicas for each byte appended, 0 before the first.
double writeAmplification(const client::ServerStatus& server);

/// The role of the other end of a session, for people.
const char* roleOf(const client::OpenSession& session);
/// How many sessions a process has.
uint32_t sessionCount(const std::vector<client::TransportSessions>& transports);
/// How many sessions a process has over each of its transports, as an object.
tools::Json countsJson(const std::vector<client::TransportSessions>& transports);
/// The sessions of a process that are listed, as an array.
tools::Json listJson(const std::vector<client::TransportSessions>& transports);

}  // namespace ramcore::rc
