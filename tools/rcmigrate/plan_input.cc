#include "tools/rcmigrate/plan_input.h"

#include <algorithm>
#include <utility>

#include "runtime/clock.h"

namespace ramcore::rcmigrate {
namespace {

using client::MigrationRecord;
using client::TabletLoad;

// A move that is over for longer is forgotten: the load may be another one by now.
constexpr int64_t kLatelyNs = 600 * runtime::kNanosPerSecond;

using ByTablet = std::map<std::pair<ServerId, TabletId>, const TabletLoad*>;

ByTablet byTablet(const std::vector<TabletLoad>& loads) {
  ByTablet found;
  for (const TabletLoad& load : loads) found[{load.server, load.tablet}] = &load;
  return found;
}

const TabletLoad* find(const ByTablet& loads, const client::TabletInfo& tablet) {
  const auto at = loads.find({tablet.owner, tablet.id});
  return at == loads.end() ? nullptr : at->second;
}

}  // namespace

PlanInput makeInput(client::ClusterStatus cluster, const std::vector<TabletLoad>& before,
                    const client::ClusterLoads& loads, double seconds, const std::vector<MigrationRecord>& moves) {
  PlanInput input;
  input.seconds = seconds;
  for (const client::ServerStatus& server : cluster.servers) {
    if (!server.is_alive) continue;
    const bool has_told = std::ranges::find(loads.calls, server.id, &client::ServerCalls::server) != loads.calls.end();
    if (server.has_answered && has_told && server.live_bytes_max != 0) {
      input.servers.push_back({.id = server.id, .bytes = server.live_bytes, .bytes_max = server.live_bytes_max});
    } else {
      input.silent.push_back(server.id);
    }
  }
  const ByTablet first = byTablet(before);
  const ByTablet second = byTablet(loads.tablets);
  for (const client::TableMap& table : cluster.tables) {
    for (const client::TabletInfo& tablet : table.tablets) {
      if (!tablet.is_available) ++input.tablets_away;
      const TabletLoad* const load = find(second, tablet);
      const bool is_known = std::ranges::find(input.servers, tablet.owner, &PlanServer::id) != input.servers.end();
      if (load == nullptr || !is_known) continue;
      PlanTablet& out = input.tablets.emplace_back();
      out.id = tablet.id;
      out.table = tablet.table;
      out.range = tablet.range;
      out.owner = tablet.owner;
      out.bytes = load->bytes;
      out.objects = load->objects;
      out.sample = load->called;
      out.may_move = tablet.is_available && !tablet.is_moving;
      const TabletLoad* const earlier = find(first, tablet);
      if (earlier != nullptr && seconds > 0 && load->calls >= earlier->calls) {
        out.load = static_cast<double>(load->calls - earlier->calls) / seconds;
      } else if (seconds > 0) {
        out.may_move = false;  // it has come since, and nobody knows what calls there are to it
      }
      out.has_hot_key = !load->hot_key.empty();
      if (out.has_hot_key) input.hot_keys[tablet.id] = load->hot_key;
    }
  }
  for (const MigrationRecord& move : moves) {
    if (move.state == client::MigrationStatus::State::Running) ++input.moves_under_way;
    const bool is_late =
        move.state == client::MigrationStatus::State::Done && move.over_for_ns >= 0 && move.over_for_ns < kLatelyNs;
    const auto tablet = std::ranges::find(input.tablets, move.tablet, &PlanTablet::id);
    // A server that has nothing any more was emptied, and whoever levels out now wants it to have something again.
    const bool has_any = std::ranges::find(input.tablets, move.source, &PlanTablet::owner) != input.tablets.end();
    const bool is_there = tablet != input.tablets.end() && tablet->owner == move.destination;
    if (is_late && is_there && has_any) tablet->came_from = move.source;
  }
  input.cluster = std::move(cluster);
  return input;
}

}  // namespace ramcore::rcmigrate
