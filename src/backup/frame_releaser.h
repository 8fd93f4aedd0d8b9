#pragma once

#include <vector>

#include "backup/frame_flushes.h"
#include "backup/frame_table.h"
#include "backup/free_frames.h"
#include "backup/write_order.h"

namespace ramcore::backup {

/// How storage frames become free: when their replica is freed or a flushed one replaces it, nobody reads them any
/// more, and nothing can bring back as open what was closed. The reasons for the order of the steps stand at
/// FrameStore.
/// Thread: the store's executor.
class FrameReleaser {
 public:
  /// All outlive this object.
  FrameReleaser(FrameTable& frames, FreeFrames& free_frames, WriteOrder& order, FrameFlushes& flushes);
  FrameReleaser(const FrameReleaser&) = delete;
  FrameReleaser& operator=(const FrameReleaser&) = delete;

  /// These three are as in FrameStore.
  void free(ServerId master, SegmentId segment);
  void freeAll(ServerId master);
  void freeFormer(ServerId master, SegmentId segment);

  /// The storage frame is to replace its older one, which goes when a certificate of the new one is flushed.
  void noteReplacing(uint32_t frame) { replacing_.push_back(frame); }
  /// A certificate closes the storage frame, which still has open ones: they go when that certificate is flushed.
  void noteClosing(uint32_t frame) { closing_.push_back(frame); }
  /// Frees the storage frames that were replaced and can go. Each flush does that.
  void freeReplaced();
  /// A flush is over. Frees the storage frames that waited for it, and removes the open certificates of the closed ones
  /// that noteClosing() has named.
  void onFlushed(Status status);

  /// A read of the storage frame begins: the frame is not used again before unpin().
  void pin(uint32_t frame) { ++frames_[frame].pins; }
  /// Once for each pin().
  void unpin(uint32_t frame);

 private:
  /// The removal of an open certificate.
  struct OpenClear {
    ServerId master;
    SegmentId segment;
    uint64_t stamp;
  };

  void release(uint32_t frame);
  void releaseAll(uint32_t frame);
  void makeFree(uint32_t frame);
  void putFree(uint32_t frame);
  void scrub(uint32_t frame);
  void scrubClosed();
  void putScrubbedFree();
  bool hasFlushedCertificate(const StorageFrame& frame) const;

  FrameTable& frames_;
  FreeFrames& free_frames_;
  WriteOrder& order_;
  FrameFlushes& flushes_;
  std::vector<uint32_t> replacing_;     // storage frames that are to replace an older one
  std::vector<uint32_t> closing_;       // storage frames that are closed, but perhaps not durably
  std::vector<uint32_t> scrubbing_;     // storage frames that are free when their open certificates are durably gone
  std::vector<OpenClear> open_clears_;  // removals that are not flushed yet
};

}  // namespace ramcore::backup
