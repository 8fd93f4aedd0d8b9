#include "coordinator/survey/storage_lineage.h"

#include <algorithm>

namespace ramcore::coordinator {

StorageLineage::StorageLineage(const std::vector<const Server*>& servers) {
  for (const Server* server : servers) {
    // The record of the former server may be gone. It still joins those that found its name.
    if (server->former != ServerId()) unite(server->id, server->former);
    if (server->storage != 0) unite(server->id, by_storage_.emplace(server->storage, server->id).first->second);
    found_.insert(server->former);
  }
  for (const Server* server : servers) by_root_[rootOf(server->id)].push_back(server);
}

ServerId StorageLineage::rootOf(ServerId server) const {
  for (auto at = parents_.find(server); at != parents_.end(); at = parents_.find(server)) server = at->second;
  return server;
}

// The lower id becomes the root.
void StorageLineage::unite(ServerId one, ServerId other) {
  const ServerId root = rootOf(one);
  const ServerId other_root = rootOf(other);
  if (root != other_root) parents_.emplace(std::max(root, other_root), std::min(root, other_root));
}

// The servers that used the storage before `server`, the latest first. Ids ascend from a former server to the next one.
std::vector<ServerId> StorageLineage::formersOf(const Server& server, const std::vector<const Server*>& line) {
  std::vector<ServerId> formers{server.former};
  for (auto one = line.rbegin(); one != line.rend(); ++one) {
    if ((*one)->id == formers.back()) formers.push_back((*one)->former);
  }
  return formers;
}

bool StorageLineage::isSuperseded(const Server& server, const std::function<bool(ServerId)>& answers) const {
  const std::vector<const Server*>& line = by_root_.at(rootOf(server.id));
  if (line.size() == 1) return false;
  const std::vector<ServerId> formers = formersOf(server, line);  // descending
  return std::any_of(line.begin(), line.end(), [&](const Server* other) {
    const bool is_former = std::binary_search(formers.begin(), formers.end(), other->id, std::greater<>());
    if (other->id == server.id || is_former) return false;
    return answers(other->id) || (other->id > server.id && found_.contains(other->id));
  });
}

}  // namespace ramcore::coordinator
