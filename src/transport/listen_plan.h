#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "transport/locator.h"

namespace ramcore::transport {

/// One place to listen at, as flags say it: a locator, or `all://host:port` for every transport that the process has.
struct ListenWish {
  Locator locator;
  bool is_all = false;  ///< then `locator` is tcp://host:port

  /// Failure: BadConfig.
  static Outcome<ListenWish> parse(std::string_view text);
};

/// What a process has to listen with, beside tcp, for which it asks nobody.
struct ListenMeans {
  struct Means {
    bool is_there = false;
    std::string why_not;  ///< for a person; empty: it has been told
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
    bool is_must = true;  ///< it is an error if that does not work; else it goes on without
  };
  std::vector<Place> places;          ///< first those that are a must
  std::vector<std::string> left_out;  ///< a line for each transport that is not there
};

/// The wishes with each `all://` replaced by what there is. What is named keeps its meaning: `all://` adds no second
/// place to a transport that listens at one only, and no tcp locator that is there already.
ListenPlan planListening(std::span<const ListenWish> wishes, const ListenMeans& means);

/// "not listening over verbs: WHY", as in ListenPlan::left_out.
std::string notListeningOver(std::string_view scheme, std::string_view why);

}  // namespace ramcore::transport
