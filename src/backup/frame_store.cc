#include "backup/frame_store.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/mutation.h"

namespace ramcore::backup {
namespace {

using Write = wire::WriteReplica;

uint32_t shareOf(uint32_t frame_count, uint32_t permille) {
  return std::max<uint32_t>(1, static_cast<uint32_t>(uint64_t{frame_count} * permille / 1000));
}

// Of the one thread that writes the counter.
void add(std::atomic<uint64_t>& counter, int64_t by) {
  counter.store(counter.load(std::memory_order_relaxed) + static_cast<uint64_t>(by), std::memory_order_relaxed);
}

// Certificates as the request has to carry them; Ok and nothing in `out` for a write without one.
Status takeCertificate(const ReplicaWrite& write, ClusterId cluster, std::optional<log::Certificate>& out) {
  const ByteSpan bytes = bytesOf(write.certificate);
  if ((write.flags & Write::kCertified) == 0) {
    const bool zero = std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
    return zero ? Status::Ok : Status::BadRequest;
  }
  log::Certificate certificate;
  if (log::decodeCertificate(bytes, certificate) != Status::Ok || certificate.cluster != cluster ||
      certificate.master != write.master || certificate.segment != write.segment ||
      certificate.replica_epoch != write.replica_epoch || certificate.length_bytes == 0) {
    return Status::BadRequest;
  }
  out = certificate;
  return Status::Ok;
}

}  // namespace

// ---- opening

FrameStore::FrameStore(std::unique_ptr<FrameFile> file, runtime::Executor& executor)
    : file_(std::move(file)),
      executor_(executor),
      frames_(file_->frameCount()),
      head_frames_(shareOf(file_->frameCount(), kHeadSharePermille)),
      survivor_frames_(shareOf(file_->frameCount(), kSurvivorSharePermille)),
      flush_job_(*this),
      flush_over_(executor) {
  if (file_->superblock()) cluster_ = file_->superblock()->cluster;
  stats_.frames_total = file_->frameCount();
  stats_.frames_kept = head_frames_ + survivor_frames_;
}

FrameStore::~FrameStore() { RC_CHECK_MSG(idle(), "the frames were closed while they were flushed or read"); }

Outcome<std::unique_ptr<FrameStore>> FrameStore::open(runtime::Storage& storage, const FrameFileOptions& options,
                                                      runtime::Executor& executor) {
  auto file = FrameFile::open(storage, options);
  if (!file.ok()) return std::move(file).error();
  std::unique_ptr<FrameStore> store(new FrameStore(std::move(file).value(), executor));
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

runtime::Task<Status> FrameStore::begin(ServerId server, ClusterId cluster) {
  RC_CHECK(!begun_);
  if (cluster_ && cluster_ != cluster) co_return Status::WrongCluster;
  // From the new superblock on nobody can tell any more that power was lost before.
  if (file_->mayHaveLost()) {
    Status marked = writeMarks();
    if (marked == Status::Ok) marked = co_await flushedUpTo(++write_stamp_);
    if (marked != Status::Ok) co_return marked;
  }
  // A first copy has to be whole before there is a second one, see FrameFile::open.
  for (bool again = true; again;) {
    const Status written = file_->writeSuperblock(server, cluster, false);
    if (written != Status::Ok) co_return written;
    again = !file_->hasBothSuperblocks();
    const Status flushed = co_await flushedUpTo(++write_stamp_);
    if (flushed != Status::Ok) co_return flushed;
  }
  cluster_ = cluster;
  begun_ = true;
  co_return Status::Ok;
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
  const Status written = file_->writeSuperblock(file_->superblock()->server, cluster_, true);
  if (written != Status::Ok) co_return written;
  co_return co_await flushedUpTo(++write_stamp_);
}

// ---- writing

uint32_t FrameStore::find(ServerId master, SegmentId segment) const {
  const auto segments = index_.find(master);
  if (segments == index_.end()) return kNoFrame;
  const auto found = segments->second.find(segment);
  return found == segments->second.end() ? kNoFrame : found->second;
}

FrameStore::Written FrameStore::write(const ReplicaWrite& write) {
  RC_CHECK(begun_);
  Written result;
  const auto refuse = [&result](Status status) {
    result.status = status;
    return result;
  };
  if (isCondemned()) return refuse(Status::IoError);
  if (closed_) return refuse(Status::RetryLater);
  std::optional<log::Certificate> certificate;
  const Status taken = takeCertificate(write, cluster_, certificate);
  if (taken != Status::Ok) return refuse(taken);
  if (!write.master || !write.segment || (write.flags & ~Write::kFlagsAll) != 0 ||
      ((write.flags & Write::kOpen) != 0 && write.offset_bytes != 0) ||
      (write.flags & (Write::kHead | Write::kReserve)) == Write::kReserve) {
    return refuse(Status::BadRequest);
  }
  const Result<uint32_t> chosen = frameFor(write, certificate ? &*certificate : nullptr);
  if (!chosen.ok()) return refuse(chosen.error());
  Frame& frame = frames_[*chosen];
  Status status = writeData(*chosen, write);
  if (status == Status::Ok && certificate && (!frame.certified || certificate->isNewerThan(frame.certificate))) {
    status = writeCertificate(*chosen, *certificate, write.certificate);
  }
  if (RC_MUTATION("reuse-before-flush")) freeReplaced();
  return {.status = status,
          .length_bytes = frame.length_bytes,
          .flushed_bytes = frame.flushed_bytes,
          .replica_epoch = frame.replica_epoch,
          .certified_bytes = certifiedBytes(frame),
          .frame = *chosen,
          .generation = frame.generation,
          .stamp = frame.stamp};
}

// Which frame a write goes to; takes one if it needs to. Nothing has changed if it is refused.
Result<uint32_t> FrameStore::frameFor(const ReplicaWrite& write, const log::Certificate* certificate) {
  const bool opens = (write.flags & Write::kOpen) != 0;
  const uint32_t present = find(write.master, write.segment);
  const bool own = present != kNoFrame && frames_[present].state == FrameState::Own;
  if (!own && !opens) return Status::NotFound;
  if (present != kNoFrame && write.replica_epoch < frames_[present].replica_epoch) return Status::StaleEpoch;
  if (own && write.replica_epoch == frames_[present].replica_epoch) {
    const Status checked = checkBounds(write, certificate, &frames_[present]);
    if (checked != Status::Ok) return checked;
    return present;
  }
  if (own && !opens) {
    // The replica that is here is one of the newer epoch from now on: under a certificate for all its bytes, and
    // those that come with it.
    Frame& frame = frames_[present];
    const Status checked = checkBounds(write, certificate, &frame);
    if (checked != Status::Ok) return checked;
    const bool all = certificate != nullptr && certificate->length_bytes >= frame.length_bytes;
    if (!all || (frame.certified && frame.certificate.closed && !certificate->closed)) return Status::BadRequest;
    frame.replica_epoch = write.replica_epoch;
    return present;
  }
  const Status checked = checkBounds(write, certificate, nullptr);
  if (checked != Status::Ok) return checked;
  if (own && !frames_[present].certified) {
    reset(present, write);
    return present;
  }
  const uint32_t frame = take(write.flags);
  if (frame == kNoFrame) {
    add(stats_.refused_full, 1);
    return Status::NoSpace;
  }
  frames_[frame].state = FrameState::Own;
  frames_[frame].older = present;
  reset(frame, write);
  index_[write.master][write.segment] = frame;
  if (present != kNoFrame) replacing_.push_back(frame);
  return frame;
}

// Whether a write fits behind what is in the frame, and its certificate to both. `present` is nullptr for a new one.
Status FrameStore::checkBounds(const ReplicaWrite& write, const log::Certificate* certificate,
                               const Frame* present) const {
  const uint32_t before = present != nullptr ? present->length_bytes : 0;
  const uint64_t end = uint64_t{write.offset_bytes} + write.data_bytes;
  if (write.offset_bytes > before || end > file_->frameBytes()) return Status::BadRequest;
  const uint64_t after = std::max<uint64_t>(before, end);
  const bool is_closed = present != nullptr && present->certified && present->certificate.closed;
  if (is_closed && after > before) return Status::BadRequest;
  if (certificate == nullptr) return Status::Ok;
  if (certificate->length_bytes > after || (write.data_bytes > 0 && certificate->length_bytes != end) ||
      (certificate->closed && certificate->length_bytes != after)) {
    return Status::BadRequest;
  }
  return Status::Ok;
}

Status FrameStore::writeData(uint32_t index, const ReplicaWrite& write) {
  Frame& frame = frames_[index];
  if (write.data_bytes == 0 || write.offset_bytes + write.data_bytes <= frame.length_bytes) return Status::Ok;
  // What is below the length is there already, and is not written again: a reader may be at it.
  uint32_t skip = frame.length_bytes - write.offset_bytes;
  Status status = Status::Ok;
  uint32_t at = frame.length_bytes;
  const auto put = [&](std::span<const ByteSpan> pieces, uint32_t bytes) {
    if (status == Status::Ok && bytes > 0) status = file_->writeData(index, at, pieces);
    at += bytes;
  };
  const auto first_bytes = static_cast<uint32_t>(write.first_data.size());
  if (skip < first_bytes) {
    const ByteSpan rest = write.first_data.subspan(skip);
    put(std::span(&rest, 1), static_cast<uint32_t>(rest.size()));
    skip = 0;
  } else {
    skip -= first_bytes;
  }
  if (skip == 0) {
    put(write.more_data, write.offset_bytes + write.data_bytes - at);
  } else {
    for (const ByteSpan& piece : write.more_data) {
      const auto skipped = static_cast<uint32_t>(std::min<size_t>(skip, piece.size()));
      skip -= skipped;
      const ByteSpan rest = piece.subspan(skipped);
      put(std::span(&rest, 1), static_cast<uint32_t>(rest.size()));
    }
  }
  if (status != Status::Ok) return status;
  RC_CHECK_MSG(at == write.offset_bytes + write.data_bytes, "the pieces of a write are as long as it says");
  add(stats_.bytes_written, at - frame.length_bytes);
  frame.length_bytes = at;
  frame.stamp = ++write_stamp_;
  return Status::Ok;
}

Status FrameStore::writeCertificate(uint32_t index, const log::Certificate& certificate,
                                    const log::CertificateBytes& bytes) {
  Frame& frame = frames_[index];
  const uint32_t slot = frame.certified ? slotToWrite(frame) : 0;
  frame.slot_stamps[slot] = 0;
  const Status status =
      frame.certified ? file_->writeCertificate(index, slot, bytes) : file_->writeFirstCertificate(index, bytes);
  if (status != Status::Ok) return status;
  frame.stamp = ++write_stamp_;
  frame.slot_stamps[slot] = frame.stamp;
  const auto bit = static_cast<uint8_t>(1U << slot);
  frame.open_slots = static_cast<uint8_t>(certificate.closed ? frame.open_slots & ~bit : frame.open_slots | bit);
  if (certificate.closed && frame.open_slots != 0) closing_.push_back(index);
  frame.certificate = certificate;
  frame.certified = true;
  noteUnflushed(index);
  return Status::Ok;
}

// Not the newest flushed one and not the newest that is being flushed; of the others the oldest.
uint32_t FrameStore::slotToWrite(const Frame& frame) const {
  if (RC_MUTATION("one-certificate-slot")) return 0;
  uint32_t flushed = kNoFrame;
  uint32_t flushing = kNoFrame;
  const auto newer = [&frame](uint32_t slot, uint32_t than) {
    return than == kNoFrame || frame.slot_stamps[slot] > frame.slot_stamps[than];
  };
  for (uint32_t slot = 0; slot < FrameFile::kSlotCount; ++slot) {
    const uint64_t stamp = frame.slot_stamps[slot];
    if (stamp == 0) continue;
    if (stamp <= flushed_stamp_) {
      if (newer(slot, flushed)) flushed = slot;
    } else if (flushing_ && stamp <= flushing_stamp_ && newer(slot, flushing)) {
      flushing = slot;
    }
  }
  uint32_t chosen = kNoFrame;
  for (uint32_t slot = 0; slot < FrameFile::kSlotCount; ++slot) {
    if (slot == flushed || slot == flushing) continue;
    if (chosen == kNoFrame || frame.slot_stamps[slot] < frame.slot_stamps[chosen]) chosen = slot;
  }
  return chosen;
}

bool FrameStore::hasFlushedCertificate(const Frame& frame) const {
  return std::any_of(frame.slot_stamps.begin(), frame.slot_stamps.end(),
                     [this](uint64_t stamp) { return stamp != 0 && stamp <= flushed_stamp_; });
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
  const log::Certificate certificate = frames_[index].certificate;
  const bool former = frames_[index].state == FrameState::Former;
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
  const Status status = co_await flushedUpTo(written.stamp);
  if (status != Status::Ok) co_return status;
  written.flushed_bytes = written.certified_bytes;
  const Frame& frame = frames_[written.frame];
  if (frame.generation == written.generation && frame.flushed_epoch == written.replica_epoch) {
    written.flushed_bytes = std::max(written.flushed_bytes, frame.flushed_bytes);
    written.length_bytes = std::max(written.length_bytes, frame.length_bytes);
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
  file_->flush(flush_job_);
}

void FrameStore::onFlushed() {
  flushing_ = false;
  add(stats_.flushes, 1);
  if (flush_job_.status == Status::Ok) {
    flushed_stamp_ = flushing_stamp_;
    noteFlushed();
    freeReplaced();
    scrubClosed();
    putScrubbedFree();
    if (wanted_stamp_ > flushed_stamp_ && !flushing_) startFlush();
  } else {
    stats_.condemned = true;
    putScrubbedFree();
  }
  flush_over_.notifyAll();
}

}  // namespace ramcore::backup
