#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/ids.h"

namespace ramcore::rcmigrate {

/// How many calls took so long, by bucket of LogLinearHistogram.
using CallCounts = std::map<uint32_t, uint64_t>;

/// How long the calls of clients took at a server.
struct CallTimes {
  uint64_t calls = 0;
  uint64_t p50_ns = 0;
  uint64_t p999_ns = 0;
};

/// The calls that `later` has counted and `earlier` has not: all of `later`, if the server was started between. Pure.
CallTimes callTimesSince(const CallCounts& earlier, const CallCounts& later);

/// "p50 12 us, p99.9 1.2 ms", or "no calls".
std::string textOf(const CallTimes& times);

/// How long calls took at each server before the moves, since the look before the last one, and since the moves began.
class CallHistory {
 public:
  /// The counts of a server at one look.
  void note(ServerId server, CallCounts counts);
  /// The moves begin: what was counted between the first look and the last one is what was before.
  void markBegin();
  bool hasBegun() const { return has_begun_; }

  CallTimes before(ServerId server) const;
  CallTimes lately(ServerId server) const;
  CallTimes sinceBegin(ServerId server) const;

 private:
  struct Looks {
    CallCounts first;
    CallCounts begin;
    CallCounts former;
    CallCounts last;
  };
  std::map<ServerId, Looks> servers_;
  bool has_begun_ = false;
};

}  // namespace ramcore::rcmigrate
