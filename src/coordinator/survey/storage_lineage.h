#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "base/ids.h"
#include "coordinator/state/records.h"

namespace ramcore::coordinator {

/// Which servers used the same storage one after the other, as far as their records are kept: each told, when it
/// enlisted, whose name it had found there. Without a fault that is a line. It branches where a server died before its
/// own name was on the disk, and where a disk lost names that it had said were flushed.
///
/// Who found nobody's name, or that of one whose record is gone, is known by the storage's own name: it was on the disk
/// before the first server enlisted. Servers with the same one have the same storage.
///
/// A server takes nothing, and answers no recovery, before its name is flushed. So while disks tell the truth, of two
/// branches one is a single server that had nothing: whoever has something was found by the next one, and is in the
/// line of all later ones. Where a disk lied, the branch that is left has all that is left.
///
/// All this takes a storage for one disk. Copies of it that are in use at the same time look like branches, and
/// one of them may be taken for what is left of another (docs/recovery.md). A storage's name that is not its own makes
/// it such a copy, no more.
///
/// Thread: one. Borrows the records; they outlive it, unchanged.
class StorageLineage {
 public:
  /// @param servers  in ascending order of their ids
  explicit StorageLineage(const std::vector<const Server*>& servers);

  /// Whether the storage of `server`, of which nobody told the name, was there again after it: it is in use on another
  /// branch, by one who answers, or somebody found it as one of that branch had left it. What `server` wrote is there
  /// or is lost, so waiting for it is of no use.
  /// A server that enlisted late, behind the one that has the storage, proves nothing by that alone.
  /// @param server   one of those given to the constructor
  /// @param answers  whether this server answers today
  /// Cost: grows with the number of servers that used its storage.
  bool isSuperseded(const Server& server, const std::function<bool(ServerId)>& answers) const;

 private:
  ServerId rootOf(const Server& server) const;
  static std::vector<ServerId> formersOf(const Server& server, const std::vector<const Server*>& line);

  std::map<ServerId, ServerId> roots_;                      // the oldest one that is known, or named
  std::map<uint64_t, ServerId> by_storage_;                 // the root of its servers, by its name
  std::map<ServerId, std::vector<const Server*>> by_root_;  // ascending
  std::map<ServerId, ServerId> last_next_;                  // the highest of those that found its name
};

}  // namespace ramcore::coordinator
