#include "master/replication/replica_sender.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutation.h"
#include "wire/replica_messages.h"

namespace ramcore::master {
namespace {

constexpr int64_t kWriteNs = 300 * runtime::kNanosPerMilli;
constexpr int64_t kFlushNs = 2 * runtime::kNanosPerSecond;
// A backup that lives gets this long to answer before another one takes its place.
constexpr int64_t kPatienceNs = 300 * runtime::kNanosPerMilli;
constexpr int64_t kRetryNs = 10 * runtime::kNanosPerMilli;
// Damaged memory is looked at again after this.
constexpr int64_t kUnsoundNs = 200 * runtime::kNanosPerMilli;

// Repeating the call does not change these outcomes.
bool isFinal(Status status) {
  switch (status) {
    case Status::WrongServerId:
    case Status::Refused:
    case Status::NoSpace:
    case Status::IoError:
    case Status::Corrupt:
    case Status::BadRequest:
    case Status::StaleEpoch:
    case Status::TooLarge:
    case Status::WrongCluster:
      return true;
    default:
      return false;
  }
}

// A backup answers BadRequest to a call that begins beyond the bytes that it has. If the call was sent behind another
// one that was lost, it is repeated, from stored_bytes on.
Status withoutGap(Status status, bool is_ahead) {
  return status == Status::BadRequest && is_ahead ? Status::RetryLater : status;
}

}  // namespace

// A head without certificates does not exist for a recovery. It gets the first ones when it is certain that it will be
// opened, so that a head that finds no places can still be given up.
bool ReplicaSender::mayCertify() const {
  return !demand_.is_head || has_certified_ || replicas_.openedCount() >= parts_.placement.leastCount();
}

uint8_t ReplicaSender::frameFlags() const {
  using Write = wire::WriteReplica;
  if (demand_.is_of_reserve) return Write::kHead | Write::kReserve;
  if (!reports_.isClosed() && !demand_.is_head) return 0;
  if (!has_certified_) return Write::kHead;
  const uint32_t held = replicas_.countOf(
      [this](const Replica& replica) { return reports_.isClosed() ? replica.closed : replica.opened; });
  return held < parts_.placement.leastCount() ? 0 : Write::kHead;
}

bool ReplicaSender::needs(const Replica& replica, uint32_t committed) const {
  if (!replica.opened || replica.stored_bytes < committed) return true;
  if (demand_.close_wanted && !replica.closed) return true;
  return isOpenHead() && (replica.certified_epoch < replicas_.epoch() || replica.certified_bytes < committed);
}

// True if the replica has all that the segment had when the present epoch began, under a certificate, and the segment
// grows.
bool ReplicaSender::isInStep(const Replica& replica) const {
  return isOpenHead() && !demand_.close_wanted && replica.certified_epoch == replicas_.epoch();
}

// True if a request waits for bytes that are not flushed here yet, and a flush could begin: there is a certificate of
// the present epoch.
bool ReplicaSender::canFlush(const Replica& replica) const {
  if (!isOpenHead() || replica.certified_epoch != replicas_.epoch() || replica.closed) return false;
  return replica.flushed_bytes < demand_.flush_wanted;
}

// True if no request waits for the bytes that are to be sent, other than for their flush, and one call can carry them:
// then they may go with the flush call.
bool ReplicaSender::isPatient(const Replica& replica, uint32_t committed) const {
  if (!isInStep(replica)) return false;
  return demand_.durable_wanted <= replica.certified_bytes &&
         committed - replica.next_bytes <= SegmentSource::kWriteBytesMax;
}

// When all bytes are on their way, with flush calls, a write without bytes is sent only if a request waits for them to
// be durable: the answer to a write does not wait for the disk.
bool ReplicaSender::needsWrite(const Replica& replica, uint32_t committed) const {
  if (!needs(replica, committed)) return false;
  if (!mayCertify() && replica.opened && replica.stored_bytes >= committed) return false;
  return !isInStep(replica) || committed > replica.next_bytes || demand_.durable_wanted > replica.certified_bytes;
}

void ReplicaSender::sendWhatIsDue(Replica& replica, uint32_t committed) {
  if (is_spoilt_) return;
  const bool can_flush = canFlush(replica) && replica.idleFlush() != nullptr;
  if (can_flush && isPatient(replica, committed) && committed > replica.askedBytes()) {
    if (isSoundToSend(replica, committed)) sendFlush(replica, committed);
    return;
  }
  if (needsWrite(replica, committed) && !replica.busy) {
    if (!isSoundToSend(replica, committed)) return;
    send(replica, committed);
  }
  // A flush call right behind a write covers the bytes of that write, too. It is not put off until all bytes that are
  // wanted have arrived: under load there are always more on their way.
  const uint32_t on_its_way = isInStep(replica) ? replica.next_bytes : replica.certified_bytes;
  if (can_flush && on_its_way > replica.askedBytes()) sendFlush(replica, on_its_way);
}

/// Verifies the entries that the next call to the replica would carry; if one is damaged, nothing is sent. If all
/// replicas of the segment were closed, a backup has the right bytes, and the call waits until they are restored. If
/// not, perhaps no server has them: the server stops if the entry cannot be mended, and what it has acknowledged is
/// recovered from the bytes that were sent before. To be called before anything else is done with the bytes, because
/// the lengths in the entries are trusted from here on.
bool ReplicaSender::isSoundToSend(Replica& replica, uint32_t committed) {
  const bool is_sound = isSoundChunk(beginOfNext(replica), verifiedFor(replica), committed);
  replica.is_blocked = !is_sound && reports_.isClosed();
  if (replica.is_blocked) parts_.dispatch.arm(replica.retry, parts_.dispatch.clock().nowNs() + kUnsoundNs);
  return is_sound;
}

/// The bytes before this are not verified again. Replicas that are made at the same time share one verification. For a
/// replica of a closed segment, and for one that takes the place of a lost one, all bytes are verified, because they
/// have been in memory for a while.
uint32_t ReplicaSender::verifiedFor(const Replica& replica) const {
  const bool is_late = reports_.isClosed() || (replicas_.epoch() > 1 && replica.certified_epoch == 0);
  return is_late ? 0 : source_.verifiedBytes();
}

/// @param verified  the bytes before this are not looked at
bool ReplicaSender::isSoundChunk(uint32_t from, uint32_t verified, uint32_t committed) {
  uint32_t at = std::max(from, verified);
  while (const auto damaged = source_.findDamage(from, at, committed)) {
    at = *damaged;
    if (reports_.isClosed()) {
      parts_.events.segmentUnsound(source_.segment(), at);
      return false;
    }
    if (RC_MUTATION("copy-what-is-damaged")) return true;
    if (is_spoilt_ = !parts_.owner.noteSpoilt(source_.segment(), at); is_spoilt_) return false;
  }
  return true;
}

uint32_t ReplicaSender::beginOfNext(const Replica& replica) const {
  return isInStep(replica) ? replica.next_bytes : replica.stored_bytes;
}

// A write that carries the bytes up to `to`, and a certificate if the flags say so.
transport::TxMessage ReplicaSender::makeWrite(const Replica& replica, uint32_t to, uint64_t epoch, uint8_t flags,
                                              bool closes) {
  using Write = wire::WriteReplica;
  const uint32_t from = std::min(to, beginOfNext(replica));
  Write::Request ask{.header = {.opcode = wire::Opcode::WriteReplica, .target = replica.backup},
                     .master = parts_.self,
                     .segment = demand_.id,
                     .replica_epoch = epoch,
                     .offset_bytes = from,
                     .data_bytes = to - from,
                     .flags = flags,
                     .certificate = {}};
  if ((flags & Write::kCertified) != 0) {
    storeAs(ask.certificate.data(), log::encodeCertificate(source_.certify(to, epoch, closes)));
  }
  transport::TxMessage request = parts_.caller.allocate(static_cast<uint32_t>(sizeof(ask)) + ask.data_bytes);
  request.appendHead(ask);
  source_.segment().copyOut(from, to, request.extendHead(ask.data_bytes));
  request->contiguous_bytes = sizeof(ask);
  return request;
}

void ReplicaSender::noteWrite(uint32_t bytes) {
  parts_.stats.writes.fetch_add(1, std::memory_order_relaxed);
  parts_.stats.bytes.fetch_add(bytes, std::memory_order_relaxed);
}

void ReplicaSender::send(Replica& replica, uint32_t committed) {
  using Write = wire::WriteReplica;
  const uint32_t from = beginOfNext(replica);
  const uint32_t to = source_.chunkEnd(from, committed);
  const bool closes = demand_.close_wanted && to == committed;
  // A certificate covers all bytes that the segment has. Segments that are no heads, and new replicas of closed ones,
  // count only when they are closed, so they get none before.
  const bool is_whole = to == committed || RC_MUTATION("certify-what-is-half-made");
  const bool certifies = is_whole && mayCertify() && (isOpenHead() || closes);
  const uint64_t epoch = isOpenHead() && (certifies || !replica.opened) ? replicas_.epoch() : replica.epoch;
  const bool flushes = certifies && (closes || replica.certified_epoch != epoch);
  uint8_t flags = 0;
  if (!replica.opened) {
    replica.frame_flags = frameFlags();
    flags |= Write::kOpen | replica.frame_flags;
  }
  if (flushes) flags |= Write::kFlush;
  if (certifies) flags |= Write::kCertified;
  replica.busy = true;
  replica.sent_bytes = std::max(replica.sent_bytes, to);
  replica.last_to = to;
  replica.last_epoch = epoch;
  replica.is_last_certified = certifies;
  // Set when the write is sent, not when it is answered: a recovery may find the head from then on, so it cannot be
  // withdrawn any more.
  has_certified_ = has_certified_ || certifies;
  if (certifies) replica.offered_epoch = std::max(replica.offered_epoch, epoch);
  replica.is_last_closed = closes;
  replica.is_last_flushed = flushes;
  replica.is_last_ahead = from > replica.stored_bytes;
  replica.request = makeWrite(replica, to, epoch, flags, closes);
  replica.next_bytes = std::max(replica.next_bytes, to);
  replica.settings = {.deadline_ns = parts_.dispatch.clock().nowNs() + (flushes ? kFlushNs : kWriteNs),
                      .priority = reports_.isClosed() ? runtime::Priority::Background : runtime::Priority::Waited};
  noteWrite(to - from);
  parts_.caller.connection(replica.address).start(replica);
}

// The call carries the bytes up to `to` that are not on their way yet, if there are any.
void ReplicaSender::sendFlush(Replica& replica, uint32_t to) {
  using Write = wire::WriteReplica;
  const uint32_t from = beginOfNext(replica);
  const bool brings = to > from;
  const bool is_second = replica.flushes[0].busy || replica.flushes[1].busy;
  Replica::Flush& flush = *replica.idleFlush();
  flush.busy = true;
  flush.is_ahead = from > replica.stored_bytes;
  flush.to = to;
  flush.bytes = brings ? to : replica.certified_bytes;
  flush.epoch = replica.certified_epoch;
  const auto flags = static_cast<uint8_t>(brings ? Write::kFlush | Write::kCertified : Write::kFlush);
  flush.request = makeWrite(replica, to, flush.epoch, flags, false);
  // The second one waits for the flush of the first.
  const int64_t patience_ns = is_second ? 2 * kFlushNs : kFlushNs;
  flush.settings = {.deadline_ns = parts_.dispatch.clock().nowNs() + patience_ns,
                    .priority = runtime::Priority::Waited};
  replica.next_bytes = std::max(replica.next_bytes, to);
  replica.sent_bytes = std::max(replica.sent_bytes, to);
  if (brings) noteWrite(to - from);
  parts_.stats.flushes.fetch_add(1, std::memory_order_relaxed);
  parts_.caller.connection(replica.address).start(flush);
}

void ReplicaSender::flushed(rpc::OutgoingCall& call) {
  auto& flush = static_cast<Replica::Flush&>(call);
  Replica& replica = flush.owner;
  flush.busy = false;
  if (replica.given_up) return;
  ReplicaSender& sender = replica.sender;
  Status status = flush.outcome();
  wire::WriteReplica::Response answer{.header = {.status = Status::Ok}, .length_bytes = 0, .flushed_bytes = 0};
  if (status == Status::Ok &&
      (!wire::decode(flush.response.head(), answer) || answer.flushed_bytes < flush.bytes ||
       answer.flushed_bytes > answer.length_bytes || answer.length_bytes > replica.sent_bytes)) {
    status = Status::Corrupt;
  }
  flush.response = {};
  // The answer to a flush call of an epoch that has ended says nothing about the new one. The first write of an epoch
  // is flushed as well, and shows whether the backup does what it is asked.
  const bool is_late = flush.epoch != sender.replicas_.epoch() || replica.closed || sender.reports_.isClosed();
  if (status == Status::Ok) {
    replica.flush_failing_since_ns = 0;
    if (!is_late) sender.onFlushed(replica, answer.flushed_bytes);
  } else if (!is_late || status == Status::Fenced) {
    sender.onFailed(replica, withoutGap(status, flush.is_ahead), replica.flush_failing_since_ns);
  }
  sender.parts_.owner.stepNow(sender.demand_.id);
}

// Flushed bytes are stored and certified, whether the answer to the write that carried them has come or not.
void ReplicaSender::onFlushed(Replica& replica, uint32_t flushed_bytes) {
  replica.stored_bytes = std::max(replica.stored_bytes, flushed_bytes);
  replica.next_bytes = std::max(replica.next_bytes, replica.stored_bytes);
  replica.certified_bytes = std::max(replica.certified_bytes, flushed_bytes);
  replica.flushed_bytes = std::max(replica.flushed_bytes, flushed_bytes);
  replica.flushed_epoch = replica.certified_epoch;
}

void ReplicaSender::written(rpc::OutgoingCall& call) {
  auto& replica = static_cast<Replica&>(call);
  replica.busy = false;
  if (replica.given_up) return;
  Status status = replica.outcome();
  wire::WriteReplica::Response answer{.header = {.status = Status::Ok}, .length_bytes = 0, .flushed_bytes = 0};
  if (status == Status::Ok &&
      (!wire::decode(replica.response.head(), answer) || answer.length_bytes < replica.last_to ||
       (replica.is_last_flushed && answer.flushed_bytes < replica.last_to))) {
    status = Status::Corrupt;
  }
  replica.response = {};
  ReplicaSender& sender = replica.sender;
  if (status == Status::Ok) {
    sender.onWritten(replica);
  } else {
    status = withoutLostAnswer(replica, withoutGap(status, replica.is_last_ahead));
    sender.onFailed(replica, status, replica.failing_since_ns);
  }
  // A closed segment is stepped only while it has one of the kRepairsMax turns, which stepAll() gives out.
  if (sender.reports_.isClosed()) return sender.parts_.owner.wake();
  sender.parts_.owner.stepNow(sender.demand_.id);
}

// A write that takes the replica to a later epoch may have arrived although its answer was lost. It is not repeated if
// the segment has grown since by more than one write carries: the next write has no certificate, and names the former
// epoch. The backup, which is past that epoch, answers StaleEpoch. Then the next epoch is tried.
Status ReplicaSender::withoutLostAnswer(Replica& replica, Status status) {
  if (status != Status::StaleEpoch || replica.last_epoch >= replica.offered_epoch) return status;
  replica.epoch = replica.last_epoch + 1;
  return Status::RetryLater;
}

void ReplicaSender::onWritten(Replica& replica) {
  replica.opened = true;
  replica.failing_since_ns = 0;
  replica.stored_bytes = std::max(replica.stored_bytes, replica.last_to);
  replica.next_bytes = std::max(replica.next_bytes, replica.stored_bytes);
  replica.epoch = replica.last_epoch;
  if (!replica.is_last_certified) return;
  replica.certified_bytes = std::max(replica.certified_bytes, replica.last_to);
  replica.certified_epoch = replica.last_epoch;
  if (replica.is_last_flushed) onFlushed(replica, replica.last_to);
  if (reports_.isClosed() && !replica.closed && replica.is_last_closed) {
    parts_.stats.repairs.fetch_add(1, std::memory_order_relaxed);
  }
  replica.closed = replica.closed || replica.is_last_closed;
}

void ReplicaSender::onFailed(Replica& replica, Status status, int64_t& failing_since_ns) {
  // A backup takes nothing behind a gap, so it refuses the calls behind the failed one: all is sent again.
  replica.next_bytes = replica.stored_bytes;
  if (status == Status::Fenced) parts_.admission.fence();
  const int64_t now_ns = parts_.dispatch.clock().nowNs();
  if (failing_since_ns == 0) failing_since_ns = now_ns;
  // A server that has just enlisted is a member before it takes requests under its new id.
  const bool may_be_beginning = status == Status::WrongServerId && !replica.opened;
  if ((isFinal(status) && !may_be_beginning) || now_ns - failing_since_ns >= kPatienceNs) {
    replicas_.lose(replica, status);
    return;
  }
  // The other call to the same backup may have failed first.
  if (!replica.retry.isArmed()) parts_.dispatch.arm(replica.retry, now_ns + kRetryNs);
}

void ReplicaSender::retry(runtime::Timer& timer) {
  ReplicaSender& sender = static_cast<Replica::Retry&>(timer).owner.sender;
  // As in written(): a closed segment is stepped by stepAll() only.
  if (sender.reports_.isClosed()) return sender.parts_.owner.wake();
  sender.parts_.owner.stepNow(sender.demand_.id);
}

}  // namespace ramcore::master
