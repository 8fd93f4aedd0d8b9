#include "log/format/certificate.h"

#include <cstddef>
#include <tuple>

#include "base/crc32c.h"
#include "log/format/log_reader.h"

namespace ramcore::log {

namespace {

uint32_t crcOf(const CertificateBytes& bytes) { return crc32c(bytesOf(bytes).first(offsetof(CertificateBytes, crc))); }

}  // namespace

bool Certificate::isNewerThan(const Certificate& other) const {
  return std::tie(replica_epoch, length_bytes, closed) >
         std::tie(other.replica_epoch, other.length_bytes, other.closed);
}

CertificateBytes encodeCertificate(const Certificate& certificate) {
  CertificateBytes bytes{};
  bytes.magic = kCertificateMagic;
  bytes.format = kCertificateFormat;
  bytes.closed = certificate.closed ? 1 : 0;
  bytes.cluster = certificate.cluster;
  bytes.master = certificate.master;
  bytes.segment = certificate.segment;
  bytes.replica_epoch = certificate.replica_epoch;
  bytes.length_bytes = certificate.length_bytes;
  bytes.headers_crc = certificate.headers_crc;
  bytes.crc = crcOf(bytes);
  return bytes;
}

Status decodeCertificate(ByteSpan from, Certificate& certificate) {
  if (from.size() < sizeof(CertificateBytes)) return Status::Corrupt;
  const auto bytes = loadAs<CertificateBytes>(from.data());
  if (bytes.magic != kCertificateMagic || bytes.crc != crcOf(bytes)) return Status::Corrupt;
  if (bytes.format != kCertificateFormat) return Status::WrongFormat;
  if (bytes.closed > 1 || bytes.reserved != 0 || bytes.reserved2 != 0) return Status::Corrupt;
  certificate.cluster = bytes.cluster;
  certificate.master = bytes.master;
  certificate.segment = bytes.segment;
  certificate.replica_epoch = bytes.replica_epoch;
  certificate.length_bytes = bytes.length_bytes;
  certificate.headers_crc = bytes.headers_crc;
  certificate.closed = bytes.closed == 1;
  return Status::Ok;
}

bool verifyCertificate(const Certificate& certificate, ByteSpan segment_bytes) {
  if (certificate.length_bytes > segment_bytes.size()) return false;
  const ByteSpan bytes = segment_bytes.first(certificate.length_bytes);
  SegmentPreamble preamble;
  if (readPreamble(bytes, preamble) != Status::Ok) return false;
  // A frame that is used again still holds valid entries of its former life.
  if (preamble.header.cluster != certificate.cluster || preamble.header.server != certificate.master ||
      preamble.header.segment != certificate.segment) {
    return false;
  }
  SegmentReader reader(bytes);
  while (!reader.nextGroup().empty()) {
  }
  return reader.end() == WalkEnd::Clean && reader.headersCrc() == certificate.headers_crc;
}

std::optional<Certificate> chooseCertificate(ByteSpan slot_a, ByteSpan slot_b, ByteSpan segment_bytes) {
  Certificate a;
  Certificate b;
  const bool has_a = decodeCertificate(slot_a, a) == Status::Ok;
  const bool has_b = decodeCertificate(slot_b, b) == Status::Ok;
  const bool a_first = has_a && (!has_b || a.isNewerThan(b));
  if (a_first && verifyCertificate(a, segment_bytes)) return a;
  if (has_b && verifyCertificate(b, segment_bytes)) return b;
  if (!a_first && has_a && verifyCertificate(a, segment_bytes)) return a;
  return std::nullopt;
}

}  // namespace ramcore::log
