#include "tools/rc/server_json.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "log/format/segment_format.h"
#include "tools/support/display.h"
#include "wire/server_numbers.h"

namespace ramcore::rc {
namespace {

using tools::formatServer;
using tools::Json;

// A value that JSON has of a server beside its numbers: it is computed from them, and stands behind one of them.
struct Computed {
  std::string_view after;  // the number's name
  const char* name;
  Json (*read)(const client::ServerStatus&);
};

Json namesJson(const std::vector<client::TransportSessions>& transports) {
  std::vector<std::string> names;
  for (const client::TransportSessions& transport : transports) names.push_back(transport.name);
  return names;
}

using client::ServerStatus;
constexpr Computed kComputed[] = {
    {"live_bytes_max", "object_bytes", [](const ServerStatus& server) { return Json(objectBytes(server)); }},
    {"replica_bytes", "write_amplification",
     [](const ServerStatus& server) { return Json(writeAmplification(server)); }},
    {"index_bytes", "overhead_bytes_per_object",
     [](const ServerStatus& server) { return Json(overheadBytes(server)); }},
    {"requests", "sessions", [](const ServerStatus& server) { return Json(sessionCount(server.transports)); }},
    {"requests", "transports", [](const ServerStatus& server) { return namesJson(server.transports); }},
    {"requests", "sessions_by_transport", [](const ServerStatus& server) { return countsJson(server.transports); }},
    {"requests", "open_sessions", [](const ServerStatus& server) { return listJson(server.transports); }},
    {"uptime_ns", "uptime_s",
     [](const ServerStatus& server) { return Json(static_cast<double>(server.uptime_ns) / 1e9); }},
    {"has_too_few", "takes_writes",
     [](const ServerStatus& server) { return Json(server.has_answered && !server.has_too_few); }},
};

static_assert([] {
  for (const Computed& computed : kComputed) {
    if (!std::ranges::any_of(wire::kServerNumbers,
                             [&](const wire::ServerNumber& number) { return number.name == computed.after; })) {
      return false;
    }
  }
  return true;
}());

}  // namespace

double overheadBytes(const client::ServerStatus& server) {
  if (server.objects == 0) return 0;
  return log::kEntryHeaderBytes + static_cast<double>(server.index_bytes) / static_cast<double>(server.objects);
}

uint64_t objectBytes(const client::ServerStatus& server) {
  const uint64_t others = server.tombstone_bytes + server.result_bytes;
  return server.live_bytes - std::min(server.live_bytes, others);
}

double writeAmplification(const client::ServerStatus& server) {
  if (server.appended_bytes == 0) return 0;
  return static_cast<double>(server.replica_bytes) / static_cast<double>(server.appended_bytes);
}

const char* roleOf(const client::OpenSession& session) {
  switch (session.peer_role) {
    case transport::Role::Client:
      return "client";
    case transport::Role::Server:
      return "server";
    case transport::Role::Coordinator:
      return "coordinator";
    case transport::Role::Admin:
      return "admin";
  }
  return "unknown";
}

uint32_t sessionCount(const std::vector<client::TransportSessions>& transports) {
  uint32_t count = 0;
  for (const client::TransportSessions& transport : transports) count += transport.sessions;
  return count;
}

Json countsJson(const std::vector<client::TransportSessions>& transports) {
  Json out = Json::object();
  for (const client::TransportSessions& transport : transports) out[transport.name] = transport.sessions;
  return out;
}

Json listJson(const std::vector<client::TransportSessions>& transports) {
  Json out = Json::array();
  for (const client::TransportSessions& transport : transports) {
    for (const client::OpenSession& session : transport.open) {
      out.append({{"peer_role", roleOf(session)},
                  {"peer_id", std::to_string(session.peer_id)},
                  {"peer_address", session.peer_address},
                  {"transport", transport.name}});
    }
  }
  return out;
}

Json serverJson(const ServerStatus& server) {
  Json out = {{"id", formatServer(server.id)},
              {"name", server.name},
              {"locators", server.locators},
              {"alive", server.is_alive},
              {"answers", server.has_answered}};
  for (const wire::ServerNumber& number : wire::kServerNumbers) {
    if (number.is_shown) {
      const uint64_t value = number.read(server);
      out[std::string(number.name)] = number.meaning.unit == NumberUnit::Flag ? Json(value != 0) : Json(value);
    }
    for (const Computed& computed : kComputed) {
      if (computed.after == number.name) out[computed.name] = computed.read(server);
    }
  }
  return out;
}

}  // namespace ramcore::rc
