#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/id_text.h"
#include "client/client_impl.h"
#include "tools/rc/cluster_health.h"
#include "tools/rc/commands.h"
#include "tools/rc/server_json.h"
#include "tools/support/command_line.h"
#include "tools/support/display.h"
#include "tools/support/json.h"

namespace ramcore::rc {
namespace {

using tools::formatBytes;
using tools::formatServer;
using tools::Json;
using tools::stateOf;

Json toJson(const std::vector<client::RecoveryProgress>& recoveries) {
  Json out = Json::array();
  for (const client::RecoveryProgress& recovery : recoveries) {
    Json missing = Json::array();
    for (const SegmentId segment : recovery.missing) missing.append(segment.value);
    Json away = Json::array();
    for (const ServerId server : recovery.away) away.append(formatServer(server));
    out.append({{"server", formatServer(recovery.server)},
                {"name", recovery.server_name},
                {"tablets_left", recovery.tablets_left},
                {"missing_count", recovery.missing_count},
                {"missing_segments", missing},
                {"servers_away", away},
                {"missing_servers", recovery.missing_servers},
                {"missing_storage_bytes", recovery.missing_storage_bytes},
                {"text", recovery.text}});
  }
  return out;
}

Json toJson(const std::vector<client::ServerSilence>& silences) {
  constexpr int64_t kNanosPerMilli = 1'000'000;
  static constexpr const char* kWaits[] = {"unknown", "verdict", "together", "replacers", "room"};
  Json out = Json::array();
  for (const client::ServerSilence& silence : silences) {
    const int64_t silent_ms = silence.silent_ns < 0 ? -1 : silence.silent_ns / kNanosPerMilli;
    out.append({{"server", formatServer(silence.server)},
                {"silent_ms", silent_ms},
                {"waits_for", kWaits[static_cast<size_t>(silence.wait)]}});
  }
  return out;
}

Json toJson(const client::TableMap& table) {
  Json tablets = Json::array();
  for (const client::TabletInfo& tablet : table.tablets) {
    tablets.append({{"id", tablet.id.value},
                    {"first_hash", hexText(tablet.range.first)},
                    {"last_hash", hexText(tablet.range.last)},
                    {"epoch", tablet.epoch.value},
                    {"state", stateOf(tablet)},
                    {"owner", formatServer(tablet.owner)}});
  }
  return {
      {"id", table.table.value}, {"name", table.name}, {"durability", nameOf(table.durability)}, {"tablets", tablets}};
}

Json toJson(const client::ClusterStatus& status) {
  const ClusterHealth health = healthOf(status);
  Json out;
  out["cluster"] = hexText(status.cluster.value);
  out["name"] = status.name;
  out["health"] = name(health.state);
  out["reasons"] = health.reasons;
  out["replicas"] = {{"wanted", health.replicas_wanted}, {"least", health.replicas_least}};
  out["survivable_deaths"] = health.survivable_deaths;
  out["recoveries"] = toJson(status.recoveries);
  out["silent"] = toJson(status.silences);
  out["coordinator"] = {{"storage_full", status.is_coordinator_full},
                        {"sessions", sessionCount(status.coordinator_transports)},
                        {"sessions_by_transport", countsJson(status.coordinator_transports)},
                        {"open_sessions", listJson(status.coordinator_transports)}};
  out["servers"] = Json::array();
  for (const client::ServerStatus& server : status.servers) {
    if (!isOfInterest(status, server)) continue;
    out["servers"].append(serverJson(server));
  }
  out["tables"] = Json::array();
  for (const client::TableMap& table : status.tables) {
    out["tables"].append(toJson(table));
  }
  return out;
}

void printHealth(const client::ClusterStatus& status) {
  const ClusterHealth health = healthOf(status);
  std::printf("health: %s\n", name(health.state));
  for (const std::string& reason : health.reasons) std::printf("  %s\n", reason.c_str());
  std::printf("replicas: wanted %u, complete %u, survives %u more deaths\n", health.replicas_wanted,
              health.replicas_least, health.survivable_deaths);
  for (const client::RecoveryProgress& recovery : status.recoveries) {
    std::printf("recovery of server %s (%s): %u tablets left%s%s\n", formatServer(recovery.server).c_str(),
                recovery.server_name.c_str(), recovery.tablets_left, recovery.text.empty() ? "" : "; ",
                recovery.text.c_str());
    if (recovery.missing_count == 0) continue;
    std::string missing;
    for (const SegmentId segment : recovery.missing) missing += " " + std::to_string(segment.value);
    std::printf("  %llu segments missing:%s%s; 'ramcore recover' says where they were\n",
                static_cast<unsigned long long>(recovery.missing_count), missing.c_str(),
                recovery.missing.size() < recovery.missing_count ? " ..." : "");
  }
}

std::string replicasOf(const client::ServerStatus& server) {
  if (!server.has_answered) return "?";
  return std::to_string(server.replicas_least) + "/" + std::to_string(server.replicas_wanted);
}

std::string framesOf(const client::ServerStatus& server) {
  if (server.frames_total == 0) return "none";
  if (server.storage_failed) return "failed";
  return std::to_string(server.frames_total - server.frames_free) + "/" + std::to_string(server.frames_total);
}

/// Bytes copied per byte of memory that cleaning gave back.
std::string cleaningOf(const client::ServerStatus& server) {
  if (server.cleaner_freed_bytes == 0) return "-";
  char text[32];
  std::snprintf(text, sizeof(text), "%.1fx",
                static_cast<double>(server.cleaner_copied_bytes) / static_cast<double>(server.cleaner_freed_bytes));
  return text;
}

std::string overheadOf(const client::ServerStatus& server) {
  return server.objects == 0 ? "-" : formatBytes(static_cast<uint64_t>(overheadBytes(server) + 0.5));
}

/// The write amplification; "-" for a server that does not replicate, or has appended nothing.
std::string amplificationOf(const client::ServerStatus& server) {
  if (server.replicas_wanted == 0 || server.appended_bytes == 0) return "-";
  char text[32];
  std::snprintf(text, sizeof(text), "%.1fx", writeAmplification(server));
  return text;
}

/// What one level of cleaning copied, and at what rate since the server was started.
std::string levelOf(uint64_t copied_bytes, const client::ServerStatus& server) {
  if (copied_bytes == 0 || server.uptime_ns <= 0) return "-";
  const double per_second = static_cast<double>(copied_bytes) / (static_cast<double>(server.uptime_ns) / 1e9);
  return formatBytes(copied_bytes) + ", " + formatBytes(static_cast<uint64_t>(per_second)) + "/s";
}

/// "verbs 4, shm 1": the transports that have sessions.
std::string sessionsOf(const std::vector<client::TransportSessions>& transports) {
  std::string text;
  for (const client::TransportSessions& transport : transports) {
    if (transport.sessions == 0) continue;
    text += (text.empty() ? "" : ", ") + transport.name + " " + std::to_string(transport.sessions);
  }
  return text.empty() ? "none" : text;
}

void printSessions(const std::string& process, const std::vector<client::TransportSessions>& transports) {
  for (const client::TransportSessions& transport : transports) {
    for (const client::OpenSession& session : transport.open) {
      std::printf("%-12s  %-9s  %-11s  %-20s  %s\n", process.c_str(), transport.name.c_str(), roleOf(session),
                  std::to_string(session.peer_id).c_str(), session.peer_address.c_str());
    }
    const size_t others = transport.sessions - std::min<size_t>(transport.sessions, transport.open.size());
    if (others != 0)
      std::printf("%-12s  %-9s  and %zu that are not listed\n", process.c_str(), transport.name.c_str(), others);
  }
}

void printSessions(const client::ClusterStatus& status) {
  std::printf("\n%-12s  %-9s  %-11s  %-20s  %s\n", "process", "transport", "peer", "peer id", "peer address");
  printSessions("coordinator", status.coordinator_transports);
  for (const client::ServerStatus& server : status.servers) {
    printSessions("server " + formatServer(server.id), server.transports);
  }
}

/// What the memory of each log holds, and what cleaning it has cost.
void printLogs(const client::ClusterStatus& status) {
  std::printf("\n%-8s  %10s  %10s  %10s  %10s  %10s  %22s  %22s\n", "server", "objects", "tombstones", "results",
              "limit", "appended", "combined", "compacted");
  for (const client::ServerStatus& server : status.servers) {
    if (!server.has_answered) continue;
    const uint64_t combined =
        server.cleaner_copied_bytes - std::min(server.cleaner_copied_bytes, server.compaction_copied_bytes);
    std::printf("%-8s  %10s  %10s  %10s  %10s  %10s  %22s  %22s\n", formatServer(server.id).c_str(),
                formatBytes(objectBytes(server)).c_str(), formatBytes(server.tombstone_bytes).c_str(),
                formatBytes(server.result_bytes).c_str(), formatBytes(server.live_bytes_max).c_str(),
                formatBytes(server.appended_bytes).c_str(), levelOf(combined, server).c_str(),
                levelOf(server.compaction_copied_bytes, server).c_str());
  }
}

void printTable(const client::ClusterStatus& status) {
  std::printf("cluster %s (%s)\n", status.name.c_str(), hexText(status.cluster.value).c_str());
  printHealth(status);
  std::printf("sessions of the coordinator: %s\n", sessionsOf(status.coordinator_transports).c_str());
  std::printf("\n%-8s  %-16s  %-8s  %10s  %10s  %5s  %8s  %7s  %10s  %8s  %12s  %8s  %10s  %s\n", "server", "name",
              "state", "live", "memory", "used", "cleaning", "copying", "objects", "overhead", "requests", "replicas",
              "frames", "sessions");
  for (const client::ServerStatus& server : status.servers) {
    if (!isOfInterest(status, server)) continue;
    const char* state = !server.is_alive ? "dead" : server.has_answered ? "serving" : "silent";
    const double used = server.memory_bytes == 0
                            ? 0
                            : 100.0 * static_cast<double>(server.live_bytes) / static_cast<double>(server.memory_bytes);
    std::printf("%-8s  %-16s  %-8s  %10s  %10s  %4.0f%%  %8s  %7s  %10llu  %8s  %12llu  %8s  %10s  %s\n",
                formatServer(server.id).c_str(), server.name.c_str(), state, formatBytes(server.live_bytes).c_str(),
                formatBytes(server.memory_bytes).c_str(), used, cleaningOf(server).c_str(),
                amplificationOf(server).c_str(), static_cast<unsigned long long>(server.objects),
                overheadOf(server).c_str(), static_cast<unsigned long long>(server.requests),
                replicasOf(server).c_str(), framesOf(server).c_str(), sessionsOf(server.transports).c_str());
  }
  printLogs(status);
  std::printf("\n%-20s  %-10s  %8s  %-18s  %-18s  %8s  %-11s  %s\n", "table", "durability", "tablet", "first hash",
              "last hash", "epoch", "state", "owner");
  for (const client::TableMap& table : status.tables) {
    for (const client::TabletInfo& tablet : table.tablets) {
      std::printf("%-20s  %-10s  %8llu  %-18s  %-18s  %8llu  %-11s  %s\n", table.name.c_str(), nameOf(table.durability),
                  static_cast<unsigned long long>(tablet.id.value), hexText(tablet.range.first).c_str(),
                  hexText(tablet.range.last).c_str(), static_cast<unsigned long long>(tablet.epoch.value),
                  stateOf(tablet).data(), formatServer(tablet.owner).c_str());
    }
  }
}

int showStatus(Session& session, bool as_json, bool lists_sessions) {
  const auto connected = session.client();
  if (!connected) return session.fail(connected.error());
  const auto status =
      (*connected)->impl().runTask(std::nullopt, [&](client::ClusterClient& cluster, int64_t deadline_ns) {
        return cluster.coordinator().clusterStatus(deadline_ns, as_json || lists_sessions);
      });
  if (!status) return session.fail(status.error(), "the cluster's status");
  if (as_json) {
    std::printf("%s\n", toJson(*status).dump(2, Json::BadUtf8::Replace).c_str());
  } else {
    printTable(*status);
    if (lists_sessions) printSessions(*status);
  }
  return tools::kExitOk;
}

}  // namespace

void addStatusCommand(tools::Command& app, Session& session, int& exit_code) {
  auto as_json = std::make_shared<bool>(false);
  auto lists_sessions = std::make_shared<bool>(false);
  tools::Command command = app.addCommand("status", "Shows the health of the cluster, servers, tables and tablets");
  command.addFlag("--json", *as_json, "As JSON");
  command.addFlag("--sessions", *lists_sessions, "Also lists the sessions of all processes");
  command.onGiven([&, as_json, lists_sessions] { exit_code = showStatus(session, *as_json, *lists_sessions); });
}

}  // namespace ramcore::rc
