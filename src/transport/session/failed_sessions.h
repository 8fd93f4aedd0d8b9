#pragma once

#include <string>
#include <utility>
#include <vector>

#include "transport/message.h"

namespace ramcore::transport {

/// Sessions that the endpoint closes in its next round. They are not closed where the failure is found, because their
/// calls must not complete inside of a call to the endpoint or inside of a sleep. One thread.
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
  /// Returns all of them; sessions that fail from now on are returned by the next call.
  std::vector<Failed> take() { return std::exchange(failed_, {}); }

 private:
  std::vector<Failed> failed_;
};

}  // namespace ramcore::transport
