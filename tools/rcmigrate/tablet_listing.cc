#include "tools/rcmigrate/tablet_listing.h"

#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/id_text.h"
#include "tools/support/display.h"
#include "tools/support/json.h"

namespace ramcore::rcmigrate {

using tools::formatServer;
using tools::Json;
using tools::stateOf;

namespace {

// The share of the whole hash space that is in a range.
double shareOf(const HashRange& range) {
  return (static_cast<double>(range.last - range.first) + 1.0) / 18446744073709551616.0;
}

std::string asText(const client::ClusterStatus& status, const std::string& name) {
  std::string out;
  std::array<char, 256> line{};
  std::snprintf(line.data(), line.size(), "%8s  %-20s %-18s  %-18s %7s  %-12s %8s  %s\n", "tablet", "table",
                "first hash", "last hash", "share", "state", "epoch", "server");
  out += line.data();
  for (const client::TableMap& table : status.tables) {
    if (!name.empty() && table.name != name) continue;
    for (const client::TabletInfo& tablet : table.tablets) {
      std::snprintf(line.data(), line.size(), "%8" PRIu64 "  %-20.100s %-18s  %-18s %6.2f%%  %-12s %8" PRIu64 "  ",
                    tablet.id.value, table.name.c_str(), hexText(tablet.range.first).c_str(),
                    hexText(tablet.range.last).c_str(), shareOf(tablet.range) * 100, stateOf(tablet).data(),
                    tablet.epoch.value);
      out += line.data();
      out += nameOf(status, tablet.owner) + "\n";
    }
  }
  return out;
}

// Hashes and server ids are strings: many readers of JSON keep only 53 bits of a number.
std::string asJson(const client::ClusterStatus& status, const std::string& name) {
  Json tablets = Json::array();
  for (const client::TableMap& table : status.tables) {
    if (!name.empty() && table.name != name) continue;
    for (const client::TabletInfo& tablet : table.tablets) {
      tablets.append({{"tablet", tablet.id.value},
                      {"table", table.name},
                      {"first_hash", hexText(tablet.range.first)},
                      {"last_hash", hexText(tablet.range.last)},
                      {"share", shareOf(tablet.range)},
                      {"state", stateOf(tablet)},
                      {"epoch", tablet.epoch.value},
                      {"server_id", formatServer(tablet.owner)},
                      {"server", nameOf(status, tablet.owner)}});
    }
  }
  return Json{{"tablets", tablets}}.dump(2) + "\n";
}

}  // namespace

Outcome<ServerId> findServer(const client::ClusterStatus& status, const std::string& name_or_id) {
  std::vector<ServerId> found;
  std::string names;
  for (const client::ServerStatus& server : status.servers) {
    if (!server.is_alive) continue;
    names += (names.empty() ? "" : ", ") + nameOf(status, server.id) + " (" + formatServer(server.id) + ")";
    if (formatServer(server.id) == name_or_id) return server.id;
    if (server.name == name_or_id) found.push_back(server.id);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    return Failure{Status::NotFound, "no live server is called '" + name_or_id + "'; there are: " + names};
  }
  return Failure{Status::BadConfig,
                 "several servers are called '" + name_or_id + "'; give the number instead. There are: " + names};
}

Outcome<client::TabletInfo> findTablet(const client::ClusterStatus& status, uint64_t id) {
  for (const client::TableMap& table : status.tables) {
    for (const client::TabletInfo& tablet : table.tablets) {
      if (tablet.id.value == id) return tablet;
    }
  }
  return Failure{Status::NotFound, "there is no tablet " + std::to_string(id) +
                                       " (a split gives new numbers); 'rcmigrate list' shows those that exist"};
}

std::string nameOf(const client::ClusterStatus& status, ServerId id) {
  for (const client::ServerStatus& server : status.servers) {
    if (server.id == id && !server.name.empty()) return server.name;
  }
  return formatServer(id);
}

std::string nameOf(client::MigrationStatus::State state) {
  switch (state) {
    case client::MigrationStatus::State::Running:
      return "running";
    case client::MigrationStatus::State::Done:
      return "done";
    case client::MigrationStatus::State::Cancelled:
      return "cancelled";
    case client::MigrationStatus::State::Failed:
      return "failed";
    case client::MigrationStatus::State::Unknown:
      break;
  }
  return "unknown";
}

std::string listTablets(const client::ClusterStatus& status, const std::string& name, bool as_json) {
  return as_json ? asJson(status, name) : asText(status, name);
}

KeyHash middleOf(const HashRange& range) { return range.first + (range.last - range.first) / 2 + 1; }

}  // namespace ramcore::rcmigrate
