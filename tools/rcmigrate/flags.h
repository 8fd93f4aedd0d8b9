#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/support/cluster_flags.h"
#include "tools/support/command_line.h"

namespace ramcore::rcmigrate {

/// What the command line says.
struct Flags {
  tools::ClusterFlags cluster;
  uint32_t timeout_ms = 5000;
  std::string table;
  bool json = false;
  std::vector<uint64_t> tablets;
  uint64_t tablet = 0;
  std::string server;
  std::string from;
  std::string range;
  double fraction = 1;
  std::string at;
  std::string by = "bytes";
  uint32_t sample_ms = 1000;
  uint64_t rate_max = 0;
  uint32_t parallel = 4;
  bool yes = false;
  bool watch = false;
  bool no_wait = false;
  bool quiet = false;
  uint64_t migration = 0;
};

/// The commands, to ask which of them was given.
struct Parsed {
  tools::Command list;
  tools::Command move;
  tools::Command split;
  tools::Command drain;
  tools::Command plan;
  tools::Command rebalance;
  tools::Command status;
  tools::Command rate;
  tools::Command cancel;
};

/// Declares commands and flags. Borrows `flags`, which get their values when the command line is parsed.
Parsed declare(tools::Command& app, Flags& flags);
/// What flags that contradict each other, or that are not enough, get in one line; nothing if all is well.
std::optional<std::string> mistakeIn(const Parsed& parsed, const Flags& flags);

}  // namespace ramcore::rcmigrate
