#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/trace.h"
#include "transport/locator.h"

namespace ramcore::transport {

/// One place to listen at, as flags say it: a locator, or `all://host:port` for every transport that the process has.
struct ListenWish {
  Locator locator;
  bool is_all = false;  ///< then `locator` is tcp://host:port

  /// Failure: BadConfig.
  static Outcome<ListenWish> parse(std::string_view text);
};

/// The transports that a process can listen with, apart from tcp, which is always there.
struct ListenMeans {
  struct Means {
    bool is_there = false;
    std::string why_not;                  ///< for a person; empty: it has been said already
    TraceLevel level = TraceLevel::Info;  ///< of the line that says so
  };
  Means shm;
  std::string shm_path;  ///< made for this process, if shm is there
  Means verbs;
  Means dpdk;
  bool has_secret = false;
};

/// Where a process listens.
struct ListenPlan {
  struct Place {
    Locator locator;
    bool is_must = true;  ///< listening there must work; false: the process goes on without it
  };
  struct LeftOut {
    std::string line;  ///< "not listening over verbs: WHY"
    TraceLevel level = TraceLevel::Info;
  };
  std::vector<Place> places;      ///< first those that are a must, and of these first those of tcp
  std::vector<LeftOut> left_out;  ///< transports that are not there, unless why_not is empty

  void leaveOut(std::string_view scheme, std::string_view why, TraceLevel level = TraceLevel::Info);
};

/// True if a wish names a locator of this transport (`all://` names none).
bool isNamed(std::span<const ListenWish> wishes, std::string_view scheme);

/// The wishes with each `all://` replaced by what there is. Wishes that name a locator keep their meaning: `all://`
/// adds no second place to a transport that listens at one only, and no tcp locator that is there already.
ListenPlan planListening(std::span<const ListenWish> wishes, const ListenMeans& means);

}  // namespace ramcore::transport
