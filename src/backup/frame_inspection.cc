#include "backup/frame_inspection.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "log/format/log_reader.h"

namespace ramcore::backup {
namespace {

bool isZero(ByteSpan bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

// A superblock whose checksum holds may still name any sizes.
bool isPossible(const Superblock& superblock) {
  return superblock.header_bytes == kBlockBytes && superblock.frame_bytes != 0 &&
         superblock.frame_bytes <= log::kSegmentBytesMax && superblock.frame_count >= FrameFile::kFrameCountMin &&
         superblock.frame_count <= FrameFile::kFrameCountMax;
}

std::string entryDamage(uint32_t offset_bytes, log::DecodeError error) {
  return std::string(name(error)) + " in the entry at offset " + std::to_string(offset_bytes);
}

// Describes how the bytes differ from those that the certificate was cut for. They are known to differ.
std::string whyUnfulfilled(const log::Certificate& certificate, ByteSpan segment_bytes) {
  const std::string length = std::to_string(certificate.length_bytes);
  if (segment_bytes.size() < certificate.length_bytes) return "not all of its " + length + " bytes are there";
  const ByteSpan bytes = segment_bytes.first(certificate.length_bytes);
  log::SegmentReader reader(bytes);
  while (!reader.nextGroup().empty()) {
  }
  if (reader.end() == log::WalkEnd::BadEntry) {
    // The first entries of the group may be sound.
    uint32_t at = reader.offset();
    log::EntryView entry;
    while (log::decodeEntry(bytes.subspan(at), entry) == log::DecodeError::None) at += entry.alignedBytes();
    return entryDamage(at, reader.error());
  }
  if (reader.end() != log::WalkEnd::Clean) {
    return std::string(name(reader.end())) + " at offset " + std::to_string(reader.offset());
  }
  log::SegmentPreamble preamble;
  const Status read = log::readPreamble(bytes, preamble);
  if (read == Status::WrongFormat) return "the segment is of format " + std::to_string(preamble.header.format);
  if (read != Status::Ok) return "the bytes do not begin with a segment header";
  if (preamble.header.cluster != certificate.cluster || preamble.header.server != certificate.master ||
      preamble.header.segment != certificate.segment) {
    return "the bytes are those of segment " + std::to_string(preamble.header.segment.value) + " of server " +
           std::to_string(preamble.header.server.value);
  }
  return "all entries are sound, but not those that it was cut for";
}

// Whether an entry with this error still says where it ends, within the bytes.
bool saysItsEnd(log::DecodeError error) {
  return error == log::DecodeError::BadChecksum || error == log::DecodeError::BadPadding ||
         error == log::DecodeError::BadLength;
}

}  // namespace

std::string_view name(SlotState state) {
  switch (state) {
    case SlotState::Empty:
      return "empty";
    case SlotState::Verified:
      return "verified";
    case SlotState::Unfulfilled:
      return "unfulfilled";
    case SlotState::Broken:
      return "broken";
  }
  return "unknown";
}

bool FrameFinding::isFree() const {
  return damage.empty() && std::all_of(slots.begin(), slots.end(),
                                       [](const SlotFinding& slot) { return slot.state == SlotState::Empty; });
}

const log::Certificate* FrameFinding::newest() const {
  const log::Certificate* newest = nullptr;
  for (const SlotFinding& slot : slots) {
    if (slot.state != SlotState::Verified && slot.state != SlotState::Unfulfilled) continue;
    if (newest == nullptr || slot.certificate.isNewerThan(*newest)) newest = &slot.certificate;
  }
  return newest;
}

uint32_t walkEntries(ByteSpan bytes, const std::function<void(const EntryFinding&)>& show) {
  uint32_t at = 0;
  while (at < bytes.size()) {
    EntryFinding finding;
    finding.offset_bytes = at;
    finding.error = log::decodeEntry(bytes.subspan(at), finding.entry);
    const bool goes_on = finding.error == log::DecodeError::None || saysItsEnd(finding.error);
    if (goes_on) finding.entry = log::EntryView(bytes.data() + at);
    show(finding);
    if (!goes_on) break;
    at += finding.entry.alignedBytes();
  }
  return at;
}

Outcome<FrameInspection> FrameInspection::open(FrameBytes& file) {
  if (file.bytes() < 2 * kBlockBytes) {
    return Failure{Status::Corrupt, "this is no frame file, or what is left of one: it is shorter than a superblock"};
  }
  FrameInspection inspection(file);
  SuperblockCopies& copies = inspection.copies_;
  for (size_t i = 0; i < 2; ++i) {
    const MutableByteSpan bytes = std::as_writable_bytes(std::span(&copies.copies[i], 1));
    if (file.read(i * kBlockBytes, bytes) != Status::Ok) {
      return Failure{Status::IoError, "cannot read superblock " + std::to_string(i) + " of the frame file"};
    }
  }
  const auto isOf = [&copies](CopyState state) { return copies.stateOf(0) == state || copies.stateOf(1) == state; };
  if (isOf(CopyState::OtherFormat)) {
    const Superblock& other = copies.copies[copies.stateOf(0) == CopyState::OtherFormat ? 0 : 1];
    return Failure{Status::WrongFormat, "the frame file was written by another version (format " +
                                            std::to_string(other.format) + ", this is " +
                                            std::to_string(kFrameFileFormat) + "): use that version"};
  }
  inspection.superblock_ = copies.newest();
  if (inspection.superblock_) {
    if (!isPossible(*inspection.superblock_)) {
      return Failure{Status::Corrupt, "the superblock of the frame file names sizes that no frame file has"};
    }
    inspection.judgeSuperblocks();
    return inspection;
  }
  const bool has_magic = copies.copies[0].magic == kFrameFileMagic || copies.copies[1].magic == kFrameFileMagic;
  if (copies.isOfUnfinishedFile() && (has_magic || copies.stateOf(0) == CopyState::Empty)) return inspection;
  return Failure{Status::Corrupt, has_magic ? "both superblocks of the frame file are damaged: nothing says what it has"
                                            : "this is no frame file: neither of its superblocks is one"};
}

void FrameInspection::judgeSuperblocks() {
  for (size_t i = 0; i < 2; ++i) {
    const CopyState state = copies_.stateOf(i);
    // The second copy is written with the second generation.
    const bool is_not_yet = i == 1 && state == CopyState::Empty && superblock_->generation == 1;
    if (state == CopyState::Whole || is_not_yet) continue;
    damage_.push_back("superblock " + std::to_string(i) + (state == CopyState::Empty ? " is gone" : " is damaged") +
                      "; the other one counts");
  }
  const uint64_t all = FrameFile::fileBytes(superblock_->frame_count, superblock_->frame_bytes);
  frame_count_ = superblock_->frame_count;
  if (file_->bytes() >= all) return;
  const uint64_t stride = FrameFile::fileBytes(1, superblock_->frame_bytes) - 2 * kBlockBytes;
  const uint64_t behind_superblocks = file_->bytes() - 2 * kBlockBytes;
  const bool has_next_header = behind_superblocks % stride >= FrameFile::kUsedHeaderBytes;
  frame_count_ = static_cast<uint32_t>(behind_superblocks / stride) + (has_next_header ? 1 : 0);
  damage_.push_back("the file has " + std::to_string(file_->bytes()) + " of " + std::to_string(all) +
                    " bytes: frames from " + std::to_string(behind_superblocks / stride) + " on are cut off");
}

// Judges a slot that is not empty, without the frame's bytes: Unfulfilled stands for "not verified yet" if there is no
// reason with it.
SlotFinding FrameInspection::judgeSlot(ByteSpan slot) const {
  SlotFinding finding;
  const Status decoded = log::decodeCertificate(slot, finding.certificate);
  if (decoded != Status::Ok) {
    finding.state = SlotState::Broken;
    finding.why = decoded == Status::WrongFormat ? "it is of another format" : "its checksum is wrong";
    return finding;
  }
  finding.state = SlotState::Unfulfilled;
  const log::Certificate& certificate = finding.certificate;
  if (certificate.length_bytes == 0 || certificate.length_bytes > superblock_->frame_bytes) {
    finding.why = "it is for " + std::to_string(certificate.length_bytes) + " bytes, and a frame has " +
                  std::to_string(superblock_->frame_bytes);
  } else if (certificate.cluster != superblock_->cluster) {
    finding.why = "it is of another cluster";
  } else if (!certificate.master || !certificate.segment) {
    finding.why = "it names no segment";
  }
  return finding;
}

// Reads as many bytes as the certificates vouch for; all of them if there is only a broken certificate.
void FrameInspection::readSegment(FrameFinding& finding, std::vector<std::byte>& bytes) {
  uint64_t wanted = 0;
  bool is_broken = false;
  for (const SlotFinding& slot : finding.slots) {
    is_broken = is_broken || slot.state == SlotState::Broken;
    if (slot.state == SlotState::Unfulfilled && slot.certificate.length_bytes <= superblock_->frame_bytes) {
      wanted = std::max<uint64_t>(wanted, slot.certificate.length_bytes);
    }
  }
  if (wanted == 0 && is_broken) wanted = superblock_->frame_bytes;
  const uint64_t begin = FrameFile::fileBytes(finding.frame, superblock_->frame_bytes) + kBlockBytes;
  const uint64_t there = file_->bytes() > begin ? file_->bytes() - begin : 0;
  bytes.resize(std::min(wanted, there));
  if (bytes.empty() || file_->read(begin, bytes) == Status::Ok) return;
  bytes.clear();
  finding.damage.emplace_back("its bytes cannot be read");
}

FrameFinding FrameInspection::inspect(uint32_t frame, std::vector<std::byte>& bytes) {
  RC_CHECK(frame < frame_count_);
  FrameFinding finding;
  finding.frame = frame;
  bytes.clear();
  std::array<std::byte, FrameFile::kUsedHeaderBytes> header;
  if (file_->read(FrameFile::fileBytes(frame, superblock_->frame_bytes), header) != Status::Ok) {
    finding.damage.emplace_back("its header cannot be read");
    return finding;
  }
  for (size_t i = 0; i < finding.slots.size(); ++i) {
    const ByteSpan slot = ByteSpan(header).subspan(i * kSectorBytes, sizeof(log::CertificateBytes));
    if (!isZero(slot)) finding.slots[i] = judgeSlot(slot);
  }
  readSegment(finding, bytes);
  for (size_t i = 0; i < finding.slots.size(); ++i) {
    SlotFinding& slot = finding.slots[i];
    if (slot.state == SlotState::Unfulfilled && slot.why.empty()) {
      if (log::verifyCertificate(slot.certificate, bytes)) {
        slot.state = SlotState::Verified;
        if (!finding.replica || slot.certificate.isNewerThan(*finding.replica)) finding.replica = slot.certificate;
        continue;
      }
      slot.why = whyUnfulfilled(slot.certificate, bytes);
    }
    if (slot.state != SlotState::Empty) {
      finding.damage.push_back("certificate " + std::to_string(i) + " is " + std::string(name(slot.state)) + ": " +
                               slot.why);
    }
  }
  const auto mark = loadAs<ShortMark>(header.data() + FrameFile::kMarkOffset);
  const bool has_mark = isWhole(mark);
  if (!has_mark && !isZero(bytesOf(mark))) finding.damage.emplace_back("its mark is broken");
  if (!finding.replica) return finding;
  finding.may_be_short = has_mark && !finding.replica->closed && mark.master == finding.replica->master &&
                         mark.segment == finding.replica->segment &&
                         finding.replica->replica_epoch <= mark.replica_epoch;
  log::SegmentPreamble preamble;
  finding.is_head = log::readPreamble(bytes, preamble) == Status::Ok && preamble.has_digest;
  return finding;
}

}  // namespace ramcore::backup
