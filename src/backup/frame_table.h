#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "backup/frame_file.h"

namespace ramcore::backup {

inline constexpr uint32_t kNoFrame = UINT32_MAX;

enum class FrameState : uint8_t {
  Free,
  Former,   ///< holds slots of a former life
  Own,      ///< written in this life
  Leaving,  ///< freed, but still being read, or its closed replica could come back as open
};

/// What the process knows of one storage frame.
struct StorageFrame {
  FrameState state = FrameState::Free;
  bool invalid = false;       ///< its bytes were read and are not what its slots say
  bool was_whole = false;     ///< ReplicaLoader has found it whole in this life
  bool of_reserve = false;    ///< FreeFrames counts it as a small head
  bool has_failed = false;    ///< a queued write could not be done; what was there before counts
  uint64_t failed_stamp = 0;  ///< from the write with this stamp on, nothing was done
  bool certified = false;     ///< `certificate` counts
  ServerId master;
  SegmentId segment;
  uint64_t replica_epoch = 0;
  uint64_t short_epoch = 0;    ///< an open replica here under this epoch or an older one may be short
  uint64_t scrub_stamp = 0;    ///< stamp of the removal of the open certificates
  uint8_t open_slots = 0;      ///< bits of the slots with certificates of this segment that do not close it
  uint32_t length_bytes = 0;   ///< bytes that are present
  bool in_next_flush = false;  ///< it has a certificate that is newer than the last flush that began
  uint32_t flushed_bytes = 0;  ///< bytes flushed with a certificate of flushed_epoch
  uint64_t flushed_epoch = 0;
  uint32_t generation = 0;    ///< counts the uses of the storage frame
  uint32_t older = kNoFrame;  ///< another storage frame of the same segment, which this one is to replace
  uint32_t pins = 0;
  uint64_t stamp = 0;                                         ///< stamp of the last write
  std::array<uint64_t, FrameFile::kSlotCount> slot_stamps{};  ///< of the certificate in each slot; 0: nothing to keep
  log::Certificate certificate;                               ///< the newest certificate

  /// Bytes under a certificate of replica_epoch.
  uint32_t certifiedBytes() const {
    const bool is_certified = certified && certificate.replica_epoch == replica_epoch;
    return is_certified ? certificate.length_bytes : 0;
  }
};

/// Which storage frame holds what: one entry for each storage frame of the file, found by its number or by the segment
/// that it holds a replica of. Several storage frames of one segment form a list, the newest first
/// (StorageFrame::older).
/// Thread: the store's executor.
class FrameTable {
 public:
  /// All storage frames are free.
  explicit FrameTable(uint32_t frame_count) : frames_(frame_count) {}
  FrameTable(const FrameTable&) = delete;
  FrameTable& operator=(const FrameTable&) = delete;

  /// Reads the slots of all storage frames, and notes what they hold of former lives; blocks for that long. Once,
  /// before anything else. IoError.
  Status readHeaders(FrameFile& file);
  /// Marks the replicas of former lives that mayBeShort(), if they turn out to be open. Blocks. IoError. Before
  /// anything else is written.
  Status writeMarks(FrameFile& file) const;
  /// Number of storage frames of former lives for whose replicas mayBeShort() is true unless they turn out to be
  /// closed.
  uint32_t doubtfulCount() const { return doubtful_count_; }

  uint32_t size() const { return static_cast<uint32_t>(frames_.size()); }
  // The next two are inline because each write comes here.
  StorageFrame& operator[](uint32_t frame) { return frames_[frame]; }
  const StorageFrame& operator[](uint32_t frame) const { return frames_[frame]; }
  /// The newest storage frame of the segment; kNoFrame if there is none.
  uint32_t find(ServerId master, SegmentId segment) const {
    const auto segments = index_.find(master);
    if (segments == index_.end()) return kNoFrame;
    const auto found = segments->second.find(segment);
    return found == segments->second.end() ? kNoFrame : found->second;
  }
  /// From now on find() gives `frame`, which names the one that was found before as its older one.
  void link(ServerId master, SegmentId segment, uint32_t frame) { index_[master][segment] = frame; }
  /// From now on find() gives none. To be called only for a segment for which it gives one.
  void unlink(ServerId master, SegmentId segment);

  /// Masters that have storage frames here, ascending.
  std::vector<ServerId> masters() const;
  /// Segments of a master with storage frames here, ascending; verified or not.
  std::vector<SegmentId> segments(ServerId master) const;
  /// The segments among these that have storage frames of former lives.
  std::vector<SegmentId> formerSegments(ServerId master) const;
  /// Whether a replica, as ReplicaLoader found it, may have lost its end: when its machine lost power, or by rot.
  bool mayBeShort(const log::Certificate& loaded) const;

 private:
  template <typename Tag>
  struct IdHash {
    size_t operator()(Id<Tag, uint64_t> id) const { return id.value * 0x9e3779b97f4a7c15; }
  };
  using SegmentFrames = std::unordered_map<SegmentId, uint32_t, IdHash<struct SegmentIdTag>>;

  bool takeHeader(const FrameFile& file, StorageFrame& frame, const FrameFile::Header& header);

  std::vector<StorageFrame> frames_;
  std::unordered_map<ServerId, SegmentFrames, IdHash<struct ServerIdTag>> index_;
  uint32_t doubtful_count_ = 0;
};

}  // namespace ramcore::backup
