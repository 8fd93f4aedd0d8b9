/// Untrusted certificate slots and frame bytes. The input is slot A, slot B (56 bytes each) and the frame.
///
/// Each input is tried as it is and with repaired checksums of the slots.

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/crc32c.h"
#include "fuzz/planted.h"
#include "log/format/certificate.h"

namespace {

using namespace ramcore;

constexpr size_t kSlotBytes = sizeof(log::CertificateBytes);

bool decode(ByteSpan bytes) {
  const ByteSpan slot_a = bytes.first(std::min(kSlotBytes, bytes.size()));
  const ByteSpan rest = bytes.subspan(slot_a.size());
  const ByteSpan slot_b = rest.first(std::min(kSlotBytes, rest.size()));
  const ByteSpan frame = rest.subspan(slot_b.size());
  log::Certificate certificate;
  if (log::decodeCertificate(slot_a, certificate) == Status::Ok) {
    // A certificate that was accepted encodes to the same bytes: nothing in them is ignored.
    const log::CertificateBytes again = log::encodeCertificate(certificate);
    if (std::memcmp(&again, slot_a.data(), kSlotBytes) != 0) std::abort();
    fuzz::crashIfPlanted(certificate.closed && certificate.length_bytes == 0);
  }
  const auto chosen = log::chooseCertificate(slot_a, slot_b, frame);
  if (chosen && chosen->length_bytes > frame.size()) std::abort();
  return chosen.has_value();
}

void repairSlot(std::vector<std::byte>& bytes, size_t at) {
  if (bytes.size() < at + kSlotBytes) return;
  storeAs(bytes.data() + at, log::kCertificateMagic);
  storeAs(bytes.data() + at + offsetof(log::CertificateBytes, format), log::kCertificateFormat);
  const ByteSpan covered(bytes.data() + at, offsetof(log::CertificateBytes, crc));
  storeAs(bytes.data() + at + offsetof(log::CertificateBytes, crc), crc32c(covered));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> bytes(size);
  if (size != 0) std::memcpy(bytes.data(), data, size);
  decode(bytes);
  repairSlot(bytes, 0);
  repairSlot(bytes, kSlotBytes);
  decode(bytes);
  return 0;
}
