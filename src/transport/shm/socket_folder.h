#pragma once

#include <cstdint>
#include <string>

#include "runtime/random.h"

namespace ramcore::transport::shm {

/// Folders for sockets whose paths nobody has named, the best one first; empty: there is none.
struct SocketFolderPlaces {
  std::string service_folder;    ///< of this service alone; systemd makes it
  std::string user_folder;       ///< for what the processes of this user have while it is logged in
  std::string temporary_folder;  ///< everybody's

  /// $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR, $TMPDIR or /tmp.
  static SocketFolderPlaces ofEnvironment();
};

struct OpenedFolder {
  std::string path;           ///< empty: none will do
  std::string passed_over;    ///< the better ones that will not do, and why; empty: none
  std::string why_not;        ///< if none will do: with cause and remedy
  bool is_disturbed = false;  ///< another user may have put something where our folder would be
};

/// The first of these that will do, or a folder below it, made if need be: it belongs to this user, nobody else may
/// write there, and a socket's path in it is short enough for a locator.
OpenedFolder openSocketFolder(const SocketFolderPlaces& places);

/// A path in the folder that no process has.
std::string newSocketPath(const std::string& folder, runtime::Entropy& entropy);

/// Removes sockets of newSocketPath() behind which there is no process any more; gives how many.
uint32_t removeDeadSockets(const std::string& folder);

}  // namespace ramcore::transport::shm
