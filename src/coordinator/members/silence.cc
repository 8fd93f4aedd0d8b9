#include "coordinator/members/silence.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/mutation.h"

namespace ramcore::coordinator {
namespace {

/// The servers that are heard, together: they could take the place of others.
struct Heard {
  uint64_t servers = 0;
  uint64_t backups = 0;
  uint64_t room_bytes = 0;
};

SilenceMeans judge(const Silence& one, const SilenceLimits& limits, const Heard& heard, bool are_together) {
  if (one.silent_ns < limits.heard_ns) return SilenceMeans::Nothing;
  if (one.silent_ns < limits.verdict_after_ns) return SilenceMeans::TooShort;
  const bool is_long = one.silent_ns >= limits.together_ns;
  if (are_together && !is_long && !RC_MUTATION("verdict-while-most-are-silent")) return SilenceMeans::Together;
  // alone_ns begins anew each time that half of the servers are silent together. left_behind_ns does not: a server that
  // comes and goes must not keep dead ones in the list for ever.
  const bool is_left_behind = one.left_behind_ns >= limits.together_ns;
  if (!are_together && one.alone_ns < limits.verdict_after_ns && !is_left_behind) return SilenceMeans::TooShort;
  const bool has_copies = one.replicas != 0 && !one.local_replica;
  if (!has_copies) return is_long ? SilenceMeans::Death : SilenceMeans::Replacers;
  if (heard.servers < one.min_replicas + uint64_t{1} || heard.backups < one.min_replicas)
    return SilenceMeans::Replacers;
  if (one.live_bytes.value_or(0) > heard.room_bytes) return SilenceMeans::Room;
  return SilenceMeans::Death;
}

}  // namespace

void judgeSilences(std::span<const Silence> living, const SilenceLimits& limits, std::span<SilenceMeans> out) {
  RC_CHECK(out.size() == living.size());
  Heard heard;
  for (const Silence& one : living) {
    if (one.silent_ns >= limits.heard_ns) continue;
    ++heard.servers;
    if (one.keeps_replicas) ++heard.backups;
    // The sum must not overflow: a server may report any number.
    heard.room_bytes += std::min(one.room_bytes.value_or(0), std::numeric_limits<uint64_t>::max() - heard.room_bytes);
  }
  const bool are_together = (living.size() - heard.servers) * 2 >= living.size();
  std::transform(living.begin(), living.end(), out.begin(),
                 [&](const Silence& one) { return judge(one, limits, heard, are_together); });
}

}  // namespace ramcore::coordinator
