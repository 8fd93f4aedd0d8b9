#include "tools/rc/cluster_health.h"

#include <algorithm>
#include <map>

#include "tools/support/display.h"

namespace ramcore::rc {
namespace {

using State = ClusterHealth::State;

std::string count(uint64_t number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

class Judge {
 public:
  explicit Judge(const client::ClusterStatus& status) : status_(status) {}

  ClusterHealth judge() {
    judgeTablets();
    judgeSilences();
    judgeCoordinator();
    judgeRecoveries();
    judgeReplicas();
    judgeStorage();
    return std::move(health_);
  }

 private:
  void add(State state, std::string reason) {
    health_.state = std::max(health_.state, state);
    health_.reasons.push_back(std::move(reason));
  }

  void judgeTablets() {
    std::map<ServerId, uint64_t> lost;
    for (const client::TableMap& table : status_.tables) {
      for (const client::TabletInfo& tablet : table.tablets) lost[tablet.owner] += tablet.is_available ? 0 : 1;
    }
    for (const auto& [owner, tablets] : lost) {
      if (tablets == 0) continue;
      add(State::Unavailable, count(tablets, "tablet") + " of dead server " + described(owner));
    }
  }

  void judgeCoordinator() {
    if (!status_.is_coordinator_full) return;
    add(State::Degraded,
        "the disk of the coordinator's storage is full: tables and servers cannot change, no recovery ends and no "
        "new client may write; make room there");
  }

  // The lease of a silent server has ended: no server answers for its tablets.
  void judgeSilences() {
    bool are_together = false;
    for (const client::ServerSilence& silence : status_.silences) {
      are_together |= silence.wait == client::ServerSilence::Wait::Together;
      uint64_t tablets = 0;
      for (const client::TableMap& table : status_.tables) {
        tablets += static_cast<uint64_t>(std::count_if(
            table.tablets.begin(), table.tablets.end(),
            [&](const client::TabletInfo& tablet) { return tablet.owner == silence.server && tablet.is_available; }));
      }
      const std::string subject = "server " + described(silence.server) + ", silent for " + lengthOf(silence.silent_ns);
      add(tablets != 0 ? State::Unavailable : State::Degraded,
          (tablets != 0 ? count(tablets, "tablet") + " of " : std::string()) + subject + meaningOf(silence.wait));
    }
    if (are_together) {
      add(State::Unavailable,
          std::to_string(status_.silences.size()) +
              " servers are silent together: is the coordinator's machine cut off? See --silent-together-ms");
    }
  }

  static std::string lengthOf(int64_t silent_ns) {
    constexpr int64_t kNanosPerSecond = 1'000'000'000;
    if (silent_ns < 0) return "longer than the coordinator runs";
    return std::to_string(silent_ns / kNanosPerSecond) + " s";
  }

  static std::string meaningOf(client::ServerSilence::Wait wait) {
    switch (wait) {
      case client::ServerSilence::Wait::Replacers:
        return "; nobody could take its place: start it again, or add servers";
      case client::ServerSilence::Wait::Room:
        return "; the others have not enough room for what it holds: start it again, or add servers";
      default:
        return "";
    }
  }

  void judgeRecoveries() {
    uint32_t servers = 0;
    uint64_t bytes = 0;
    for (const client::RecoveryProgress& recovery : status_.recoveries) {
      add(State::Degraded, "server " + described(recovery.server) + " is being recovered");
      servers = std::max(servers, recovery.missing_servers);
      bytes = std::max(bytes, recovery.missing_storage_bytes);
    }
    if (servers == 0) return;
    add(State::Degraded,
        "the copies of what is recovered find no places, because too few servers have room in their "
        "storages; start " +
            count(servers, "more server") + ", each with --storage-bytes " + tools::formatSize(roundedUp(bytes)) +
            " or more");
  }

  static uint64_t roundedUp(uint64_t bytes) {
    constexpr uint64_t kMegabyte = uint64_t{1} << 20;
    return (bytes + kMegabyte - 1) / kMegabyte * kMegabyte;
  }

  void judgeReplicas() {
    bool any = false;
    for (const client::ServerStatus& server : status_.servers) {
      if (!server.is_alive) continue;
      if (!server.has_answered) add(State::Degraded, "server " + described(server.id) + " does not answer");
      // Without an answer the numbers are 0.
      const uint32_t least = server.replicas_least;
      health_.replicas_wanted = std::max(health_.replicas_wanted, server.replicas_wanted);
      health_.replicas_least = any ? std::min(health_.replicas_least, least) : least;
      any = true;
      if (least < server.replicas_wanted) {
        add(State::Degraded, "server " + described(server.id) + " has " + std::to_string(least) + " of " +
                                 count(server.replicas_wanted, "replica"));
      }
      judgeRoom(server);
      if (server.storage_failed) {
        add(State::Degraded, "the storage of server " + described(server.id) +
                                 " has failed and keeps nothing any more; start it again on another disk");
      }
      if (server.damaged_now != 0) {
        add(State::Degraded, count(server.damaged_now, "object") + " damaged in the memory of server " +
                                 described(server.id) + ", which has found no intact replica yet; its log says where");
      }
      if (server.segments_repairing != 0) {
        add(State::Degraded, count(server.segments_repairing, "segment") + " of server " + described(server.id) +
                                 " must be copied again");
      }
    }
    if (!any) add(State::Unavailable, "no server lives");
    health_.survivable_deaths = std::max(health_.replicas_least, 1U) - 1;
  }

  // The storages are added up: a server that has more than it needs makes up for one that has less.
  void judgeStorage() {
    uint64_t bytes = 0;
    uint64_t needed = 0;
    uint64_t most_needed = 0;
    for (const client::ServerStatus& server : status_.servers) {
      if (!server.is_alive || !server.has_answered) continue;
      bytes += server.storage_bytes;
      needed += server.storage_bytes_needed;
      most_needed = std::max(most_needed, server.storage_bytes_needed);
    }
    // While something is being recovered, judgeRecoveries() says what is lacking. No storage may be replaced then: the
    // recovery may need it.
    if (bytes >= needed || !status_.recoveries.empty()) return;
    add(State::Degraded,
        "the storages of all servers, " + tools::formatBytes(bytes) +
            " together, may be too small to bring everything back when all are started again; start more servers with "
            "--storage-bytes " +
            tools::formatSize(roundedUp(needed - bytes)) +
            " in all, or start each server, one after the other, on a new --storage with --storage-bytes " +
            tools::formatSize(roundedUp(most_needed)));
  }

  void judgeRoom(const client::ServerStatus& server) {
    const std::string subject = "server " + described(server.id);
    if (server.has_too_few && server.is_short_of_places) {
      add(State::Degraded, subject + " takes no writes: the storage of the others is full; remove objects, or start " +
                               "servers with more");
    } else if (server.has_too_few) {
      add(State::Degraded,
          subject + " takes no writes: fewer other servers than its --min-replicas keep replicas; start more servers");
    }
    // The limit of live bytes moves a little with the sizes of objects, so 99 % of it count as full.
    if (server.live_bytes_max != 0 && server.live_bytes / 99 >= server.live_bytes_max / 100) {
      add(State::Degraded, subject + " takes hardly any writes: its memory is full; remove objects, or start servers " +
                               "and move tablets there");
    }
  }

  std::string described(ServerId id) const {
    const auto found = std::find_if(status_.servers.begin(), status_.servers.end(),
                                    [&](const client::ServerStatus& server) { return server.id == id; });
    return tools::formatServer(id) + (found == status_.servers.end() ? "" : " (" + found->name + ")");
  }

  const client::ClusterStatus& status_;
  ClusterHealth health_;
};

}  // namespace

ClusterHealth healthOf(const client::ClusterStatus& status) { return Judge(status).judge(); }

const char* name(State state) {
  switch (state) {
    case State::Ok:
      return "ok";
    case State::Degraded:
      return "degraded";
    case State::Unavailable:
      return "unavailable";
  }
  return "unknown";
}

bool isOfInterest(const client::ClusterStatus& status, const client::ServerStatus& server) {
  return server.is_alive ||
         std::any_of(status.recoveries.begin(), status.recoveries.end(),
                     [&](const client::RecoveryProgress& recovery) { return recovery.server == server.id; });
}

}  // namespace ramcore::rc
