#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/ids.h"
#include "runtime/clock.h"

namespace ramcore::coordinator {

/// How long a server has to be silent before it may be declared dead.
struct SilenceLimits {
  int64_t heard_ns = 0;          ///< a server that was heard within this time counts as heard; some renewals long
  int64_t verdict_after_ns = 0;  ///< for one server, while most others are heard
  int64_t together_ns = 0;       ///< for one among half of the servers or more; at least verdict_after_ns
};

/// One living server, as the coordinator knows it.
struct Silence {
  ServerId server;
  int64_t silent_ns = 0;  ///< since it was last heard, or since this coordinator could have heard it
  /// As silent_ns, but at most the time since half of the servers or more were last silent together.
  int64_t alone_ns = 0;
  /// Time since the first of those that were silent together with it were back; 0: they were not.
  int64_t left_behind_ns = 0;
  bool keeps_replicas = false;
  uint32_t replicas = 0;  ///< replicas of its log, by its configuration
  /// With fewer replicas than this no server takes writes, and none can take the place of this one.
  uint32_t min_replicas = 0;
  bool local_replica = false;
  std::optional<uint64_t> live_bytes;  ///< live bytes of its log; empty: it was not heard
  std::optional<uint64_t> room_bytes;
};

/// What the silence of a server means.
enum class SilenceMeans : uint8_t {
  Nothing,   ///< it is heard
  TooShort,  ///< it is silent, but not for long enough
  /// Half of the servers or more are silent: this machine may be the one that is cut off.
  Together,
  Replacers,  ///< too few other servers are left to take its place
  Room,       ///< the others have not enough room for what it holds
  Death,      ///< it may be declared dead
};

/// What the silence of each of `living` means: out[i] is for living[i].
///
/// A verdict costs a server all that it has in memory, so none is given where it would not help. Leases end whatever is
/// decided here, so it is safe to wait; but that delays a recovery which is really needed.
///
/// - If half of the servers or more fall silent together, it is likelier that this coordinator is cut off than that all
///   of them died in the same seconds (a switch restarts, a machine sleeps, a name is not resolved). They do not come
///   back in one instant either: when the first ones are back, the silence of the others is counted anew.
/// - A dead server is replaced by one that needs min_replicas others for what it takes over. If there are fewer, the
///   tablets would be no better off than with a server that may come back.
/// - A server without replicas on others cannot be replaced at all; it gets the longer time.
void judgeSilences(std::span<const Silence> living, const SilenceLimits& limits, std::span<SilenceMeans> out);

}  // namespace ramcore::coordinator
