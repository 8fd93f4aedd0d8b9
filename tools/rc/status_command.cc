#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "client/client_impl.h"
#include "tools/rc/commands.h"
#include "tools/support/display.h"

namespace ramcore::rc {
namespace {

using tools::formatBytes;
using tools::formatHex;
using tools::formatServer;
using tools::stateOf;

nlohmann::ordered_json toJson(const client::ClusterStatus& status) {
  nlohmann::ordered_json out;
  out["cluster"] = formatHex(status.cluster.value);
  out["name"] = status.name;
  out["servers"] = nlohmann::ordered_json::array();
  for (const client::ServerStatus& server : status.servers) {
    out["servers"].push_back({{"id", formatServer(server.id)},
                              {"name", server.name},
                              {"locators", server.locators},
                              {"alive", server.is_alive},
                              {"answers", server.has_answered},
                              {"memory_bytes", server.memory_bytes},
                              {"live_bytes", server.live_bytes},
                              {"objects", server.objects},
                              {"requests", server.requests},
                              {"sessions", server.sessions},
                              {"transports", server.transports},
                              {"uptime_s", static_cast<double>(server.uptime_ns) / 1e9}});
  }
  out["tables"] = nlohmann::ordered_json::array();
  for (const client::TableMap& table : status.tables) {
    nlohmann::ordered_json tablets = nlohmann::ordered_json::array();
    for (const client::TabletInfo& tablet : table.tablets) {
      tablets.push_back({{"id", tablet.id.value},
                         {"first_hash", formatHex(tablet.range.first)},
                         {"last_hash", formatHex(tablet.range.last)},
                         {"epoch", tablet.epoch.value},
                         {"state", stateOf(tablet)},
                         {"owner", formatServer(tablet.owner)}});
    }
    out["tables"].push_back({{"id", table.table.value}, {"name", table.name}, {"tablets", tablets}});
  }
  return out;
}

void printTable(const client::ClusterStatus& status) {
  std::printf("cluster %s (%s)\n\n", status.name.c_str(), formatHex(status.cluster.value).c_str());
  std::printf("%-8s  %-16s  %-8s  %10s  %10s  %5s  %10s  %12s  %8s  %s\n", "server", "name", "state", "live", "memory",
              "used", "objects", "requests", "sessions", "transports");
  for (const client::ServerStatus& server : status.servers) {
    const char* state = !server.is_alive ? "dead" : server.has_answered ? "serving" : "silent";
    std::string transports;
    for (const std::string& name : server.transports) transports += (transports.empty() ? "" : ",") + name;
    const double used = server.memory_bytes == 0
                            ? 0
                            : 100.0 * static_cast<double>(server.live_bytes) / static_cast<double>(server.memory_bytes);
    std::printf("%-8s  %-16s  %-8s  %10s  %10s  %4.0f%%  %10llu  %12llu  %8u  %s\n", formatServer(server.id).c_str(),
                server.name.c_str(), state, formatBytes(server.live_bytes).c_str(),
                formatBytes(server.memory_bytes).c_str(), used, static_cast<unsigned long long>(server.objects),
                static_cast<unsigned long long>(server.requests), server.sessions, transports.c_str());
  }
  std::printf("\n%-20s  %8s  %-18s  %-18s  %8s  %-11s  %s\n", "table", "tablet", "first hash", "last hash", "epoch",
              "state", "owner");
  for (const client::TableMap& table : status.tables) {
    for (const client::TabletInfo& tablet : table.tablets) {
      std::printf("%-20s  %8llu  %-18s  %-18s  %8llu  %-11s  %s\n", table.name.c_str(),
                  static_cast<unsigned long long>(tablet.id.value), formatHex(tablet.range.first).c_str(),
                  formatHex(tablet.range.last).c_str(), static_cast<unsigned long long>(tablet.epoch.value),
                  stateOf(tablet).data(), formatServer(tablet.owner).c_str());
    }
  }
}

int showStatus(Session& session, bool as_json) {
  const auto connected = session.client();
  if (!connected) return session.fail(connected.error());
  const auto status =
      (*connected)->impl().runTask(std::nullopt, [](client::ClusterClient& cluster, int64_t deadline_ns) {
        return cluster.coordinator().clusterStatus(deadline_ns);
      });
  if (!status) return session.fail(status.error(), "the cluster's status");
  if (as_json) {
    std::printf("%s\n", toJson(*status).dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    printTable(*status);
  }
  return tools::kExitOk;
}

}  // namespace

void addStatusCommand(CLI::App& app, Session& session, int& exit_code) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("status", "Shows servers, tables and tablets");
  command->add_flag("--json", *as_json, "As JSON");
  command->callback([&, as_json] { exit_code = showStatus(session, *as_json); });
}

}  // namespace ramcore::rc
