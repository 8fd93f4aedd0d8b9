#pragma once

#include <optional>

#include "log/memory/certificate_cutter.h"
#include "log/memory/segment.h"

namespace ramcore::master {

/// The memory of a segment that its replicas are made from: where writes end, what was verified, and the certificates
/// of what is there.
/// Thread: the dispatch's.
class SegmentSource {
 public:
  /// A write is at most this long (or one entry): what waits behind it on the session waits for some 100 us.
  static constexpr uint32_t kWriteBytesMax = 256 * 1024;

  /// @param segment  borrowed until move() names another one
  SegmentSource(ClusterId cluster, ServerId self, const log::Segment& segment)
      : cluster_(cluster), self_(self), segment_(&segment), cutter_(std::in_place, cluster, self, segment) {}

  const log::Segment& segment() const { return *segment_; }
  uint32_t committedBytes() const { return segment_->committedBytes(); }
  /// The segment lies in other memory: see log::Replicator::moved.
  void move(const log::Segment& segment);

  /// Where a write that begins at `from` ends: with an entry.
  uint32_t chunkEnd(uint32_t from, uint32_t committed) const;
  /// Verifies the entries from `at` on that a write which begins at `from` would carry.
  /// @return where the first damaged one begins; nothing if all are as they were written
  std::optional<uint32_t> findDamage(uint32_t from, uint32_t at, uint32_t committed);
  /// The bytes before this were verified when they were first sent.
  uint32_t verifiedBytes() const { return verified_bytes_; }
  /// A certificate of the first `to` bytes. See log::CertificateCutter::cut.
  log::Certificate certify(uint32_t to, uint64_t replica_epoch, bool closes) {
    return cutter_->cut(to, replica_epoch, closes);
  }

 private:
  const ClusterId cluster_;
  const ServerId self_;
  const log::Segment* segment_;                   // not null
  std::optional<log::CertificateCutter> cutter_;  // for segment_; never empty
  uint32_t verified_bytes_ = 0;
};

}  // namespace ramcore::master
