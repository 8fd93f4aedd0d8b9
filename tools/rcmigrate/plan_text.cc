#include "tools/rcmigrate/plan_text.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "base/id_text.h"
#include "tools/rcmigrate/tablet_listing.h"
#include "tools/support/display.h"
#include "tools/support/json.h"

namespace ramcore::rcmigrate {
namespace {

using tools::formatBytes;
using tools::formatServer;
using tools::Json;

std::string valueText(double value, Measure measure) {
  if (measure == Measure::Bytes) return formatBytes(static_cast<uint64_t>(value));
  char text[48];
  std::snprintf(text, sizeof text, measure == Measure::Load ? "%.0f calls/s" : "%.0f", value);
  return text;
}

std::string tableName(const PlanInput& input, TableId id) {
  const auto table = std::ranges::find(input.cluster.tables, id, &client::TableMap::table);
  return table == input.cluster.tables.end() ? std::to_string(id.value) : table->name;
}

std::string rangeText(const HashRange& range) { return hexText(range.first) + "-" + hexText(range.last); }

std::string stepText(const PlanInput& input, const PlanStep& step) {
  const std::string of_table = " of table '" + tableName(input, step.table) + "'";
  const std::string from = nameOf(input.cluster, step.from);
  if (step.kind == PlanStep::Kind::Split) {
    return "cut " + rangeText(step.range) + of_table + " on " + from + " at " + hexText(step.at);
  }
  return "move " + rangeText(step.range) + of_table + " from " + from + " to " + nameOf(input.cluster, step.to) + ", " +
         formatBytes(step.bytes);
}

std::string hotText(const PlanInput& input, const HotKey& hot) {
  const auto key = input.hot_keys.find(hot.tablet);
  char share[16];
  std::snprintf(share, sizeof share, "%.0f %%", hot.share * 100);
  return "tablet " + std::to_string(hot.tablet.value) + " of table '" + tableName(input, hot.table) +
         "' stays where it is: " + share + " of its calls are for one key, " +
         (key == input.hot_keys.end() ? "with the hash " + hexText(hot.hash) : tools::quotedAscii(key->second));
}

uint64_t bytesOf(const Plan& plan) {
  uint64_t bytes = 0;
  for (const PlanStep& step : plan.steps) bytes += step.bytes;
  return bytes;
}

}  // namespace

std::string nameOf(Measure measure) {
  if (measure == Measure::Bytes) return "bytes";
  return measure == Measure::Objects ? "objects" : "load";
}

std::optional<Measure> measureOf(const std::string& text) {
  for (const Measure measure : {Measure::Bytes, Measure::Objects, Measure::Load}) {
    if (nameOf(measure) == text) return measure;
  }
  return std::nullopt;
}

std::string textOf(const PlanInput& input, const Plan& plan, Measure measure) {
  char line[256];
  std::snprintf(line, sizeof line, "%-24s %6s %12s %18s %18s\n", "server", "filled", "of", "now",
                plan.steps.empty() ? "" : "then");
  std::string out = line;
  for (const PlanLevel& level : plan.levels) {
    const PlanServer& server = *std::ranges::find(input.servers, level.server, &PlanServer::id);
    const double filled = static_cast<double>(server.bytes) / static_cast<double>(server.bytes_max);
    std::snprintf(line, sizeof line, "%-24.100s %4.0f %% %12s %18s %18s\n", nameOf(input.cluster, level.server).c_str(),
                  filled * 100, formatBytes(server.bytes_max).c_str(), valueText(level.before, measure).c_str(),
                  plan.steps.empty() ? "" : valueText(level.after, measure).c_str());
    out += line;
  }
  for (const ServerId server : input.silent) {
    out += nameOf(input.cluster, server) + " does not say what it has, and is left out\n";
  }
  if (input.moves_under_way != 0) {
    out += std::to_string(input.moves_under_way) + " moves are under way, and are not counted\n";
  }
  if (input.tablets_away != 0) {
    out += std::to_string(input.tablets_away) + " tablets of dead servers are not back yet, and are not counted\n";
  }
  for (const HotKey& hot : plan.hot_keys) out += hotText(input, hot) + "\n";
  for (const PlanStep& step : plan.steps) out += stepText(input, step) + "\n";
  if (plan.steps.empty()) return out + "nothing to do\n";
  const auto moves = std::ranges::count(plan.steps, PlanStep::Kind::Move, &PlanStep::kind);
  return out + std::to_string(moves) + (moves == 1 ? " move, " : " moves, ") + formatBytes(bytesOf(plan)) + "\n";
}

// Hashes and server ids are strings: many readers of JSON keep only 53 bits of a number.
Json jsonOf(const PlanInput& input, const Plan& plan, Measure measure) {
  Json servers = Json::array();
  for (const PlanLevel& level : plan.levels) {
    servers.append({{"server", nameOf(input.cluster, level.server)},
                    {"server_id", formatServer(level.server)},
                    {"now", level.before},
                    {"then", level.after}});
  }
  Json steps = Json::array();
  for (const PlanStep& step : plan.steps) {
    Json entry = {{"step", step.kind == PlanStep::Kind::Split ? "split" : "move"},
                  {"table", tableName(input, step.table)},
                  {"first_hash", hexText(step.range.first)},
                  {"last_hash", hexText(step.range.last)},
                  {"from", nameOf(input.cluster, step.from)}};
    if (step.kind == PlanStep::Kind::Split) {
      entry["at"] = hexText(step.at);
    } else {
      entry["to"] = nameOf(input.cluster, step.to);
      entry["bytes"] = step.bytes;
    }
    steps.append(std::move(entry));
  }
  Json hot = Json::array();
  for (const HotKey& one : plan.hot_keys) {
    const auto key = input.hot_keys.find(one.tablet);
    hot.append({{"tablet", one.tablet.value},
                {"table", tableName(input, one.table)},
                {"hash", hexText(one.hash)},
                {"key", key == input.hot_keys.end() ? "" : key->second},
                {"share", one.share}});
  }
  Json silent = Json::array();
  for (const ServerId server : input.silent) silent.append(nameOf(input.cluster, server));
  return {{"by", nameOf(measure)}, {"servers", servers}, {"silent", silent}, {"steps", steps}, {"hot_keys", hot}};
}

}  // namespace ramcore::rcmigrate
