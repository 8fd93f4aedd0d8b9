#include "backup/frame_file.h"

#include <algorithm>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/hash.h"

namespace ramcore::backup {
namespace {

constexpr std::array<std::byte, FrameFile::kSlotCount * kSectorBytes> kZeros{};

uint32_t crcOf(const ShortMark& mark) { return crc32c(bytesOf(mark).first(offsetof(ShortMark, crc))); }
uint32_t crcOf(const Superblock& superblock) { return crc32c(bytesOf(superblock).first(offsetof(Superblock, crc))); }

Failure damaged(const std::string& what) {
  return Failure{Status::Corrupt,
                 "the frame file of the data directory is damaged (" + what +
                     "): give the server an empty data directory; what this one held is on other servers"};
}

Outcome<Superblock> checkGeometry(const Superblock& found, uint64_t file_bytes, const FrameFileOptions& options) {
  if (found.frame_bytes != options.segment_bytes) {
    return Failure{Status::BadConfig, "the data directory was made for segments of " +
                                          std::to_string(found.frame_bytes) + " bytes, not of " +
                                          std::to_string(options.segment_bytes) +
                                          ": start with that segment size, or with an empty data directory"};
  }
  if (found.header_bytes != kBlockBytes || found.frame_count < FrameFile::kFrameCountMin ||
      found.frame_count > FrameFile::kFrameCountMax ||
      FrameFile::fileBytes(found.frame_count, found.frame_bytes) > file_bytes) {
    return damaged("it is shorter than it says");
  }
  return found;
}

}  // namespace

CopyState SuperblockCopies::stateOf(size_t place) const {
  const Superblock& copy = copies[place];
  const ByteSpan bytes = bytesOf(copy);
  if (std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; })) return CopyState::Empty;
  if (copy.magic != kFrameFileMagic || copy.crc != crcOf(copy)) return CopyState::Damaged;
  if (copy.format != kFrameFileFormat) return CopyState::OtherFormat;
  const bool in_place = copy.generation != 0 && (copy.generation - 1) % 2 == place && copy.generation < UINT64_MAX / 2;
  if (!in_place || !copy.cluster) return CopyState::Damaged;
  return CopyState::Whole;
}

std::optional<Superblock> SuperblockCopies::newest() const {
  const bool has_first = stateOf(0) == CopyState::Whole;
  const bool has_second = stateOf(1) == CopyState::Whole;
  if (has_second && (!has_first || copies[1].generation > copies[0].generation)) return copies[1];
  return has_first ? std::optional(copies[0]) : std::nullopt;
}

bool isWhole(const ShortMark& mark) {
  return mark.magic == kShortMarkMagic && mark.crc == crcOf(mark) && mark.reserved == 0 && mark.reserved2 == 0;
}

Outcome<std::unique_ptr<FrameFile>> FrameFile::create(runtime::Storage& storage, const FrameFileOptions& options) {
  const uint64_t least = fileBytes(kFrameCountMin, options.segment_bytes);
  if (options.storage_bytes < least) {
    return Failure{Status::NoSpace, "storage of " + std::to_string(options.storage_bytes) +
                                        " bytes is too little for replicas of segments of " +
                                        std::to_string(options.segment_bytes) + " bytes: at least " +
                                        std::to_string(least) + " are needed"};
  }
  const uint64_t fits = (options.storage_bytes - 2 * kBlockBytes) / stride(options.segment_bytes);
  const auto frame_count = static_cast<uint32_t>(std::min<uint64_t>(fits, kFrameCountMax));
  auto file = storage.create(kFileName, fileBytes(frame_count, options.segment_bytes));
  if (!file.ok()) return std::move(file).error();
  return std::unique_ptr<FrameFile>(
      new FrameFile(std::move(file).value(), storage.powerEpoch(), frame_count, options.segment_bytes));
}

Outcome<std::unique_ptr<FrameFile>> FrameFile::open(runtime::Storage& storage, const FrameFileOptions& options) {
  if (options.segment_bytes == 0) return Failure{Status::BadConfig, "segments of 0 bytes"};
  auto file = storage.open(kFileName);
  if (!file.ok() && file.error() == Status::NotFound) return create(storage, options);
  if (!file.ok()) return std::move(file).error();
  if ((*file)->bytes() < 2 * kBlockBytes) return damaged("it is shorter than a superblock");

  SuperblockCopies found;
  std::array<CopyState, 2> states;
  for (size_t i = 0; i < 2; ++i) {
    const MutableByteSpan bytes = std::as_writable_bytes(std::span(&found.copies[i], 1));
    if ((*file)->read(i * kBlockBytes, bytes) != Status::Ok) {
      return Failure{Status::IoError, "cannot read the superblock of the frame file"};
    }
    states[i] = found.stateOf(i);
  }
  if (states[0] == CopyState::OtherFormat || states[1] == CopyState::OtherFormat) {
    return Failure{Status::WrongFormat,
                   "the data directory was written by another version (format " +
                       std::to_string(found.copies[states[0] == CopyState::OtherFormat ? 0 : 1].format) + ", this is " +
                       std::to_string(kFrameFileFormat) + "): use that version, or an empty data directory"};
  }
  // The first begin() flushes slot 0, then writes slot 1, and nothing is stored before it is over. So a file without a
  // trace of slot 1 and without slot 0 has never held anything.
  if (found.isOfUnfinishedFile()) {
    file->reset();
    const Status removed = storage.remove(kFileName);
    if (removed != Status::Ok) return Failure{removed, "cannot remove the unfinished frame file"};
    return create(storage, options);
  }
  const std::optional<Superblock> newest = found.newest();
  if (!newest) return damaged("both superblocks");
  auto checked = checkGeometry(*newest, (*file)->bytes(), options);
  if (!checked.ok()) return std::move(checked).error();
  std::unique_ptr<FrameFile> opened(
      new FrameFile(std::move(file).value(), storage.powerEpoch(), checked->frame_count, checked->frame_bytes));
  opened->superblock_ = *checked;
  opened->both_superblocks_ = states[0] == CopyState::Whole && states[1] == CopyState::Whole;
  // If one copy is damaged the other may be of an earlier life, which says nothing about the last one.
  const bool same_power = checked->power_epoch && checked->power_epoch == opened->power_epoch_;
  opened->may_have_lost_ = !opened->both_superblocks_ || !same_power;
  if (!opened->both_superblocks_ || same_power || checked->clean == 0) return opened;
  const Result<bool> as_left = opened->isAsLeftClean();
  if (!as_left.ok()) return Failure{as_left.error(), "cannot read the frame file of the data directory"};
  opened->may_have_lost_ = !*as_left;
  return opened;
}

// A disk that does not flush what it is told to may keep a clean superblock without what was written before it, or
// lose the superblocks of later lives and keep some of what they wrote. With the same headers neither matters: bytes
// that are not what the newest certificate of a frame was cut for are noticed when they are read.
Result<bool> FrameFile::isAsLeftClean() {
  const Result<uint32_t> now = hashHeaders();
  if (!now.ok()) return now.error();
  return *now == superblock_->clean;
}

// No CRC: what is hashed ends with its own CRC32C everywhere, and over that the CRC32C of all is blind.
Result<uint32_t> FrameFile::hashHeaders() {
  uint64_t hash = 0;
  std::array<std::byte, kUsedHeaderBytes> bytes;
  for (uint32_t frame = 0; frame < frame_count_; ++frame) {
    const Status read = file_->read(headerAt(frame), bytes);
    if (read != Status::Ok) return read;
    hash = fingerprint(bytes, hash);
  }
  return std::max<uint32_t>(static_cast<uint32_t>(hash), 1);
}

Status FrameFile::writeSuperblock(ServerId server, ClusterId cluster, bool clean) {
  Superblock next{.magic = kFrameFileMagic,
                  .format = kFrameFileFormat,
                  .frame_count = frame_count_,
                  .generation = superblock_ ? superblock_->generation + 1 : 1,
                  .cluster = cluster,
                  .server = server,
                  .frame_bytes = frame_bytes_,
                  .header_bytes = kBlockBytes,
                  .power_epoch = power_epoch_,
                  .clean = 0,
                  .crc = 0};
  if (clean) {
    const Result<uint32_t> headers = hashHeaders();
    if (!headers.ok()) return headers.error();
    next.clean = *headers;
  }
  next.crc = crcOf(next);
  const Status written = file_->write((next.generation - 1) % 2 * kBlockBytes, bytesOf(next));
  if (written != Status::Ok) return written;
  both_superblocks_ = both_superblocks_ || superblock_.has_value();
  superblock_ = next;
  return Status::Ok;
}

Status FrameFile::writeData(uint32_t frame, uint32_t offset_bytes, std::span<const ByteSpan> pieces) {
  return file_->write(headerAt(frame) + kBlockBytes + offset_bytes, pieces);
}

Status FrameFile::writeFirstCertificate(uint32_t frame, const log::CertificateBytes& certificate) {
  const std::array<ByteSpan, 2> pieces = {bytesOf(certificate), ByteSpan(kZeros).subspan(sizeof(certificate))};
  return file_->write(headerAt(frame), pieces);
}

Status FrameFile::writeCertificate(uint32_t frame, uint32_t slot, const log::CertificateBytes& certificate) {
  return file_->write(slotAt(frame, slot), bytesOf(certificate));
}

Status FrameFile::clearCertificate(uint32_t frame, uint32_t slot) {
  return file_->write(slotAt(frame, slot), ByteSpan(kZeros).first(kSectorBytes));
}

Status FrameFile::clearCertificates(uint32_t frame) { return file_->write(headerAt(frame), ByteSpan(kZeros)); }

Status FrameFile::writeMark(uint32_t frame, ServerId master, SegmentId segment, uint64_t replica_epoch) {
  ShortMark mark{.magic = kShortMarkMagic,
                 .reserved = 0,
                 .master = master,
                 .segment = segment,
                 .replica_epoch = replica_epoch,
                 .reserved2 = 0,
                 .crc = 0};
  mark.crc = crcOf(mark);
  return file_->write(headerAt(frame) + kMarkOffset, bytesOf(mark));
}

Status FrameFile::readHeader(uint32_t frame, Header& header) {
  std::array<std::byte, kUsedHeaderBytes> bytes;
  const Status read = file_->read(headerAt(frame), bytes);
  if (read != Status::Ok) return read;
  for (uint32_t i = 0; i < kSlotCount; ++i) {
    log::Certificate certificate;
    header.slots[i].reset();
    if (log::decodeCertificate(ByteSpan(bytes).subspan(i * kSectorBytes, sizeof(log::CertificateBytes)), certificate) !=
        Status::Ok) {
      continue;
    }
    // A certificate that no frame of this size can fulfil is none.
    if (certificate.length_bytes != 0 && certificate.length_bytes <= frame_bytes_) {
      header.slots[i] = certificate;
    }
  }
  const auto mark = loadAs<ShortMark>(bytes.data() + kMarkOffset);
  header.mark.reset();
  if (isWhole(mark)) header.mark = mark;
  return Status::Ok;
}

Status FrameFile::readVerified(uint32_t frame, const log::Certificate& certificate, std::vector<std::byte>& bytes) {
  RC_CHECK(certificate.length_bytes <= frame_bytes_);
  bytes.resize(certificate.length_bytes);
  const Status read = file_->read(headerAt(frame) + kBlockBytes, bytes);
  if (read != Status::Ok) return read;
  return log::verifyCertificate(certificate, bytes) ? Status::Ok : Status::Corrupt;
}

Result<log::Certificate> FrameFile::readCertificateFromDisk(uint32_t frame, uint32_t slot) {
  std::array<std::byte, sizeof(log::CertificateBytes)> bytes;
  file_->forgetCached(headerAt(frame), kBlockBytes);
  const Status read = file_->read(slotAt(frame, slot), bytes);
  if (read != Status::Ok) return read;
  log::Certificate certificate;
  if (log::decodeCertificate(bytes, certificate) != Status::Ok) return Status::Corrupt;
  return certificate;
}

Status FrameFile::readDataFromDisk(uint32_t frame, uint32_t offset_bytes, MutableByteSpan out) {
  const uint64_t at = headerAt(frame) + kBlockBytes + offset_bytes;
  file_->forgetCached(at, out.size());
  return file_->read(at, out);
}

Result<log::Certificate> FrameFile::readNewestVerified(uint32_t frame, ClusterId cluster, ServerId master,
                                                       SegmentId segment, std::vector<std::byte>& bytes) {
  Header header;
  const Status read = readHeader(frame, header);
  if (read != Status::Ok) return read;
  Slots& slots = header.slots;
  std::sort(slots.begin(), slots.end(), [](const auto& a, const auto& b) { return a && (!b || a->isNewerThan(*b)); });
  Status last = Status::Corrupt;
  for (const auto& certificate : slots) {
    if (!certificate || certificate->cluster != cluster || certificate->master != master ||
        certificate->segment != segment) {
      continue;
    }
    last = readVerified(frame, *certificate, bytes);
    if (last == Status::Ok) return *certificate;
    if (last != Status::Corrupt) return last;
  }
  return last;
}

}  // namespace ramcore::backup
