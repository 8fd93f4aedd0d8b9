#include "log/memory/certificate_cutter.h"

#include <array>
#include <cstddef>

#include "base/check.h"
#include "log/format/entry_view.h"

namespace ramcore::log {

CertificateCutter::CertificateCutter(ClusterId cluster, ServerId master, const Segment& segment)
    : cluster_(cluster), master_(master), segment_(segment), segment_id_(segment.id()) {}

Certificate CertificateCutter::cut(uint32_t length_bytes, uint64_t replica_epoch, bool closed) {
  RC_CHECK(length_bytes >= offset_);
  std::array<ByteSpan, Segment::kExtentsMax> pieces;
  const size_t count = segment_.spans(offset_, length_bytes, pieces);
  for (size_t i = 0; i < count; ++i) {
    const std::byte* at = pieces[i].data();
    const std::byte* const end = at + pieces[i].size();
    while (at < end) {
      const EntryView entry(at);
      headers_crc_ = entry.chainHeader(headers_crc_);
      at += entry.alignedBytes();
    }
    RC_CHECK_MSG(at == end, "a certificate ends where a group ends");
  }
  offset_ = length_bytes;
  return {cluster_, master_, segment_id_, replica_epoch, length_bytes, headers_crc_, closed};
}

}  // namespace ramcore::log
