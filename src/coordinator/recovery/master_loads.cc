#include "coordinator/recovery/master_loads.h"

#include <map>

namespace ramcore::coordinator {

MasterLoads::MasterLoads(const Parts& parts, const RecoveryAttempts& attempts) {
  std::map<ServerId, size_t> loads;
  for (const ServerId server : parts.membership.heardServers()) loads[server] = 0;
  for (const Tablet* tablet : parts.map.tabletsIn(TabletState::Recovering)) {
    const auto load = loads.find(tablet->recovery_master);
    if (load != loads.end() && attempts.isAtWork(tablet->id)) ++load->second;
  }
  for (const auto& [server, load] : loads) loads_.emplace(load, server);
}

// Among the servers with the least to recover, the choice begins after the one that failed with this tablet, so that
// each of them gets a turn. If it always began with the first, two servers without room could get the tablet in turn
// for ever, although a third one has room. The server that failed gets it again only if there is no other.
ServerId MasterLoads::takeLeast(ServerId former) {
  auto target = loads_.upper_bound({loads_.begin()->first, former});
  if (target == loads_.end() || target->first != loads_.begin()->first) target = loads_.begin();
  if (target->second == former && loads_.size() > 1) ++target;
  const auto [load, server] = *target;
  loads_.erase(target);
  loads_.emplace(load + 1, server);
  return server;
}

}  // namespace ramcore::coordinator
