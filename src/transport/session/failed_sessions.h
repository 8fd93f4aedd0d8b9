#pragma once

#include <string>
#include <utility>
#include <vector>

#include "transport/message.h"

namespace ramcore::transport {

/// Sessions that have to be closed, but not from where that was found out: their calls must not complete inside of a
/// call to the endpoint, or inside of a sleep. The endpoint closes them in its next round. One thread.
class FailedSessions {
 public:
  struct Failed {
    SessionId session;
    std::string why;
    bool is_malformed = false;  ///< the peer's bytes are to blame, not the network
  };

  void add(SessionId session, std::string why, bool is_malformed) {
    failed_.push_back({.session = session, .why = std::move(why), .is_malformed = is_malformed});
  }
  bool empty() const { return failed_.empty(); }
  /// All of them; what fails from now on is taken the next time.
  std::vector<Failed> take() { return std::exchange(failed_, {}); }

 private:
  std::vector<Failed> failed_;
};

}  // namespace ramcore::transport
