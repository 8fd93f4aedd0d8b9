#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "log/format/certificate.h"
#include "runtime/storage.h"

/// The bytes of the file that holds all replicas of one server. See docs/formats.md. Every change here needs a new
/// kFrameFileFormat. So does a change of log::kSegmentFormat: segments of another format must not pass for free storage
/// frames.
namespace ramcore::backup {

inline constexpr uint32_t kFrameFileFormat = 4;
inline constexpr uint64_t kFrameFileMagic = 0x656c694661724652;  // "RFraFile"
/// Superblock slots, headers of storage frames and storage frames begin at multiples of this.
inline constexpr uint64_t kBlockBytes = 4096;
/// The unit that a disk writes whole or tears. Each certificate slot is in a sector of its own.
inline constexpr uint64_t kSectorBytes = 512;

/// Says which cluster and server the file belongs to. There are two copies in the first two blocks, written in turn.
struct Superblock {
  uint64_t magic;                   ///< kFrameFileMagic
  uint32_t format;                  ///< kFrameFileFormat
  uint32_t frame_count;             ///<
  uint64_t generation;              ///< the higher one counts; stands in slot (generation - 1) % 2
  ClusterId cluster;                ///<
  ServerId server;                  ///< the last incarnation that used the file
  uint32_t frame_bytes;             ///< payload of one storage frame: the segment size
  uint32_t header_bytes;            ///< kBlockBytes
  runtime::PowerEpoch power_epoch;  ///< the power epoch in which it was written
  uint32_t clean;  ///< not 0: all of the file had been flushed, and nothing was written any more; a hash
                   ///< of what the headers of all frames said then
  uint32_t crc;    ///< CRC32C over everything before; at the same place in every format
};
static_assert(sizeof(Superblock) == 64 && Fixed<Superblock>);

/// Stands in the header of a storage frame, behind the slots. It says that what the frame holds of this segment up to
/// this replica epoch came through a loss of power, and may be shorter than it was. It says nothing of any other
/// replica, so it need not be cleared when the storage frame is used again: the next replica of the same segment has a
/// higher epoch.
struct ShortMark {
  uint32_t magic;          ///< kShortMarkMagic
  uint32_t reserved;       ///< zero
  ServerId master;         ///<
  SegmentId segment;       ///<
  uint64_t replica_epoch;  ///<
  uint32_t reserved2;      ///< zero
  uint32_t crc;            ///< CRC32C over everything before
};
static_assert(sizeof(ShortMark) == 40 && Fixed<ShortMark>);
inline constexpr uint32_t kShortMarkMagic = 0x68536352;  // "RcSh"

/// What one of the two copies of the superblock is.
enum class CopyState : uint8_t {
  Empty,        ///< zeros
  Damaged,      ///< anything else: no superblock, or one whose generation belongs into the other copy
  OtherFormat,  ///< whole, of another version of this program
  Whole,
};

/// Both copies of the superblock, as they were read. Nothing in them is trusted.
struct SuperblockCopies {
  std::array<Superblock, 2> copies{};

  CopyState stateOf(size_t place) const;
  /// The whole copy of the higher generation, which counts. Empty: neither copy is whole. The sizes in it may still be
  /// impossible.
  std::optional<Superblock> newest() const;
  /// True if the file has never held anything: the first FrameStore::begin(), which writes both copies before anything
  /// else is written, has not come to the second one.
  bool isOfUnfinishedFile() const { return stateOf(0) != CopyState::Whole && stateOf(1) == CopyState::Empty; }
};

/// Whether these bytes were written as a mark. True does not say whose mark it is, nor that it still counts.
bool isWhole(const ShortMark& mark);

struct FrameFileOptions {
  uint64_t storage_bytes = 0;  ///< the file takes as many storage frames as fit; used only when it is created
  uint32_t segment_bytes = 8u << 20;
};

/// The frame file: where its parts are, and what of them can be believed. It does not know how the storage frames are
/// used.
/// Thread: any, but no thread may write what another one reads or writes at the time.
class FrameFile {
 public:
  /// With fewer storage frames, FreeFrames could not keep its shares apart.
  static constexpr uint32_t kFrameCountMin = 4;
  /// The file's name in the storage.
  static constexpr std::string_view kFileName = "frames";
  static constexpr uint32_t kFrameCountMax = UINT32_MAX / 2;
  /// Certificate slots in the header of a storage frame, each in a sector of its own. Why there are three: see
  /// FrameStore.
  static constexpr uint32_t kSlotCount = 3;
  /// In the header of a storage frame: where the mark is, and how many bytes of the header are used.
  static constexpr uint64_t kMarkOffset = kSlotCount * kSectorBytes;
  static constexpr uint64_t kUsedHeaderBytes = kMarkOffset + sizeof(ShortMark);
  using Slots = std::array<std::optional<log::Certificate>, kSlotCount>;
  /// What the header of a storage frame says. Nothing of it is verified against the storage frame's bytes.
  struct Header {
    Slots slots;
    std::optional<ShortMark> mark;
  };

  /// Opens the file kFileName, or creates it. A file that was created but whose first begin() never ended is created
  /// anew.
  /// Failure, for a person: NoSpace, BadConfig (segment size), WrongFormat, Corrupt, IoError.
  static Outcome<std::unique_ptr<FrameFile>> open(runtime::Storage& storage, const FrameFileOptions& options);

  uint32_t frameCount() const { return frame_count_; }
  uint32_t frameBytes() const { return frame_bytes_; }
  /// The newest whole superblock; empty in a file that was never used.
  const std::optional<Superblock>& superblock() const { return superblock_; }
  /// Whether both copies are whole.
  bool hasBothSuperblocks() const { return both_superblocks_; }
  /// True if something that was written to the file may be missing, because it had not been flushed when the machine
  /// lost its power.
  bool mayHaveLost() const { return may_have_lost_; }

  /// Writes the next superblock in the place of the older copy. It counts when it has been flushed.
  /// @param clean  everything else in the file is flushed, and nothing more will be written; then the call blocks
  ///               while it reads all headers
  [[nodiscard]] Status writeSuperblock(ServerId server, ClusterId cluster, bool clean);

  [[nodiscard]] Status writeData(uint32_t frame, uint32_t offset_bytes, std::span<const ByteSpan> pieces);
  /// Writes slot 0 and zeros into the others.
  [[nodiscard]] Status writeFirstCertificate(uint32_t frame, const log::CertificateBytes& certificate);
  [[nodiscard]] Status writeCertificate(uint32_t frame, uint32_t slot, const log::CertificateBytes& certificate);
  /// Writes zeros into one slot.
  [[nodiscard]] Status clearCertificate(uint32_t frame, uint32_t slot);
  /// Writes zeros into all slots: the storage frame then holds nothing.
  [[nodiscard]] Status clearCertificates(uint32_t frame);

  [[nodiscard]] Status writeMark(uint32_t frame, ServerId master, SegmentId segment, uint64_t replica_epoch);

  [[nodiscard]] Status readHeader(uint32_t frame, Header& header);
  /// Fills `bytes` with what `certificate` vouches for. Corrupt: the storage frame does not hold that.
  [[nodiscard]] Status readVerified(uint32_t frame, const log::Certificate& certificate, std::vector<std::byte>& bytes);
  // These two read from the disk, where the system allows it.
  /// Reads one slot. Corrupt: it holds no certificate.
  Result<log::Certificate> readCertificateFromDisk(uint32_t frame, uint32_t slot);
  /// Reads a part of the storage frame's segment.
  [[nodiscard]] Status readDataFromDisk(uint32_t frame, uint32_t offset_bytes, MutableByteSpan out);
  /// Finds the newest of the storage frame's certificates of this segment that verifies, and reads its bytes. Corrupt:
  /// there is none.
  Result<log::Certificate> readNewestVerified(uint32_t frame, ClusterId cluster, ServerId master, SegmentId segment,
                                              std::vector<std::byte>& bytes);

  /// As in runtime::StorageFile.
  uint64_t threadWaits() const { return file_->threadWaits(); }
  void flush(runtime::Flush& flush) { file_->flush(flush); }
  bool isCondemned() const { return file_->isCondemned(); }

  /// Length of a file with that many storage frames, which is also where the next one would begin.
  static uint64_t fileBytes(uint64_t frame_count, uint32_t segment_bytes) {
    return 2 * kBlockBytes + frame_count * stride(segment_bytes);
  }

 private:
  FrameFile(std::unique_ptr<runtime::StorageFile> file, runtime::PowerEpoch power_epoch, uint32_t frame_count,
            uint32_t frame_bytes)
      : file_(std::move(file)), power_epoch_(power_epoch), frame_count_(frame_count), frame_bytes_(frame_bytes) {}
  static Outcome<std::unique_ptr<FrameFile>> create(runtime::Storage& storage, const FrameFileOptions& options);
  Result<uint32_t> hashHeaders();
  Result<bool> isAsLeftClean();
  static constexpr uint64_t stride(uint32_t segment_bytes) {
    return kBlockBytes + alignUp(uint64_t{segment_bytes}, kBlockBytes);
  }
  uint64_t headerAt(uint32_t frame) const { return fileBytes(frame, frame_bytes_); }
  uint64_t slotAt(uint32_t frame, uint32_t slot) const { return headerAt(frame) + slot * kSectorBytes; }

  const std::unique_ptr<runtime::StorageFile> file_;
  const runtime::PowerEpoch power_epoch_;
  const uint32_t frame_count_;
  const uint32_t frame_bytes_;
  std::optional<Superblock> superblock_;
  bool both_superblocks_ = false;
  bool may_have_lost_ = false;
};

}  // namespace ramcore::backup
