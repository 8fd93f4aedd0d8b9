#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/trace.h"
#include "coordinator/members/silence.h"
#include "coordinator/state/records.h"
#include "runtime/clock.h"

namespace ramcore::coordinator {

/// What a server says of itself when it renews its lease.
struct ServerRenewal {
  uint64_t nonce = 0;       ///< the nonce with which it enlisted
  uint64_t live_bytes = 0;  ///< live bytes of its log
  uint64_t room_bytes = 0;  ///< by how much live_bytes may grow before writes are refused
};

/// Which servers were heard and when, and what the silence of the others means.
/// Thread: one executor.
class SilenceWatch {
 public:
  /// @param clock, trace  borrowed; outlive the watch
  /// @param lease_ns      a shorter silence is not reported
  SilenceWatch(runtime::Clock& clock, Trace& trace, const SilenceLimits& limits, int64_t lease_ns)
      : clock_(clock), trace_(trace), limits_(limits), lease_ns_(lease_ns) {}

  /// Watches a server, whose silence counts from now on.
  /// @param server  stays in place until remove(); its silence means something while it is alive
  void add(const Server& server);
  void remove(ServerId id) { heard_.erase(id); }
  /// Counts silence from now on: before, no server could be heard.
  void hearAnew() { hearing_since_ns_ = clock_.nowNs(); }
  /// The server renewed its lease at `now_ns`.
  /// @param renewal  what it says of itself; none: as before
  void noteHeard(ServerId id, int64_t now_ns, const std::optional<ServerRenewal>& renewal);
  /// Notes whether half of the servers or more are silent together. Called at each look, and before anything that may
  /// end such a silence: for servers that stay silent the time counts from its end on.
  void look();

  /// When the server was last heard, or else when it was added, by this coordinator's clock.
  int64_t lastHeardNs(ServerId id) const { return heard_.at(id).last_ns; }
  /// How long the server has been silent; at most the time since hearAnew().
  int64_t silenceNs(ServerId id) const { return silenceNs(heard_.at(id)); }
  /// How long nothing was heard of the server; -1: it was not heard since this coordinator started, or is not known.
  int64_t silentForNs(ServerId id) const;

  using Judged = std::vector<std::pair<ServerId, SilenceMeans>>;
  /// What the silence of each living server means, in the order of ids.
  Judged judge() const;
  /// Traces if half of the servers or more are silent together, once for each time.
  void tellOfTogether(const Judged& judged);
  /// Traces what the silence of a server means, if that is new.
  void tell(ServerId id, SilenceMeans means);

  struct SilentServer {
    ServerId id;
    SilenceMeans means = SilenceMeans::Nothing;
  };
  /// Living servers that do not renew their leases, and why they are not declared dead.
  std::vector<SilentServer> silentServers() const;

 private:
  struct Heard {
    Heard(const Server& watched, int64_t now_ns) : server(watched), last_ns(now_ns) {}
    const Server& server;
    std::optional<ServerRenewal> renewal;  // none: not heard since this coordinator started
    int64_t last_ns = 0;                   // when it was last heard, in this coordinator's time
    bool is_heard = false;                 // since this coordinator started
    // Since when servers that were silent together with it are back; 0: they are not.
    int64_t left_behind_since_ns = 0;
    SilenceMeans told = SilenceMeans::Nothing;  // what was last traced of it
  };
  int64_t silenceNs(const Heard& heard) const;
  bool areSilentTogether() const;

  runtime::Clock& clock_;
  Trace& trace_;
  const SilenceLimits limits_;
  const int64_t lease_ns_;
  std::map<ServerId, Heard> heard_;
  int64_t hearing_since_ns_ = 0;   // silence before this proves nothing
  int64_t together_until_ns_ = 0;  // until then half of the servers or more were silent
  bool told_of_together_ = false;
  bool was_together_ = false;  // at the last look
};

}  // namespace ramcore::coordinator
