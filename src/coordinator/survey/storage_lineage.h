#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "base/ids.h"
#include "coordinator/state/records.h"

namespace ramcore::coordinator {

/// Which servers used the same storage one after the other, as far as their records are kept: each server told, when it
/// enlisted, whose name it had found there. Without a fault that is a line. It branches where a server died before its
/// own name was on the disk, and where a disk lost names that it had said were flushed.
///
/// Servers that tell the same name of the storage have the same storage, because a server tells the name that it read
/// there, or that it has drawn at random. So they belong together, whoever they found, also where a record is gone.
///
/// A server takes nothing, and answers no recovery, before its name is flushed. So while disks tell the truth, one of
/// two branches is a single server that had nothing: a server that has something was found by the next one, and is in
/// the line of all later ones. Where a disk lied, the branch that is left has all that is left.
///
/// All this assumes that a storage is one disk. Copies of it that are in use at the same time look like branches, and
/// one of them may be taken for what is left of another (docs/recovery.md). A storage with the name of another one
/// counts as such a copy, and does no further harm.
///
/// Thread: one. Borrows the records; they outlive it, unchanged.
class StorageLineage {
 public:
  /// @param servers  in ascending order of their ids
  explicit StorageLineage(const std::vector<const Server*>& servers);

  /// Whether the storage of `server`, whose name was found by no later server, was in use again after it: a server on
  /// another branch answers, or a server on that branch with a higher id was itself found there. Such a one had the
  /// storage when it got its id, so `server` had it before. What `server` wrote is there or is lost, so waiting for it
  /// is of no use. A server that enlisted late, after the one that has the storage, proves nothing by that alone, nor
  /// does the late enlistment of a server that had found another one.
  /// @param server   one of those given to the constructor
  /// @param answers  whether this server answers today
  /// Cost: proportional to the number of servers that used its storage.
  bool isSuperseded(const Server& server, const std::function<bool(ServerId)>& answers) const;

 private:
  ServerId rootOf(ServerId server) const;
  void unite(ServerId one, ServerId other);
  static std::vector<ServerId> formersOf(const Server& server, const std::vector<const Server*>& line);

  std::map<ServerId, ServerId> parents_;     // sets of servers with the same storage: no entry for the root of a set
  std::map<uint64_t, ServerId> by_storage_;  // by a storage's name: one of its servers
  std::map<ServerId, std::vector<const Server*>> by_root_;  // ascending
  std::set<ServerId> found_;                                // servers whose names were found by others
};

}  // namespace ramcore::coordinator
