#include "coordinator/survey/storage_lineage.h"

#include <algorithm>

namespace ramcore::coordinator {

StorageLineage::StorageLineage(const std::vector<const Server*>& servers) {
  for (const Server* server : servers) {
    const ServerId root = rootOf(*server);
    roots_.insert_or_assign(server->id, root);
    if (server->former != ServerId()) roots_.emplace(server->former, root);  // its record is gone
    if (server->storage != 0) by_storage_.emplace(server->storage, root);
    by_root_[root].push_back(server);
    last_next_[server->former] = server->id;
  }
}

ServerId StorageLineage::rootOf(const Server& server) const {
  const auto known = roots_.find(server.former);
  if (known != roots_.end()) return known->second;
  const auto named = by_storage_.find(server.storage);
  if (named != by_storage_.end()) return named->second;
  return server.former == ServerId() ? server.id : server.former;
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
  const std::vector<const Server*>& line = by_root_.at(roots_.at(server.id));
  if (line.size() == 1) return false;
  const std::vector<ServerId> formers = formersOf(server, line);  // descending
  return std::any_of(line.begin(), line.end(), [&](const Server* other) {
    const bool is_former = std::binary_search(formers.begin(), formers.end(), other->id, std::greater<>());
    if (other->id == server.id || is_former) return false;
    const auto next = last_next_.find(other->id);
    return answers(other->id) || (next != last_next_.end() && next->second > server.id);
  });
}

}  // namespace ramcore::coordinator
