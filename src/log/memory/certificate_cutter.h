#pragma once

#include <cstdint>

#include "log/format/certificate.h"
#include "log/memory/segment.h"

namespace ramcore::log {

/// Cuts certificates for a segment in memory, each continuing where the last one ended. It belongs to the code that
/// replicates the segment; one thread at a time.
class CertificateCutter {
 public:
  CertificateCutter(ClusterId cluster, ServerId master, const Segment& segment);

  /// @param length_bytes  a committed length, not below the last one
  /// Cost: about 5 ns for each entry since the last cut.
  Certificate cut(uint32_t length_bytes, uint64_t replica_epoch, bool closed);

 private:
  const ClusterId cluster_;
  const ServerId master_;
  const Segment& segment_;
  const SegmentId segment_id_;
  uint32_t offset_ = 0;
  uint32_t headers_crc_ = 0;
};

}  // namespace ramcore::log
