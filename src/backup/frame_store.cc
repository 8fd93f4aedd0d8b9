#include "backup/frame_store.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/mutation.h"

namespace ramcore::backup {
namespace {

uint32_t shareOf(uint32_t frame_count, uint32_t permille) {
  return std::max<uint32_t>(1, static_cast<uint32_t>(uint64_t{frame_count} * permille / 1000));
}

// Of the one thread that writes the counter.
void add(std::atomic<uint64_t>& counter, int64_t by) {
  counter.store(counter.load(std::memory_order_relaxed) + static_cast<uint64_t>(by), std::memory_order_relaxed);
}

}  // namespace

// ---- opening

FrameStore::FrameStore(std::unique_ptr<FrameFile> file, runtime::Executor& executor, runtime::Executor& disk,
                       WriteThread thread)
    : file_(std::move(file)),
      executor_(executor),
      disk_(disk),
      frames_(file_->frameCount()),
      head_frames_(shareOf(file_->frameCount(), kHeadSharePermille)),
      survivor_frames_(shareOf(file_->frameCount(), kSurvivorSharePermille)),
      flush_job_(*this),
      flush_over_(executor),
      writer_(*file_, *this, executor, disk, thread) {
  if (file_->superblock()) cluster_ = file_->superblock()->cluster;
  stats_.frames_total = file_->frameCount();
  stats_.frames_kept = head_frames_ + survivor_frames_;
}

FrameStore::~FrameStore() { RC_CHECK_MSG(idle(), "the frames were closed while they were written, flushed or read"); }

Outcome<std::unique_ptr<FrameStore>> FrameStore::open(runtime::Storage& storage, const FrameFileOptions& options,
                                                      runtime::Executor& executor, runtime::Executor& disk,
                                                      WriteThread thread) {
  auto file = FrameFile::open(storage, options);
  if (!file.ok()) return std::move(file).error();
  std::unique_ptr<FrameStore> store(new FrameStore(std::move(file).value(), executor, disk, thread));
  const Status scanned = store->scan();
  if (scanned != Status::Ok) return Failure{scanned, "cannot read the frame file of the data directory"};
  return store;
}

Status FrameStore::scan() {
  FrameFile::Header header;
  std::vector<uint32_t> found;
  for (uint32_t i = 0; i < frames_.size() && file_->superblock(); ++i) {
    const Status read = file_->readHeader(i, header);
    if (read != Status::Ok) return read;
    if (takeHeader(frames_[i], header)) found.push_back(i);
  }
  // Several frames of one segment: the newest comes first. All stay until it is known which one is whole.
  std::sort(found.begin(), found.end(), [this](uint32_t a, uint32_t b) {
    const log::Certificate& one = frames_[a].certificate;
    const log::Certificate& other = frames_[b].certificate;
    return other.isNewerThan(one) || (!one.isNewerThan(other) && a < b);
  });
  for (const uint32_t i : found) {
    Frame& frame = frames_[i];
    frame.state = FrameState::Former;
    frame.master = frame.certificate.master;
    frame.segment = frame.certificate.segment;
    frame.replica_epoch = frame.certificate.replica_epoch;
    frame.length_bytes = frame.certificate.length_bytes;
    uint32_t& first = index_[frame.master].try_emplace(frame.segment, kNoFrame).first->second;
    frame.older = first;
    first = i;
  }
  for (auto i = static_cast<uint32_t>(frames_.size()); i-- > 0;) {
    if (frames_[i].state == FrameState::Free) free_.push_back(i);
  }
  stats_.frames_free = frames_.size() - found.size();
  return Status::Ok;
}

// What a frame holds of a former life; false if nothing.
bool FrameStore::takeHeader(Frame& frame, const FrameFile::Header& header) {
  for (const auto& slot : header.slots) {
    if (!slot || slot->cluster != cluster_ || !slot->master || !slot->segment) continue;
    if (!frame.certified || slot->isNewerThan(frame.certificate)) frame.certificate = *slot;
    frame.certified = true;
  }
  for (uint32_t i = 0; i < FrameFile::kSlotCount; ++i) {
    const auto& slot = header.slots[i];
    const bool is_its = slot && slot->cluster == cluster_ && slot->master == frame.certificate.master &&
                        slot->segment == frame.certificate.segment;
    if (is_its && !slot->closed) frame.open_slots |= static_cast<uint8_t>(1U << i);
  }
  // The newest certificate may not verify, and then an older one of the segment counts: it is at most of this epoch.
  if (file_->mayHaveLost()) {
    frame.short_epoch = frame.certificate.replica_epoch;
  } else if (header.mark && header.mark->master == frame.certificate.master &&
             header.mark->segment == frame.certificate.segment) {
    frame.short_epoch = header.mark->replica_epoch;
  }
  if (frame.open_slots != 0 && frame.short_epoch != 0) ++doubtful_count_;
  return frame.certified;
}

ServerId FrameStore::formerServer() const {
  return file_->superblock() && !begun_ ? file_->superblock()->server : ServerId();
}

ClusterId FrameStore::cluster() const { return cluster_; }

// Of a write that was done here, with nothing queued before it.
uint64_t FrameStore::stampDone() {
  RC_CHECK(writer_.isIdle());
  done_stamp_ = ++write_stamp_;
  return write_stamp_;
}

runtime::Task<Status> FrameStore::begin(ServerId server, ClusterId cluster) {
  RC_CHECK(!begun_);
  if (cluster_ && cluster_ != cluster) co_return Status::WrongCluster;
  // From the new superblock on nobody can tell any more that power was lost before.
  if (file_->mayHaveLost()) {
    Status marked = co_await onDisk([this] { return writeMarks(); });
    if (marked == Status::Ok) marked = co_await flushedUpTo(stampDone());
    if (marked != Status::Ok) co_return marked;
  }
  // A first copy has to be whole before there is a second one, see FrameFile::open.
  for (bool again = true; again;) {
    const Status written = co_await onDisk([&] { return file_->writeSuperblock(server, cluster, false); });
    if (written != Status::Ok) co_return written;
    again = !file_->hasBothSuperblocks();
    const Status flushed = co_await flushedUpTo(stampDone());
    if (flushed != Status::Ok) co_return flushed;
  }
  cluster_ = cluster;
  begun_ = true;
  co_return Status::Ok;
}

// At the beginning and at the end, when nobody else touches the file or the frames.
runtime::Task<Status> FrameStore::onDisk(std::function<Status()> work) {
  ++waiting_;
  co_await runtime::resumeOn(disk_, runtime::Priority::Waited);
  const Status status = work();
  co_await runtime::resumeOn(executor_, runtime::Priority::Waited);
  --waiting_;
  co_return status;
}

Status FrameStore::writeMarks() {
  for (uint32_t i = 0; i < frames_.size(); ++i) {
    const Frame& frame = frames_[i];
    if (frame.open_slots == 0) continue;
    const Status marked = file_->writeMark(i, frame.master, frame.segment, frame.short_epoch);
    if (marked != Status::Ok) return marked;
  }
  return Status::Ok;
}

runtime::Task<Status> FrameStore::close() {
  RC_CHECK(begun_ && !closed_);
  closed_ = true;
  const Status flushed = co_await flushedUpTo(write_stamp_);
  if (flushed != Status::Ok) co_return flushed;
  const Status written =
      co_await onDisk([this] { return file_->writeSuperblock(file_->superblock()->server, cluster_, true); });
  if (written != Status::Ok) co_return written;
  co_return co_await flushedUpTo(stampDone());
}

// ---- looking

bool FrameStore::mayBeShort(const log::Certificate& loaded) const {
  if (loaded.closed) return false;
  bool may_be_short = false;
  for (uint32_t i = find(loaded.master, loaded.segment); i != kNoFrame; i = frames_[i].older) {
    const Frame& frame = frames_[i];
    // Bytes that rot under the newest certificate leave the end of an older one.
    const bool has_lost = frame.state == FrameState::Former && frame.certificate.isNewerThan(loaded);
    may_be_short = may_be_short || has_lost || loaded.replica_epoch <= frame.short_epoch;
  }
  return may_be_short;
}

std::vector<ServerId> FrameStore::masters() const {
  std::vector<ServerId> masters;
  for (const auto& [master, segments] : index_) masters.push_back(master);
  std::sort(masters.begin(), masters.end());
  return masters;
}

std::vector<SegmentId> FrameStore::segments(ServerId master) const {
  std::vector<SegmentId> segments;
  const auto found = index_.find(master);
  if (found == index_.end()) return segments;
  for (const auto& [segment, frame] : found->second) segments.push_back(segment);
  std::sort(segments.begin(), segments.end());
  return segments;
}

std::vector<SegmentId> FrameStore::formerSegments(ServerId master) const {
  std::vector<SegmentId> segments = this->segments(master);
  std::erase_if(segments, [this, master](SegmentId segment) {
    uint32_t frame = find(master, segment);
    while (frame != kNoFrame && frames_[frame].state != FrameState::Former) frame = frames_[frame].older;
    return frame == kNoFrame;
  });
  return segments;
}

bool FrameStore::canBeLoaded(const Frame& frame) const {
  if (!frame.certified || frame.invalid) return false;
  return frame.state == FrameState::Former || !isCondemned() || frame.stamp <= flushed_stamp_;
}

runtime::Task<Result<log::Certificate>> FrameStore::load(ServerId master, SegmentId segment, runtime::Executor& reader,
                                                         std::vector<std::byte>& bytes) {
  ++waiting_;
  std::optional<log::Certificate> best;
  std::optional<log::Certificate> lost;
  std::vector<std::byte> other;
  // What may have been offered to a recovery by this process, and is not whole any more.
  const auto noteLost = [&lost](const Frame& frame) {
    if (!frame.certified || (frame.state == FrameState::Former && !frame.was_whole)) return;
    if (!lost || frame.certificate.isNewerThan(*lost)) lost = frame.certificate;
  };
  uint32_t index = find(master, segment);
  while (index != kNoFrame) {
    const Frame& frame = frames_[index];
    // The newest certificate of a frame may not verify, and then an older one of it is not the best there is.
    if (!canBeLoaded(frame) || (best && !frame.certificate.isNewerThan(*best))) {
      if (!canBeLoaded(frame)) noteLost(frame);
      index = frame.older;
      continue;
    }
    ++frames_[index].pins;
    const uint32_t generation = frame.generation;
    Result<log::Certificate> read = co_await readWhole(index, reader, best ? other : bytes);
    // What went wrong on its way to us is right the second time, and no reason to give up a replica.
    if (!read.ok() && frame.generation == generation) {
      read = co_await readWhole(index, reader, best ? other : bytes);
    }
    const bool still_there = frame.generation == generation;
    const uint32_t older = still_there ? frame.older : kNoFrame;
    if (still_there && !read.ok()) {
      frames_[index].invalid = true;
      noteLost(frames_[index]);
      add(stats_.corrupt_frames, 1);
    }
    unpin(index);
    if (!still_there) best.reset();
    if (still_there && read.ok()) frames_[index].was_whole = true;
    if (still_there && read.ok() && (!best || read->isNewerThan(*best))) {
      if (best) bytes.swap(other);
      best = *read;
    }
    index = older;
  }
  --waiting_;
  // An open replica is not the replica that took its place here, but the beginning of it: a recovery that has chosen
  // that one has to read it somewhere else.
  if (!best || (!best->closed && lost && lost->isNewerThan(*best))) co_return Status::NotFound;
  co_return *best;
}

// Visits `reader` for it. The frame is pinned.
runtime::Task<Result<log::Certificate>> FrameStore::readWhole(uint32_t index, runtime::Executor& reader,
                                                              std::vector<std::byte>& bytes) {
  log::Certificate certificate = frames_[index].certificate;
  const bool former = frames_[index].state == FrameState::Former;
  const uint32_t generation = frames_[index].generation;
  // Everything that was accepted before counts, because its answer may still come: a recovery that reads less would
  // take back what a master acknowledges.
  co_await DoneWait(*this, frames_[index].stamp);
  const Frame& frame = frames_[index];
  if (frame.generation == generation && frame.has_failed) {
    if (!frame.certified) co_return Status::Corrupt;
    certificate = frame.certificate;
  }
  co_await runtime::resumeOn(reader, runtime::Priority::Waited);
  Status status = Status::Ok;
  log::Certificate found = certificate;
  if (former) {
    const Result<log::Certificate> newest =
        file_->readNewestVerified(index, certificate.cluster, certificate.master, certificate.segment, bytes);
    status = newest.status();
    if (newest.ok()) found = *newest;
  } else {
    status = file_->readVerified(index, certificate, bytes);
  }
  co_await runtime::resumeOn(executor_, runtime::Priority::Waited);
  if (status != Status::Ok) co_return status;
  co_return found;
}

// ---- flushing

runtime::Task<Status> FrameStore::flushed(Written& written) {
  const Status there = co_await this->written(written);
  if (there != Status::Ok) co_return there;
  const Status status = co_await flushedUpTo(written.stamp);
  if (status != Status::Ok) co_return status;
  written.flushed_bytes = written.certified_bytes;
  const Frame& frame = frames_[written.frame];
  if (frame.generation == written.generation && frame.flushed_epoch == written.replica_epoch) {
    written.flushed_bytes = std::max(written.flushed_bytes, frame.flushed_bytes);
    written.length_bytes = std::max(written.length_bytes, written.flushed_bytes);
  }
  co_return status;
}

uint32_t FrameStore::certifiedBytes(const Frame& frame) {
  const bool is_certified = frame.certified && frame.certificate.replica_epoch == frame.replica_epoch;
  return is_certified ? frame.certificate.length_bytes : 0;
}

void FrameStore::noteUnflushed(uint32_t index) {
  if (std::exchange(frames_[index].in_next_flush, true)) return;
  unflushed_.push_back(index);
}

// When the flush that is under way has succeeded. A frame that is used again since has nothing of it.
void FrameStore::noteFlushed() {
  for (const Covered& covered : covered_) {
    Frame& frame = frames_[covered.frame];
    if (frame.generation != covered.generation || frame.replica_epoch != covered.replica_epoch) continue;
    if (frame.has_failed) continue;
    frame.flushed_bytes = covered.bytes;
    frame.flushed_epoch = covered.replica_epoch;
  }
}

runtime::Task<Status> FrameStore::flushedUpTo(uint64_t stamp) {
  ++waiting_;
  Status status = Status::Ok;
  while (flushed_stamp_ < stamp) {
    if (isCondemned()) {
      status = Status::IoError;
      break;
    }
    wanted_stamp_ = std::max(wanted_stamp_, stamp);
    if (!flushing_) startFlush();
    [[maybe_unused]] const Status over = co_await flush_over_.wait();
  }
  --waiting_;
  co_return status;
}

void FrameStore::startFlush() {
  flushing_ = true;
  flushing_stamp_ = write_stamp_;
  covered_.clear();
  for (const uint32_t index : unflushed_) {
    Frame& frame = frames_[index];
    frame.in_next_flush = false;
    covered_.push_back({index, frame.generation, frame.replica_epoch, certifiedBytes(frame)});
  }
  unflushed_.clear();
  flush_waits_ = done_stamp_ < flushing_stamp_;
  if (!flush_waits_) file_->flush(flush_job_);
}

void FrameStore::onFlushed() {
  flushing_ = false;
  add(stats_.flushes, 1);
  if (flush_job_.status == Status::Ok) {
    flushed_stamp_ = flushing_stamp_;
    noteFlushed();
    std::erase_if(open_clears_, [this](const OpenClear& one) { return one.stamp <= flushed_stamp_; });
    freeReplaced();
    scrubClosed();
    putScrubbedFree();
    if (wanted_stamp_ > flushed_stamp_ && !flushing_) startFlush();
  } else {
    stats_.condemned = !RC_MUTATION("believe-the-next-flush");
    putScrubbedFree();
  }
  flush_over_.notifyAll();
}

}  // namespace ramcore::backup
