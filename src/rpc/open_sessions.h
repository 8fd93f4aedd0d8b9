#pragma once

#include <cstdint>
#include <vector>

#include "transport/message.h"

namespace ramcore::rpc {

/// The sessions of one endpoint that are open, as its poll() has reported them.
/// Thread: the dispatch's.
class OpenSessions {
 public:
  void opened(transport::SessionId session) {
    if (session.index >= generations_.size()) generations_.resize(session.index + size_t{1});
    generations_[session.index] = session.generation;
  }
  /// Does nothing for a session that never opened, or whose index another session has taken.
  void lost(transport::SessionId session) {
    if (session.index < generations_.size() && generations_[session.index] == session.generation) {
      generations_[session.index] = 0;
    }
  }
  template <typename Visit>
  void visit(Visit&& visit) const {
    for (uint32_t index = 0; index < generations_.size(); ++index) {
      if (generations_[index] != 0) visit(transport::SessionId{.index = index, .generation = generations_[index]});
    }
  }

 private:
  // The generation of the open session by its index; 0: none is open there. Endpoints use indices again, so there are
  // not more indices than sessions that were ever open at the same time.
  std::vector<uint32_t> generations_;
};

}  // namespace ramcore::rpc
