#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace ramcore::rcmigrate {

// Which tablets should move where. Pure functions: the same input gives the same plan, and nothing is asked or changed.

/// What is to be levelled out between servers.
enum class Measure : uint8_t {
  Bytes,    ///< of objects, for each byte that a server may hold
  Objects,  ///< for each byte that a server may hold
  Load,     ///< calls per second
};

struct PlanServer {
  ServerId id;
  uint64_t bytes = 0;      ///< live entries in its log, of whatever tablet
  uint64_t bytes_max = 0;  ///< at which it refuses writes; not 0
};

struct PlanTablet {
  TabletId id;
  TableId table;
  HashRange range;
  ServerId owner;
  uint64_t bytes = 0;
  uint64_t objects = 0;
  double load = 0;                ///< calls per second
  std::vector<KeyHash> sample{};  ///< of the key hashes of calls, in order; may be empty
  bool may_move = true;           ///< false: it is moving, its owner is dead, or its load is not known
  bool has_hot_key = false;       ///< its server says that half of the calls or more are for one key
  ServerId came_from{};           ///< from there it was moved lately: not moved back. None: it was not moved
};

/// Tablets that splits make have no number yet, so a step names the range.
struct PlanStep {
  enum class Kind : uint8_t { Split, Move };
  Kind kind = Kind::Move;
  TableId table;
  HashRange range;  ///< Move: of the tablet. Split: of the tablet before
  KeyHash at = 0;   ///< Split: the first hash of the upper half
  ServerId from;
  ServerId to{};       ///< Move
  uint64_t bytes = 0;  ///< Move
};

/// A tablet whose load comes from one key: nothing can be done about it by moving or splitting.
struct HotKey {
  TabletId tablet;
  TableId table;
  KeyHash hash = 0;
  double share = 0;  ///< of the calls to the tablet, 0 to 1
};

struct PlanLevel {
  ServerId server;
  double before = 0;  ///< in the unit of the measure
  double after = 0;
};

struct Plan {
  std::vector<PlanStep> steps{};  ///< to be done in this order
  std::vector<PlanLevel> levels{};
  std::vector<HotKey> hot_keys{};
  uint64_t bytes_without_room = 0;  ///< drain(): not 0: the other servers have not the room; no steps then
};

/// No server gets more than this share of what it may hold.
constexpr double kFullMax = 0.85;
/// The moves from one server to another one have to bring the fuller of the two down by this share of the average.
constexpr double kGainLeast = 0.05;
/// A tablet with this share of its server's measure is cut if it is too large to be moved whole.
constexpr double kCutShare = 0.25;
/// A key with this share of the calls to its tablet is named, and the tablet left where it is.
constexpr double kHotShare = 0.5;

/// A smaller sample says nothing of where the calls lie.
constexpr size_t kSampleLeast = 16;

/// Levels out `measure`: takes from the fullest servers, as long as that gains something.
/// @param tablets  of live owners, all among `servers`
/// @param seconds  in which calls were counted, with Measure::Load: differences that chance explains are left alone.
///                 0: calls are exact
Plan level(const std::vector<PlanServer>& servers, const std::vector<PlanTablet>& tablets, Measure measure,
           double seconds = 0);

/// Takes all tablets from one server that may move, each to the emptiest other one. Tablets are cut only where they fit
/// nowhere.
Plan drain(const std::vector<PlanServer>& servers, const std::vector<PlanTablet>& tablets, ServerId server);

}  // namespace ramcore::rcmigrate
