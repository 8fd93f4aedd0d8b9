#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "base/result.h"

namespace ramcore::rcnic {

/// A directory for the socket of shm or a memif. It is removed when this object is destroyed, and also when this
/// process ends in another way, by any signal: another process waits for that and removes it.
class SocketDirectory {
 public:
  /// In TMPDIR, or in /tmp. Processes that are forked later hold it, too, as long as they live. Failure: IoError.
  static Outcome<SocketDirectory> make();
  SocketDirectory(SocketDirectory&& other) noexcept;
  SocketDirectory& operator=(SocketDirectory&&) = delete;
  ~SocketDirectory();

  std::string socket() const;

 private:
  SocketDirectory(std::string path, pid_t remover, int alive)
      : path_(std::move(path)), remover_(remover), alive_(alive) {}

  std::string path_;
  pid_t remover_;
  int alive_;  ///< closed at the end; -1: moved away
};

}  // namespace ramcore::rcnic
