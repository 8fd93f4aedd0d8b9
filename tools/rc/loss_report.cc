#include "tools/rc/loss_report.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "log/memory/log_config.h"
#include "tools/support/display.h"

namespace ramcore::rc {
namespace {

using client::ClusterStatus;
using client::RecoveryProgress;
using End = RecoveryProgress::End;
using tools::formatServer;

std::string counted(uint64_t number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

const client::ServerStatus* find(const ClusterStatus& status, ServerId id) {
  const auto found = std::find_if(status.servers.begin(), status.servers.end(),
                                  [&](const client::ServerStatus& server) { return server.id == id; });
  return found == status.servers.end() ? nullptr : &*found;
}

std::string serverName(const ClusterStatus& status, ServerId id) {
  const client::ServerStatus* server = find(status, id);
  return formatServer(id) + (server == nullptr ? "" : " (" + server->name + ")");
}

// "4, 7 and 3 more"
template <typename Ids>
std::string listOf(const Ids& ids, uint64_t total) {
  std::string list;
  for (const auto id : ids) list += (list.empty() ? "" : ", ") + std::to_string(id.value);
  return list + (ids.size() < total ? " and " + std::to_string(total - ids.size()) + " more" : "");
}

struct Concerned {
  const client::TableMap* table;
  std::vector<TabletId> tablets;
};

std::vector<Concerned> concernedBy(const ClusterStatus& status, ServerId dead) {
  std::vector<Concerned> all;
  for (const client::TableMap& table : status.tables) {
    Concerned concerned{.table = &table, .tablets = {}};
    for (const client::TabletInfo& tablet : table.tablets) {
      if (tablet.owner == dead && !tablet.is_available) concerned.tablets.push_back(tablet.id);
    }
    if (!concerned.tablets.empty()) all.push_back(std::move(concerned));
  }
  return all;
}

std::string silence(int64_t ns) {
  return ns < 0 ? "not heard from since the coordinator started"
                : "not heard from for " + std::to_string(ns / 1'000'000'000) + " s";
}

// The most that the missing segments may have held, if it is known which segments are missing.
uint64_t bytesMax(const RecoveryProgress& recovery) {
  return recovery.missing_count * uint64_t{log::LogConfig::kFrameBytes};
}

const char* endName(End end) {
  switch (end) {
    case End::Known:
      return "known";
    case End::OldDigest:
      return "old_digest";
    case End::NoDigest:
      return "no_digest";
    case End::Unknown:
      break;
  }
  return "not_known_yet";
}

}  // namespace

bool isIncomplete(const RecoveryProgress& recovery) {
  return recovery.loss_token != 0 || recovery.missing_count != 0 || !recovery.away.empty();
}

std::string describe(const ClusterStatus& status, const RecoveryProgress& recovery) {
  std::string text = "server " + serverName(status, recovery.server) + " is dead, " +
                     counted(recovery.tablets_left, "tablet") + (recovery.tablets_left == 1 ? " is" : " are") +
                     " unavailable\n";
  for (const Concerned& concerned : concernedBy(status, recovery.server)) {
    text += "  table '" + concerned.table->name + "': tablet" + (concerned.tablets.size() == 1 ? " " : "s ") +
            listOf(concerned.tablets, concerned.tablets.size()) + "\n";
  }
  if (!isIncomplete(recovery)) return text + "  nothing of its log is missing; " + recovery.text + "\n";
  // In all other cases recovery.text names the missing segments.
  if (recovery.missing_count != 0 && recovery.loss_end == End::OldDigest) {
    text += "  " + counted(recovery.missing_count, "segment") +
            " of its log missing or cut short: " + listOf(recovery.missing, recovery.missing_count) + "\n";
  }
  text += "  " + recovery.text + "\n";
  for (size_t i = 0; i < recovery.away.size(); ++i) {
    const client::ServerStatus* server = find(status, recovery.away[i]);
    text += "  " + std::string(server != nullptr && server->is_alive ? "has not answered yet" : "away") + ": server " +
            serverName(status, recovery.away[i]);
    for (const std::string& locator : server == nullptr ? std::vector<std::string>() : server->locators) {
      text += " " + locator;
    }
    text += ", " + silence(recovery.away_for_ns[i]) + "\n";
  }
  return text;
}

std::string remedies(const ClusterStatus& status, const RecoveryProgress& recovery) {
  std::string text;
  std::string names;
  for (const ServerId away : recovery.away) {
    const client::ServerStatus* server = find(status, away);
    if (server != nullptr && !server->is_alive) names += (names.empty() ? "" : ", ") + server->name;
  }
  if (recovery.loss_accepted) return "  the loss is accepted; what is left is being brought back\n";
  if (!names.empty()) {
    text += "  to bring everything back: start " + names +
            " again, each with the --storage that it had: ramcore-server --storage DIRECTORY ...\n";
  }
  if (recovery.loss_token != 0) {
    text += "  to go on without what is missing: ramcore recover --accept-loss " + formatServer(recovery.server) + "\n";
  }
  return text;
}

std::string describeLoss(const ClusterStatus& status, const RecoveryProgress& recovery) {
  if (recovery.loss_token == 0) return "";
  std::string text = "what is given up:\n";
  if (recovery.missing_count != 0) {
    text += "  - " + counted(recovery.missing_count, "segment") + " of the log, at most " +
            tools::formatBytes(bytesMax(recovery)) + ": " + listOf(recovery.missing, recovery.missing_count);
    if (recovery.segments_in_part != 0) {
      text += "; the beginning of " + std::to_string(recovery.segments_in_part) + " of them is there";
    }
    text += "\n";
  }
  switch (recovery.loss_end) {
    case End::Known:
      text += "  - the end of the log is there: nothing that was acknowledged comes after it\n";
      break;
    case End::OldDigest:
      text +=
          "  - the end of the log is not there: the last writes are lost, and it is not known how many\n"
          "  - the newest list of the log's segments that is left is that of segment " +
          std::to_string(recovery.loss_list.value) +
          ": any part\n"
          "    of what was written after it may be missing, and objects removed or overwritten since may come back\n";
      break;
    case End::NoDigest:
    case End::Unknown:
      text +=
          "  - the end of the log is not there: the last writes are lost, and it is not known how many\n"
          "  - no list of the log's segments is there: any part of the log may be missing, and objects removed or\n"
          "    overwritten long ago may come back\n";
      break;
  }
  text +=
      "  - objects whose last change was in what is missing have an earlier value, or none; objects whose removal\n"
      "    was in it come back. The results of calls that clients are still repeating may be forgotten\n";
  text += "what is brought back: " + counted(recovery.segments_whole, "segment") + " as a whole, " +
          std::to_string(recovery.segments_in_part) + " in part\n";
  text += "what it concerns: ";
  std::string tables;
  for (const Concerned& concerned : concernedBy(status, recovery.server)) {
    tables += (tables.empty() ? "" : "; ") + std::string("table '") + concerned.table->name + "', " +
              counted(concerned.tablets.size(), "tablet") + " of " + std::to_string(concerned.table->tablets.size());
  }
  return text + tables + "\nThis cannot be undone: storage that comes back afterwards is not looked at any more.\n";
}

tools::Json toJson(const ClusterStatus& status, const RecoveryProgress& recovery) {
  using tools::Json;
  Json tables = Json::array();
  for (const Concerned& concerned : concernedBy(status, recovery.server)) {
    Json tablets = Json::array();
    for (const TabletId tablet : concerned.tablets) tablets.append(tablet.value);
    tables.append({{"id", concerned.table->table.value}, {"name", concerned.table->name}, {"tablets", tablets}});
  }
  Json missing = Json::array();
  for (const SegmentId segment : recovery.missing) missing.append(segment.value);
  Json away = Json::array();
  for (size_t i = 0; i < recovery.away.size(); ++i) {
    const client::ServerStatus* server = find(status, recovery.away[i]);
    const int64_t silent_ns = recovery.away_for_ns[i];
    away.append({{"id", formatServer(recovery.away[i])},
                 {"name", server == nullptr ? "" : server->name},
                 {"locators", server == nullptr ? std::vector<std::string>() : server->locators},
                 {"alive", server != nullptr && server->is_alive},
                 {"silent_s", silent_ns < 0 ? Json() : Json(static_cast<double>(silent_ns) / 1e9)}});
  }
  return {{"server", formatServer(recovery.server)},
          {"name", recovery.server_name},
          {"tablets_left", recovery.tablets_left},
          {"tables", tables},
          {"log_complete", !isIncomplete(recovery)},
          {"end", endName(recovery.loss_end)},
          {"missing_count", recovery.missing_count},
          {"missing_segments", missing},
          {"missing_bytes_max", bytesMax(recovery)},
          {"segments_whole", recovery.segments_whole},
          {"segments_in_part", recovery.segments_in_part},
          {"servers_away", away},
          {"can_be_accepted", recovery.loss_token != 0},
          {"loss_accepted", recovery.loss_accepted},
          {"missing_servers", recovery.missing_servers},
          {"missing_storage_bytes", recovery.missing_storage_bytes},
          {"text", recovery.text}};
}

}  // namespace ramcore::rc
