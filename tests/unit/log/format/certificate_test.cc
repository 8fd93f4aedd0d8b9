#include "log/memory/certificate_cutter.h"

#include <gtest/gtest.h>

#include "tests/unit/log/log_fixture.h"

namespace ramcore::log {
namespace {

TEST(Certificate, Bytes) {
  Certificate certificate;
  certificate.cluster = ClusterId(0x0101010101010101);
  certificate.master = ServerId(2);
  certificate.segment = SegmentId(3);
  certificate.replica_epoch = 4;
  certificate.length_bytes = 0x500;
  certificate.headers_crc = 0x66666666;
  certificate.closed = true;
  const CertificateBytes bytes = encodeCertificate(certificate);
  std::string text;
  for (const std::byte b : bytesOf(bytes)) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned>(b));
    text += digits;
  }
  EXPECT_EQ(text,
            "52634366"          // magic
            "0100"              // format
            "01"                // closed
            "00"                // reserved
            "0101010101010101"  // cluster
            "0200000000000000"  // master
            "0300000000000000"  // segment
            "0400000000000000"  // replica epoch
            "00050000"          // length
            "66666666"          // headers
            "00000000"          // reserved
            "527982bb");
  Certificate decoded;
  ASSERT_EQ(decodeCertificate(bytesOf(bytes), decoded), Status::Ok);
  EXPECT_EQ(decoded, certificate);
}

TEST(Certificate, EveryFlippedBitAndEveryTruncationIsSeen) {
  Certificate certificate;
  certificate.segment = SegmentId(3);
  CertificateBytes bytes = encodeCertificate(certificate);
  auto* raw = reinterpret_cast<uint8_t*>(&bytes);
  Certificate decoded;
  for (size_t bit = 0; bit < sizeof(bytes) * 8; ++bit) {
    raw[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_NE(decodeCertificate(bytesOf(bytes), decoded), Status::Ok) << bit;
    raw[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  }
  for (size_t size = 0; size < sizeof(bytes); ++size) {
    EXPECT_EQ(decodeCertificate(bytesOf(bytes).first(size), decoded), Status::Corrupt);
  }
}

/// A head with some groups, as a replica holds it, and a certificate after each.
struct CertificateFixture : LogFixture {
  CertificateFixture() : segment(*log->pool().find(log->headId())), cutter(ClusterId(7), ServerId(11), segment) {
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(owner.put(*log, "key" + std::to_string(i % 2), std::string(20 + 700 * i, 'x')), Status::Ok);
      certificates.push_back(cutter.cut(segment.committedBytes(), 1, false));
    }
    frame.resize(config.segment_bytes);
    segment.copyOut(0, segment.committedBytes(), frame.data());
  }
  Segment& segment;
  CertificateCutter cutter;
  std::vector<Certificate> certificates;
  std::vector<std::byte> frame;
};

TEST(Certificate, EachOneVerifiesItsOwnPrefix) {
  CertificateFixture fixture;
  for (const Certificate& certificate : fixture.certificates) {
    EXPECT_TRUE(verifyCertificate(certificate, fixture.frame));
    Certificate wrong = certificate;
    wrong.length_bytes -= kEntryAlignment;
    EXPECT_FALSE(verifyCertificate(wrong, fixture.frame));
    wrong = certificate;
    wrong.headers_crc ^= 1;
    EXPECT_FALSE(verifyCertificate(wrong, fixture.frame));
    wrong = certificate;
    wrong.segment = SegmentId(99);
    EXPECT_FALSE(verifyCertificate(wrong, fixture.frame));
    wrong = certificate;
    wrong.length_bytes = static_cast<uint32_t>(fixture.frame.size() + 8);
    EXPECT_FALSE(verifyCertificate(wrong, fixture.frame));
  }
}

TEST(Certificate, NewestThatVerifiesIsChosen) {
  CertificateFixture fixture;
  const Certificate& older = fixture.certificates[4];
  const Certificate& newer = fixture.certificates[5];
  const CertificateBytes a = encodeCertificate(older);
  const CertificateBytes b = encodeCertificate(newer);
  EXPECT_EQ(chooseCertificate(bytesOf(a), bytesOf(b), fixture.frame), newer);
  EXPECT_EQ(chooseCertificate(bytesOf(b), bytesOf(a), fixture.frame), newer);
  const std::vector<std::byte> never(64);
  EXPECT_EQ(chooseCertificate(bytesOf(a), never, fixture.frame), older);
  EXPECT_EQ(chooseCertificate(never, never, fixture.frame), std::nullopt);
}

TEST(Certificate, ATornWriteCostsNothingThatWasAcknowledged) {
  CertificateFixture fixture;
  const Certificate& older = fixture.certificates[4];
  const CertificateBytes old_slot = encodeCertificate(older);
  const CertificateBytes previous = encodeCertificate(fixture.certificates[3]);
  const CertificateBytes next = encodeCertificate(fixture.certificates[5]);
  // The slot of the certificate before the older one is overwritten, and power fails after any number of bytes.
  for (size_t written = 0; written <= sizeof(next); ++written) {
    std::vector<std::byte> slot(sizeof(next));
    std::memcpy(slot.data(), &previous, sizeof(previous));
    std::memcpy(slot.data(), &next, written);
    const auto chosen = chooseCertificate(slot, bytesOf(old_slot), fixture.frame);
    ASSERT_TRUE(chosen.has_value());
    EXPECT_GE(chosen->length_bytes, older.length_bytes) << written;
  }
  // The new certificate is on disk, its data is not.
  std::fill(fixture.frame.begin() + older.length_bytes, fixture.frame.end(), std::byte{0});
  EXPECT_EQ(chooseCertificate(bytesOf(next), bytesOf(old_slot), fixture.frame), older);
}

TEST(Certificate, CutAcrossExtentsEqualsAWalkOverTheReplica) {
  LogConfig config = LogConfig::forTest();
  LogFixture fixture(config);
  // Leaves runs of free memory that are shorter than a segment.
  std::vector<Segment*> sides;
  while (Segment* side = fixture.log->privateSegments().open(SegmentKind::Side)) sides.push_back(side);
  for (size_t i = 0; i < sides.size(); i += 2) fixture.log->privateSegments().close(*sides[i]);
  Segment* survivor = fixture.log->privateSegments().open(SegmentKind::Survivor);
  ASSERT_NE(survivor, nullptr);
  for (Segment* side : sides) fixture.log->privateSegments().drop(*side);
  for (int i = 0; i < 3; ++i) fixture.reclaim();
  SegmentId first = fixture.log->headId();
  for (int i = 0; i < 400; ++i) {
    ASSERT_EQ(fixture.append("k", std::string(1500, 'v')).status(), Status::Ok) << i;
    if (fixture.log->headId().value > first.value + 8) break;
  }
  for (uint32_t slot = 0; slot < fixture.log->pool().slotCount(); ++slot) {
    Segment& segment = fixture.log->pool().slot(slot);
    if (segment.state() == SegmentState::Free || segment.state() == SegmentState::Unlinked) continue;
    CertificateCutter cutter(ClusterId(7), ServerId(11), segment);
    const Certificate certificate = cutter.cut(segment.committedBytes(), 1, true);
    std::vector<std::byte> bytes(segment.committedBytes());
    segment.copyOut(0, segment.committedBytes(), bytes.data());
    EXPECT_TRUE(verifyCertificate(certificate, bytes));
  }
}

}  // namespace
}  // namespace ramcore::log
