#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/clock.h"

namespace ramcore::transport {

/// How long bytes may wait for a peer that does not take them. The options of a transport say what each is for.
struct StallLimits {
  int64_t copy_ns = 0;          ///< since Stall::waits_since_ns, until all borrowed bytes are copied
  int64_t close_ns = 0;         ///< since Stall::progress_ns, until the session is closed
  int64_t borrowed_ns_max = 0;  ///< since bytes were borrowed, until they are copied, with progress or without
};

/// What has become of messages to a peer that does not take them as fast as they are sent.
struct Stall {
  int64_t progress_ns = 0;                       ///< time of the last progress
  int64_t waits_since_ns = 0;                    ///< since when the first message waits
  int64_t oldest_borrowed_ns = runtime::kNever;  ///< since when the oldest borrowed bytes wait
  bool is_copied_out = false;                    ///< all of them were copied, because the peer stands still
};

enum class StallStep : uint8_t {
  Wait,
  CopyOverdue,  ///< copy what was borrowed for longer than allowed
  CopyAll,      ///< the peer stands still: copy all, so that it holds nothing
  Close,
};

inline StallStep nextStep(const Stall& stall, const StallLimits& limits, int64_t now_ns) {
  if (now_ns - stall.progress_ns >= limits.close_ns) return StallStep::Close;
  if (!stall.is_copied_out && now_ns - stall.waits_since_ns >= limits.copy_ns) return StallStep::CopyAll;
  return stall.oldest_borrowed_ns <= now_ns - limits.borrowed_ns_max ? StallStep::CopyOverdue : StallStep::Wait;
}

/// The time by which nextStep() has to be asked again.
inline int64_t nextStepNs(const Stall& stall, const StallLimits& limits) {
  const int64_t still_ns =
      stall.is_copied_out ? stall.progress_ns + limits.close_ns : stall.waits_since_ns + limits.copy_ns;
  if (stall.oldest_borrowed_ns == runtime::kNever) return still_ns;
  return std::min(still_ns, stall.oldest_borrowed_ns + limits.borrowed_ns_max);
}

/// Finds the session that gives way when memory for messages is used up: the one for which most is held. The caller
/// leaves out sessions that make progress, because they will free memory, and sessions that are not bounded.
template <typename Session>
class LargestHolder {
 public:
  void consider(Session& session, uint64_t bytes) {
    if (bytes <= bytes_) return;
    session_ = &session;
    bytes_ = bytes;
  }
  /// Returns nullptr if nothing is held for any that was considered.
  Session* session() const { return session_; }
  uint64_t bytes() const { return bytes_; }

 private:
  Session* session_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace ramcore::transport
