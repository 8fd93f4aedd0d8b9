#include "coordinator/members/silence_watch.h"

#include <algorithm>
#include <string>

namespace ramcore::coordinator {

void SilenceWatch::add(const Server& server) { heard_.try_emplace(server.id, server, clock_.nowNs()); }

void SilenceWatch::noteHeard(ServerId id, int64_t now_ns, const std::optional<ServerRenewal>& renewal) {
  Heard& heard = heard_.at(id);
  // Looks before this server counts as heard: with it the silent ones may not be half of the servers any more.
  if (silenceNs(heard) >= limits_.heard_ns || was_together_) look();
  heard.left_behind_since_ns = 0;
  heard.last_ns = now_ns;
  heard.is_heard = true;
  if (renewal) heard.renewal = renewal;
}

int64_t SilenceWatch::silenceNs(const Heard& one) const {
  return clock_.nowNs() - std::max(one.last_ns, hearing_since_ns_);
}

bool SilenceWatch::areSilentTogether() const {
  size_t living = 0;
  size_t silent = 0;
  for (const auto& [id, one] : heard_) {
    if (!one.server.alive) continue;
    ++living;
    silent += silenceNs(one) >= limits_.heard_ns ? 1 : 0;
  }
  return silent != 0 && silent * 2 >= living;
}

void SilenceWatch::look() {
  const bool are_together = areSilentTogether();
  if (are_together || was_together_) together_until_ns_ = clock_.nowNs();
  if (was_together_ && !are_together) {
    for (auto& [id, one] : heard_) {
      const bool is_silent = silenceNs(one) >= limits_.heard_ns;
      if (is_silent && one.left_behind_since_ns == 0) one.left_behind_since_ns = together_until_ns_;
    }
  }
  was_together_ = are_together;
}

int64_t SilenceWatch::silentForNs(ServerId id) const {
  const auto found = heard_.find(id);
  if (found == heard_.end() || !found->second.is_heard) return -1;
  return clock_.nowNs() - found->second.last_ns;
}

SilenceWatch::Judged SilenceWatch::judge() const {
  std::vector<Silence> living;
  for (const auto& [id, one] : heard_) {
    if (!one.server.alive) continue;
    Silence& silence =
        living.emplace_back(Silence{.server = id,
                                    .silent_ns = silenceNs(one),
                                    .alone_ns = std::min(silenceNs(one), clock_.nowNs() - together_until_ns_),
                                    .left_behind_ns = 0,
                                    .keeps_replicas = one.server.keeps_replicas,
                                    .replicas = one.server.replicas,
                                    .min_replicas = one.server.min_replicas,
                                    .local_replica = one.server.local_replica,
                                    .live_bytes = {},
                                    .room_bytes = {}});
    if (one.left_behind_since_ns != 0) silence.left_behind_ns = clock_.nowNs() - one.left_behind_since_ns;
    if (one.renewal) silence.live_bytes = one.renewal->live_bytes;
    if (one.renewal) silence.room_bytes = one.renewal->room_bytes;
  }
  std::vector<SilenceMeans> means(living.size());
  judgeSilences(living, limits_, means);
  Judged judged;
  for (size_t i = 0; i < living.size(); ++i) judged.emplace_back(living[i].server, means[i]);
  return judged;
}

void SilenceWatch::tellOfTogether(const Judged& judged) {
  const auto silent =
      std::count_if(judged.begin(), judged.end(), [](const auto& one) { return one.second != SilenceMeans::Nothing; });
  const bool are_together =
      std::any_of(judged.begin(), judged.end(), [](const auto& one) { return one.second == SilenceMeans::Together; });
  if (are_together == told_of_together_) return;
  told_of_together_ = are_together;
  if (!are_together) return;
  trace_.warning(
      std::to_string(silent) + " of " + std::to_string(judged.size()) +
      " servers are silent together: is this machine cut off? None of them is declared dead before it has been "
      "silent for " +
      std::to_string(limits_.together_ns / runtime::kNanosPerMilli) + " ms (--silent-together-ms)");
}

void SilenceWatch::tell(ServerId id, SilenceMeans means) {
  Heard& one = heard_.at(id);
  if (means == one.told) return;
  const bool was_waiting = one.told == SilenceMeans::Replacers || one.told == SilenceMeans::Room;
  const std::string who = "server " + std::to_string(id.value) + " (" + one.server.name + ")";
  if (means == SilenceMeans::Nothing && (was_waiting || one.told == SilenceMeans::Together)) {
    trace_.info(who + " renews its lease again");
  }
  if (means == SilenceMeans::Replacers) {
    const uint32_t needed = one.server.min_replicas + 1;
    const bool has_copies = one.server.replicas != 0 && !one.server.local_replica;
    trace_.warning(who + " is silent, and nobody could take its place: " +
                   (has_copies ? "that takes " + std::to_string(needed) + " other servers; start it again, or add some"
                               : std::string("it has no copies on others; start it again")));
  }
  if (means == SilenceMeans::Room) {
    trace_.warning(who +
                   " is silent, and the others have not enough room for what it holds; start it again, or add servers");
  }
  one.told = means;
}

std::vector<SilenceWatch::SilentServer> SilenceWatch::silentServers() const {
  std::vector<SilentServer> silent;
  for (const auto& [id, means] : judge()) {
    // One or two late renewals are not reported.
    if (silenceNs(heard_.at(id)) >= lease_ns_) silent.push_back({id, means});
  }
  return silent;
}

}  // namespace ramcore::coordinator
