#include "coordinator/storage_lineage.h"

#include <algorithm>

namespace ramcore::coordinator {

StorageLineage::StorageLineage(const std::vector<const Server*>& servers) {
  for (const Server* server : servers) {
    const ServerId root = rootOf(*server);
    roots_.emplace(server->id, root);
    by_root_[root].push_back(server);
  }
}

ServerId StorageLineage::rootOf(const Server& server) const {
  if (server.former == ServerId()) return server.id;
  const auto known = roots_.find(server.former);
  return known == roots_.end() ? server.former : known->second;
}

// Whether `server` has it from `id`, perhaps through others.
bool StorageLineage::isBefore(ServerId id, const Server& server, const std::vector<const Server*>& line) {
  ServerId at = server.former;
  // Ids ascend from a former server to the next one.
  for (auto one = line.rbegin(); one != line.rend() && at >= id; ++one) {
    if (at == id) return true;
    if ((*one)->id == at) at = (*one)->former;
  }
  return at == id;
}

bool StorageLineage::isSuperseded(const Server& server, const std::function<bool(ServerId)>& answers) const {
  const std::vector<const Server*>& line = by_root_.at(roots_.at(server.id));
  return std::any_of(line.begin(), line.end(), [&](const Server* other) {
    if (other->id == server.id || isBefore(other->id, server, line)) return false;
    if (answers(other->id)) return true;
    return std::any_of(line.begin(), line.end(),
                       [&](const Server* next) { return next->former == other->id && next->id > server.id; });
  });
}

}  // namespace ramcore::coordinator
