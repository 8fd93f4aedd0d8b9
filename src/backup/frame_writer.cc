#include "backup/frame_writer.h"

#include "base/check.h"

namespace ramcore::backup {

FrameWriter::Queued::Queued(FrameWriter& writer, const FrameWrite& write, const FrameMark& mark)
    : Job([](runtime::Job& job) {
        auto& queued = static_cast<Queued&>(job);
        queued.writer.takeOver(queued);
      }),
      writer(writer),
      write(write),
      mark(mark),
      pieces(write.pieces.begin(), write.pieces.end()) {
  this->write.pieces = pieces;
}

FrameWriter::FrameWriter(FrameFile& file, Owner& owner, runtime::Executor& executor, runtime::Executor& disk,
                         WriteThread thread)
    : file_(file), owner_(owner), executor_(executor), disk_(disk), thread_(thread), failed_(file.frameCount()) {}

FrameWriter::~FrameWriter() { RC_CHECK_MSG(isIdle(), "the frames were closed while they were written"); }

bool FrameWriter::writesNow() {
  // Queued writes go first.
  if (!isIdle() || thread_ == WriteThread::Disk) return false;
  began_ns_ = executor_.clock().nowNs();
  // Asking the system costs a tenth of what such a write does, so it is asked once for each time that the thread slept.
  if (const uint64_t sleeps = executor_.sleeps(); sleeps != sleeps_before_) noteWaits(sleeps);
  return thread_ == WriteThread::Dispatch || gauge_.isQuick(began_ns_);
}

Status FrameWriter::writeNow(const FrameWrite& write) {
  const Status status = perform(write);
  const int64_t now_ns = executor_.clock().nowNs();
  const int64_t took_ns = now_ns - began_ns_;
  const bool is_quick = took_ns <= WriteGauge::kFreeNs;
  note(now_ns, took_ns, !is_quick && file_.threadWaits() != waits_before_);
  if (!is_quick) noteWaits(executor_.sleeps());
  return status;
}

void FrameWriter::noteWaits(uint64_t sleeps) {
  sleeps_before_ = sleeps;
  waits_before_ = file_.threadWaits();
}

Status FrameWriter::perform(const FrameWrite& write) {
  switch (write.kind) {
    case FrameWrite::Kind::ClearSlot:
      return file_.clearCertificate(write.frame, write.slot);
    case FrameWrite::Kind::ClearFrame:
      return file_.clearCertificates(write.frame);
    case FrameWrite::Kind::Replica:
      break;
  }
  // The data before the certificate: a process that is killed in between leaves no certificate without its bytes.
  if (write.data_bytes != 0) {
    const Status status = file_.writeData(write.frame, write.offset_bytes, write.pieces);
    if (status != Status::Ok) return status;
  }
  if (!write.certifies) return Status::Ok;
  if (write.is_first_certificate) return file_.writeFirstCertificate(write.frame, write.certificate);
  return file_.writeCertificate(write.frame, write.slot, write.certificate);
}

void FrameWriter::queue(const FrameWrite& write, const FrameMark& mark) {
  // An allocation does not matter here: the disk is slow, or WriteThread::Disk says to treat it so.
  Queued& queued = *queued_.emplace_back(std::make_unique<Queued>(*this, write, mark));
  count(static_cast<int64_t>(kWriteBytes + write.data_bytes));
  handed_over_.store(handed_over_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  inbox_.push(queued);
  if (unwritten_.fetch_add(1, std::memory_order_acq_rel) == 0) disk_.post(step_, runtime::Priority::Waited);
}

// Runs on the disk's thread: reports the write before, and does the next one. A write is reported in the step after its
// own, because in a simulation it takes the time between the two.
void FrameWriter::step() {
  runtime::Executor& executor = executor_;  // outlives the writer
  if (Queued* const written = std::exchange(written_, nullptr)) {
    written->took_ns = disk_.clock().nowNs() - written->began_ns;
    const bool is_last = unwritten_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    executor.post(*written, runtime::Priority::Waited);
    // The owner may destroy the writer when it hears of the last write, so nothing of the writer is touched from here
    // on. The call of queue() that counts from 0 posts the step again.
    if (is_last) return;
  }
  inbox_.takeAll(list_);
  auto* const next = static_cast<Queued*>(list_.pop());
  RC_CHECK(next != nullptr);
  const FrameWrite& write = next->write;
  next->began_ns = disk_.clock().nowNs();
  const uint64_t waits_before = file_.threadWaits();
  // Behind a failed write of a replica there is a gap, so nothing more of that replica is written.
  const bool follows_failed = write.kind == FrameWrite::Kind::Replica && failed_[write.frame] == write.generation;
  next->status = follows_failed ? Status::IoError : perform(write);
  if (next->status != Status::Ok && write.kind == FrameWrite::Kind::Replica) failed_[write.frame] = write.generation;
  next->has_waited = file_.threadWaits() != waits_before;
  written_ = next;
  disk_.post(step_, runtime::Priority::Waited);
}

void FrameWriter::takeOver(Queued& queued) {
  queued.is_over = true;
  // An executor promises no order. The owner hears of the writes in the order in which they were queued.
  while (!queued_.empty() && queued_.front()->is_over) {
    const std::unique_ptr<Queued> oldest = std::move(queued_.front());
    queued_.pop_front();
    count(-static_cast<int64_t>(kWriteBytes + oldest->write.data_bytes));
    note(executor_.clock().nowNs(), oldest->took_ns, oldest->has_waited);
    owner_.onWritten(oldest->write, oldest->mark, oldest->status);
  }
}

void FrameWriter::note(int64_t now_ns, int64_t took_ns, bool has_waited) {
  if (took_ns > longest_ns_.load(std::memory_order_relaxed)) longest_ns_.store(took_ns, std::memory_order_relaxed);
  if (has_waited) gauge_.note(now_ns, took_ns);
}

void FrameWriter::count(int64_t bytes) {
  queued_bytes_ += static_cast<uint64_t>(bytes);
  shown_bytes_.store(queued_bytes_, std::memory_order_relaxed);
}

}  // namespace ramcore::backup
