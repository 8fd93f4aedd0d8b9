#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/status.h"

namespace ramcore::log {

/// Makes a stored prefix of a segment valid: it says to which log and segment the prefix belongs, how long it is, and
/// what the checksum of all entry headers in it is (which hold the checksums of the entries). A certificate is cut only
/// at the end of a group. A storage frame has several certificate slots, written in turn, so that a torn write destroys
/// at most what was not acknowledged.
struct Certificate {
  ClusterId cluster;
  ServerId master;
  SegmentId segment;
  uint64_t replica_epoch = 0;
  uint32_t length_bytes = 0;  ///< how many of the segment's logical bytes it vouches for
  uint32_t headers_crc = 0;   ///< see SegmentReader::headersCrc
  bool closed = false;        ///< nothing will be appended

  bool operator==(const Certificate&) const = default;
  /// Whether this one was cut after `other` of the same frame.
  bool isNewerThan(const Certificate& other) const;
};

/// The bytes of a certificate.
struct CertificateBytes {
  uint32_t magic;   ///< kCertificateMagic
  uint16_t format;  ///< kCertificateFormat
  uint8_t closed;   ///< 0 or 1
  uint8_t reserved;
  ClusterId cluster;
  ServerId master;
  SegmentId segment;
  uint64_t replica_epoch;
  uint32_t length_bytes;
  uint32_t headers_crc;
  uint32_t reserved2;
  uint32_t crc;  ///< CRC32C over everything before
};
static_assert(sizeof(CertificateBytes) == 56 && Fixed<CertificateBytes>);
inline constexpr uint32_t kCertificateMagic = 0x66436352;  // "RcCf"
inline constexpr uint16_t kCertificateFormat = 1;

CertificateBytes encodeCertificate(const Certificate& certificate);
/// @param bytes  untrusted; at least sizeof(CertificateBytes), more is ignored
/// @return WrongFormat: written by another version; Corrupt: torn, never written, or not a certificate
Status decodeCertificate(ByteSpan bytes, Certificate& certificate);

/// Whether the first certificate.length_bytes of `segment_bytes` are what the certificate was cut for: whole groups,
/// every entry's checksum, the checksum over the headers, and a segment header that names the same segment.
/// Cost: a pass over the bytes.
bool verifyCertificate(const Certificate& certificate, ByteSpan segment_bytes);

/// Chooses between two certificate slots: the newest certificate that verifies against the bytes of the storage frame,
/// else the other, else nothing. Nothing in the slots is trusted.
std::optional<Certificate> chooseCertificate(ByteSpan slot_a, ByteSpan slot_b, ByteSpan segment_bytes);

}  // namespace ramcore::log
