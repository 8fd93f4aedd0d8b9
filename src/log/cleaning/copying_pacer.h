#pragma once

#include <atomic>
#include <cstdint>

#include "log/cleaning/shared_copy.h"
#include "log/log.h"

namespace ramcore::log {

/// Decides how much a thread that serves writers, too, copies at a time: by how fast writers use up memory compared
/// with the copying of a pass, and by how much they append between the end of the copying and the end of the pass.
///
/// Threads: copyingDue() on that of the spare worker; the others on that of Cleaner::step().
class CopyingPacer {
 public:
  /// `log` outlives this object.
  explicit CopyingPacer(Log& log) : log_(log) {}

  /// As Cleaner::copyingDue().
  uint32_t copyingDue(const SharedCopy& copying, uint32_t slice_bytes_min, uint32_t slice_bytes_max);
  /// The copying of a pass is over.
  void noteCopied() { copied_at_bytes_ = log_.stats().appended_bytes.load(std::memory_order_relaxed); }
  /// The pass is over. Its end takes as long as grace periods and replicas take: what is appended in that time has to
  /// be free when the copying is over. Of recent passes the one in which most was appended counts.
  void noteEnded();

 private:
  Log& log_;
  uint64_t copied_at_bytes_ = 0;           ///< appended bytes when the copying of the pass was over
  std::atomic<uint64_t> ending_bytes_{0};  ///< bytes that were appended in recent passes from the end of the copying
                                           ///< until memory came back
  // The state at the last call of copyingDue():
  uint64_t paced_at_bytes_ = 0;    ///< appended bytes
  uint64_t paced_left_bytes_ = 0;  ///< what was left of the copying
};

}  // namespace ramcore::log
