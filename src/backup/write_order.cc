#include "backup/write_order.h"

#include "base/check.h"

namespace ramcore::backup {

WriteOrder::WriteOrder(FrameFile& file, FrameWriter::Owner& owner, runtime::Executor& executor, runtime::Executor& disk,
                       WriteThread thread)
    : executor_(executor), writer_(file, owner, executor, disk, thread) {}

uint64_t WriteOrder::stampDone() {
  RC_CHECK(writer_.isIdle());
  done_stamp_ = ++last_stamp_;
  return last_stamp_;
}

bool WriteOrder::clear(const FrameWrite& write) {
  if (writer_.writesNow()) {
    if (writer_.writeNow(write) != Status::Ok) return false;
    done_stamp_ = ++last_stamp_;
    return true;
  }
  const uint64_t stamp = ++last_stamp_;
  writer_.queue(write, {.first_stamp = stamp, .stamp = stamp, .certificate = {}});
  return true;
}

void WriteOrder::noteDone(uint64_t stamp) {
  done_stamp_ = stamp;
  while (first_wait_ != nullptr && first_wait_->stamp_ <= done_stamp_) {
    DoneWait& wait = *first_wait_;
    first_wait_ = wait.later_;
    if (first_wait_ == nullptr) last_wait_ = nullptr;
    executor_.post(wait, runtime::Priority::Waited);
  }
}

// Keeps the list ordered by stamps. Mostly `wait` is for the newest write, and goes to the end.
void WriteOrder::addWaiting(DoneWait& wait) {
  if (last_wait_ == nullptr || last_wait_->stamp_ <= wait.stamp_) {
    (last_wait_ == nullptr ? first_wait_ : last_wait_->later_) = &wait;
    last_wait_ = &wait;
    return;
  }
  DoneWait** place = &first_wait_;
  while ((*place)->stamp_ <= wait.stamp_) place = &(*place)->later_;
  wait.later_ = *place;
  *place = &wait;
}

}  // namespace ramcore::backup
