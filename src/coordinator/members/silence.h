#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/ids.h"
#include "runtime/clock.h"

namespace ramcore::coordinator {

/// After which silence a server may be declared dead.
struct SilenceLimits {
  int64_t heard_ns = 0;          ///< who was heard within it counts as heard; some renewals long
  int64_t verdict_after_ns = 0;  ///< of one, while most others are heard
  int64_t together_ns = 0;       ///< of one among half of the servers or more; at least verdict_after_ns
};

/// One living server, as the coordinator knows it.
struct Silence {
  ServerId server;
  int64_t silent_ns = 0;       ///< since it was heard, or since this coordinator could have heard it
  int64_t alone_ns = 0;        ///< likewise, and since it was not silent together with others any more
  int64_t left_behind_ns = 0;  ///< since others that were silent with it were back for the first time; 0: they were not
  bool keeps_replicas = false;
  uint32_t replicas = 0;      ///< of its log, by its configuration
  uint32_t min_replicas = 0;  ///< without which no server takes writes, and none takes its place
  bool local_replica = false;
  std::optional<uint64_t> live_bytes;  ///< of its log; not known: it was not heard
  std::optional<uint64_t> room_bytes;
};

/// What its silence means for a server.
enum class SilenceMeans : uint8_t {
  Nothing,    ///< it is heard
  TooShort,   ///< it is silent, and not for long enough
  Together,   ///< half of the servers or more are: this machine may be the one that is cut off
  Replacers,  ///< too few others are left to take its place
  Room,       ///< those have not enough room
  Death,      ///< it may be declared dead
};

/// What the silence of each of `living` means: out[i] is for living[i].
///
/// A verdict costs a server all that it has in memory, so none is given that would help nobody. Leases end whatever is
/// decided here, so waiting is safe; it delays a recovery where there really is one to be made.
///
/// - When half of the servers or more fall silent together, it is likelier that this coordinator is cut off than that
///   all of them died in the same seconds (a switch restarts, a machine sleeps, a name is not resolved). They do not
///   come back in one instant either: the silence of the others counts from anew when the first ones are back.
/// - A dead server is replaced by one that needs min_replicas others for what it takes over. Where there are fewer, its
///   tablets would be no better off than with a server that may come back.
/// - Without copies elsewhere nobody can replace it at all; it gets the longer time.
void judgeSilences(std::span<const Silence> living, const SilenceLimits& limits, std::span<SilenceMeans> out);

}  // namespace ramcore::coordinator
