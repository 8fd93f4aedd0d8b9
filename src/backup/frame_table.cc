#include "backup/frame_table.h"

#include <algorithm>

namespace ramcore::backup {

Status FrameTable::readHeaders(FrameFile& file) {
  FrameFile::Header header;
  std::vector<uint32_t> found;
  for (uint32_t i = 0; i < frames_.size() && file.superblock(); ++i) {
    const Status read = file.readHeader(i, header);
    if (read != Status::Ok) return read;
    if (takeHeader(file, frames_[i], header)) found.push_back(i);
  }
  // Several frames of one segment: the newest comes first. All stay until it is known which one is whole.
  std::sort(found.begin(), found.end(), [this](uint32_t a, uint32_t b) {
    const log::Certificate& one = frames_[a].certificate;
    const log::Certificate& other = frames_[b].certificate;
    return other.isNewerThan(one) || (!one.isNewerThan(other) && a < b);
  });
  for (const uint32_t i : found) {
    StorageFrame& frame = frames_[i];
    frame.state = FrameState::Former;
    frame.master = frame.certificate.master;
    frame.segment = frame.certificate.segment;
    frame.replica_epoch = frame.certificate.replica_epoch;
    frame.length_bytes = frame.certificate.length_bytes;
    uint32_t& first = index_[frame.master].try_emplace(frame.segment, kNoFrame).first->second;
    frame.older = first;
    first = i;
  }
  return Status::Ok;
}

// Notes what a frame holds of a former life. False if that is nothing.
bool FrameTable::takeHeader(const FrameFile& file, StorageFrame& frame, const FrameFile::Header& header) {
  const ClusterId cluster = file.superblock()->cluster;
  for (const auto& slot : header.slots) {
    if (!slot || slot->cluster != cluster || !slot->master || !slot->segment) continue;
    if (!frame.certified || slot->isNewerThan(frame.certificate)) frame.certificate = *slot;
    frame.certified = true;
  }
  for (uint32_t i = 0; i < FrameFile::kSlotCount; ++i) {
    const auto& slot = header.slots[i];
    const bool is_its = slot && slot->cluster == cluster && slot->master == frame.certificate.master &&
                        slot->segment == frame.certificate.segment;
    if (is_its && !slot->closed) frame.open_slots |= static_cast<uint8_t>(1U << i);
  }
  // The newest certificate may not verify, and then an older one of the segment counts: it is at most of this epoch.
  if (file.mayHaveLost()) {
    frame.short_epoch = frame.certificate.replica_epoch;
  } else if (header.mark && header.mark->master == frame.certificate.master &&
             header.mark->segment == frame.certificate.segment) {
    frame.short_epoch = header.mark->replica_epoch;
  }
  if (frame.open_slots != 0 && frame.short_epoch != 0) ++doubtful_count_;
  return frame.certified;
}

Status FrameTable::writeMarks(FrameFile& file) const {
  for (uint32_t i = 0; i < frames_.size(); ++i) {
    const StorageFrame& frame = frames_[i];
    if (frame.open_slots == 0) continue;
    const Status marked = file.writeMark(i, frame.master, frame.segment, frame.short_epoch);
    if (marked != Status::Ok) return marked;
  }
  return Status::Ok;
}

void FrameTable::unlink(ServerId master, SegmentId segment) {
  const auto segments = index_.find(master);
  segments->second.erase(segment);
  if (segments->second.empty()) index_.erase(segments);
}

std::vector<ServerId> FrameTable::masters() const {
  std::vector<ServerId> masters;
  for (const auto& [master, segments] : index_) masters.push_back(master);
  std::sort(masters.begin(), masters.end());
  return masters;
}

std::vector<SegmentId> FrameTable::segments(ServerId master) const {
  std::vector<SegmentId> segments;
  const auto found = index_.find(master);
  if (found == index_.end()) return segments;
  for (const auto& [segment, frame] : found->second) segments.push_back(segment);
  std::sort(segments.begin(), segments.end());
  return segments;
}

std::vector<SegmentId> FrameTable::formerSegments(ServerId master) const {
  std::vector<SegmentId> segments = this->segments(master);
  std::erase_if(segments, [this, master](SegmentId segment) {
    uint32_t frame = find(master, segment);
    while (frame != kNoFrame && frames_[frame].state != FrameState::Former) frame = frames_[frame].older;
    return frame == kNoFrame;
  });
  return segments;
}

bool FrameTable::mayBeShort(const log::Certificate& loaded) const {
  if (loaded.closed) return false;
  bool may_be_short = false;
  for (uint32_t i = find(loaded.master, loaded.segment); i != kNoFrame; i = frames_[i].older) {
    const StorageFrame& frame = frames_[i];
    // If bytes rot under the newest certificate, an older one verifies, and the replica ends where that one says.
    const bool has_lost = frame.state == FrameState::Former && frame.certificate.isNewerThan(loaded);
    may_be_short = may_be_short || has_lost || loaded.replica_epoch <= frame.short_epoch;
  }
  return may_be_short;
}

}  // namespace ramcore::backup
