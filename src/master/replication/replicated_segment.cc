#include "master/replication/replicated_segment.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutation.h"
#include "log/format/entry_view.h"
#include "wire/replica_messages.h"

namespace ramcore::master {
namespace {

// A write is at most this long (or one entry): what waits behind it on the session waits for some 100 us.
constexpr uint32_t kWriteBytesMax = 256 * 1024;
constexpr int64_t kWriteNs = 300 * runtime::kNanosPerMilli;
constexpr int64_t kFlushNs = 2 * runtime::kNanosPerSecond;
// A backup that lives gets this long to answer before another one takes its place.
constexpr int64_t kPatienceNs = 300 * runtime::kNanosPerMilli;
constexpr int64_t kRetryNs = 10 * runtime::kNanosPerMilli;
// Damaged memory is looked at again after this.
constexpr int64_t kUnsoundNs = 200 * runtime::kNanosPerMilli;

// No repetition changes these.
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

// What begins behind what is acknowledged is refused if something before it was lost.
Status withoutGap(Status status, bool is_ahead) {
  return status == Status::BadRequest && is_ahead ? Status::RetryLater : status;
}

}  // namespace

Replica::Replica(ReplicatedSegment& of, const Member& member, uint64_t replica_epoch)
    : OutgoingCall(&ReplicatedSegment::written),
      segment(of),
      backup(member.id),
      address(member.address),
      epoch(replica_epoch),
      flushes{Flush(*this), Flush(*this)},
      retry(*this) {}

void Replica::giveUp(rpc::Caller& caller) {
  retry.cancel();
  given_up = true;
  if (busy) caller.connection(address).cancel(*this, Status::Cancelled);
  for (Flush& flush : flushes) {
    if (flush.busy) caller.connection(address).cancel(flush, Status::Cancelled);
  }
}

uint32_t Replica::askedBytes() const {
  uint32_t asked = flushed_bytes;
  for (const Flush& flush : flushes) {
    if (flush.busy && flush.epoch == certified_epoch) asked = std::max(asked, flush.to);
  }
  return asked;
}

ReplicatedSegment::ReplicatedSegment(ReplicaOwner& owner, ClusterId cluster, ServerId self, const log::Segment& segment)
    : owner_(owner),
      self_(self),
      cluster_(cluster),
      segment_(&segment),
      id_(segment.id()),
      is_head_(segment.isHeadKind()),
      is_of_reserve_(segment.kind() == log::SegmentKind::SmallHead),
      copies_awaited_(segment.copiesAwaited()),
      cutter_(std::in_place, cluster, self, segment) {}

ReplicatedSegment::~ReplicatedSegment() {
  RC_CHECK(std::none_of(replicas_.begin(), replicas_.end(), [](const auto& replica) { return replica->isBusy(); }));
}

bool ReplicatedSegment::isOn(ServerId backup) const {
  return std::any_of(replicas_.begin(), replicas_.end(),
                     [&](const auto& replica) { return replica->backup == backup; });
}

uint32_t ReplicatedSegment::openedCount() const {
  return static_cast<uint32_t>(
      std::count_if(replicas_.begin(), replicas_.end(), [](const auto& replica) { return replica->opened; }));
}

bool ReplicatedSegment::isStuck() const {
  const bool is_awaited = !opened_reported_ || close_wanted_;
  return isOpenHead() && is_awaited && refused_ && replicas_.size() < owner_.leastCount();
}

bool ReplicatedSegment::canBeWithdrawn() const {
  return withdraw_wanted_ && is_head_ && !has_certified_ && openedCount() < owner_.leastCount();
}

// A head without certificates does not exist for a recovery. It gets the first ones when it is certain that it will be
// opened, so that one that finds no places can still be given up.
bool ReplicatedSegment::mayCertify() const {
  return !is_head_ || has_certified_ || openedCount() >= owner_.leastCount();
}

uint8_t ReplicatedSegment::frameFlags() const {
  using Write = wire::WriteReplica;
  if (is_of_reserve_) return Write::kHead | Write::kReserve;
  if (!closed_reported_ && !is_head_) return 0;
  if (!has_certified_) return Write::kHead;
  const auto held = std::count_if(replicas_.begin(), replicas_.end(), [this](const auto& replica) {
    return closed_reported_ ? replica->closed : replica->opened;
  });
  return static_cast<uint32_t>(held) < owner_.leastCount() ? 0 : Write::kHead;
}

uint32_t ReplicatedSegment::completeCount() const {
  return static_cast<uint32_t>(std::count_if(replicas_.begin(), replicas_.end(), [this](const auto& replica) {
    // One that waits for its turn may still name servers that are gone.
    if (!owner_.isMember(replica->backup)) return false;
    if (closed_reported_ || !is_head_) return replica->closed;
    return replica->certified_epoch == epoch_ && replica->certified_bytes >= durable_reported_;
  }));
}

bool ReplicatedSegment::isBlocked() const {
  const auto any = [this](bool Replica::* is) {
    return std::any_of(replicas_.begin(), replicas_.end(), [is](const auto& replica) { return (*replica).*is; });
  };
  return closed_reported_ && any(&Replica::is_blocked) && !any(&Replica::busy);
}

bool ReplicatedSegment::isOutOfPlaces() const {
  return closed_reported_ && replicas_.size() < owner_.targetCount() &&
         std::all_of(replicas_.begin(), replicas_.end(), [](const auto& replica) { return replica->closed; });
}

void ReplicatedSegment::stop() {
  for (const auto& replica : replicas_) replica->giveUp(owner_.caller());
}

bool ReplicatedSegment::step() {
  dropGone();
  place();
  const uint32_t committed = segment_->committedBytes();
  bool has_work = !closed_reported_ || replicas_.size() < owner_.targetCount();
  for (const auto& replica : replicas_) {
    has_work = has_work || needs(*replica, committed);
    if (!replica->retry.isArmed()) sendWhatIsDue(*replica, committed);
  }
  report();
  return has_work;
}

void ReplicatedSegment::dropGone() {
  for (size_t i = replicas_.size(); i-- > 0;) {
    if (!owner_.isMember(replicas_[i]->backup)) lose(i, Status::Unreachable);
  }
}

// For a head that may still be open somewhere, what stays is certified anew: the lost replica, or a write that is still
// on its way to it, must never pass for the end of the log.
ServerId ReplicatedSegment::remove(size_t index) {
  const std::unique_ptr<Replica> lost = std::move(replicas_[index]);
  replicas_.erase(replicas_.begin() + static_cast<ptrdiff_t>(index));
  lost->giveUp(owner_.caller());
  ++epoch_;
  return lost->backup;
}

void ReplicatedSegment::lose(size_t index, Status why) {
  refused_ = refused_ || why == Status::NoSpace;
  const uint8_t frame_flags = replicas_[index]->frame_flags;
  owner_.noteLost(remove(index), why, frame_flags);
}

bool ReplicatedSegment::loseOn(ServerId backup, uint64_t replica_epoch) {
  const auto found =
      std::find_if(replicas_.begin(), replicas_.end(), [&](const auto& replica) { return replica->backup == backup; });
  // One that takes the place of another one on the same server has a later epoch; none has one that we have not given.
  if (found == replicas_.end() || (*found)->epoch > replica_epoch || replica_epoch > epoch_) return false;
  rotten_on_ = backup;
  owner_.noteRotten(remove(static_cast<size_t>(found - replicas_.begin())));
  return true;
}

// The bytes of a replica that is being made would be partly of the one memory and partly of the other. What its server
// has of it is of an older epoch than the one that takes its place there; if the last write of it arrives nevertheless,
// it is complete, and good.
void ReplicatedSegment::moved(const log::Segment& segment) {
  RC_CHECK(closed_reported_ && segment.id() == id_);
  segment_ = &segment;
  cutter_.emplace(cluster_, self_, segment);
  for (std::unique_ptr<Replica>& replica : replicas_) {
    if (replica->closed) continue;
    replica->giveUp(owner_.caller());
    ++epoch_;
    Member again;
    again.id = replica->backup;
    again.address = replica->address;
    replica = std::make_unique<Replica>(*this, again, epoch_);
  }
}

void ReplicatedSegment::place() {
  while (replicas_.size() < owner_.targetCount()) {
    const Member* const member = owner_.choose(*this);
    if (member == nullptr) return;
    replicas_.push_back(std::make_unique<Replica>(*this, *member, epoch_));
    if (std::find(ever_held_by_.begin(), ever_held_by_.end(), member->id) == ever_held_by_.end()) {
      ever_held_by_.push_back(member->id);
    }
  }
}

bool ReplicatedSegment::needs(const Replica& replica, uint32_t committed) const {
  if (!replica.opened || replica.stored_bytes < committed) return true;
  if (close_wanted_ && !replica.closed) return true;
  return isOpenHead() && (replica.certified_epoch < epoch_ || replica.certified_bytes < committed);
}

// Where a write that begins at `from` ends: with an entry.
uint32_t ReplicatedSegment::chunkEnd(uint32_t from, uint32_t committed) const {
  if (committed - from <= kWriteBytesMax) return committed;
  std::array<ByteSpan, log::Segment::kExtentsMax> pieces;
  const size_t count = segment_->spans(from, committed, pieces);
  uint32_t end = from;
  for (size_t i = 0; i < count; ++i) {
    for (const std::byte* at = pieces[i].data(); at < pieces[i].data() + pieces[i].size();) {
      const uint32_t bytes = log::EntryView(at).alignedBytes();
      if (end > from && end - from + bytes > kWriteBytesMax) return end;
      end += bytes;
      at += bytes;
    }
  }
  return end;
}

// It has all that its segment had when the present epoch began, under a certificate, and grows.
bool ReplicatedSegment::isInStep(const Replica& replica) const {
  return isOpenHead() && !close_wanted_ && replica.certified_epoch == epoch_;
}

// Somebody waits for a flush of something, and one could begin: there is a certificate of the present epoch.
bool ReplicatedSegment::canFlush(const Replica& replica) const {
  if (!isOpenHead() || replica.certified_epoch != epoch_ || replica.closed) return false;
  return replica.flushed_bytes < flush_wanted_;
}

// Nobody waits for what is to be sent, apart from those who wait until it is flushed.
bool ReplicatedSegment::isPatient(const Replica& replica, uint32_t committed) const {
  if (!isInStep(replica)) return false;
  return durable_wanted_ <= replica.certified_bytes && committed - replica.next_bytes <= kWriteBytesMax;
}

// What is on its way with a flush is asked after only if somebody waits for it who does not wait for the disk.
bool ReplicatedSegment::needsWrite(const Replica& replica, uint32_t committed) const {
  if (!needs(replica, committed)) return false;
  if (!mayCertify() && replica.opened && replica.stored_bytes >= committed) return false;
  return !isInStep(replica) || committed > replica.next_bytes || durable_wanted_ > replica.certified_bytes;
}

void ReplicatedSegment::sendWhatIsDue(Replica& replica, uint32_t committed) {
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
  // Right behind a write it covers that as well. Not until all that is wanted is there: there may always be more on its
  // way.
  const uint32_t on_its_way = isInStep(replica) ? replica.next_bytes : replica.certified_bytes;
  if (can_flush && on_its_way > replica.askedBytes()) sendFlush(replica, on_its_way);
}

/// Whether the next write to the replica would carry what was written. Of a segment that is closed everywhere somebody
/// has the right bytes, and they are waited for. Before that there may be nobody: then the server stops, and what it
/// has acknowledged is recovered from what was sent before. Before anything else of the next write, because the lengths
/// in the entries are believed from here on.
bool ReplicatedSegment::isSoundToSend(Replica& replica, uint32_t committed) {
  const bool is_sound = isSoundChunk(beginOfNext(replica), verifiedFor(replica), committed);
  replica.is_blocked = !is_sound && closed_reported_;
  if (replica.is_blocked) owner_.dispatch().arm(replica.retry, owner_.dispatch().clock().nowNs() + kUnsoundNs);
  return is_sound;
}

/// Up to where nothing is verified again: once is enough for the copies that are made at the same time. What was closed
/// long ago, and what is sent to one that takes the place of another one, has been in memory for a while.
uint32_t ReplicatedSegment::verifiedFor(const Replica& replica) const {
  const bool is_late = closed_reported_ || (epoch_ > 1 && replica.certified_epoch == 0);
  return is_late ? 0 : verified_bytes_;
}

/// @param verified  up to here nothing is looked at
bool ReplicatedSegment::isSoundChunk(uint32_t from, uint32_t verified, uint32_t committed) {
  for (uint32_t at = std::max(from, verified); at < committed && at - from <= kWriteBytesMax;) {
    log::EntryView entry;
    if (log::decodeEntry(segment_->restOfExtent(at), entry) == log::DecodeError::None) {
      at += entry.alignedBytes();
      verified_bytes_ = std::max(verified_bytes_, at);
      continue;
    }
    if (closed_reported_) {
      owner_.noteUnsound(*segment_, at);
      return false;
    }
    if (RC_MUTATION("copy-what-is-damaged")) return true;
    if (is_spoilt_ = !owner_.noteSpoilt(*segment_, at); is_spoilt_) return false;
  }
  return true;
}

uint32_t ReplicatedSegment::beginOfNext(const Replica& replica) const {
  return isInStep(replica) ? replica.next_bytes : replica.stored_bytes;
}

// The bytes up to `to`, with a certificate if the flags say so.
transport::TxMessage ReplicatedSegment::makeWrite(const Replica& replica, uint32_t to, uint64_t epoch, uint8_t flags,
                                                  bool closes) {
  using Write = wire::WriteReplica;
  const uint32_t from = std::min(to, beginOfNext(replica));
  Write::Request ask{.header = {.opcode = wire::Opcode::WriteReplica, .target = replica.backup},
                     .master = self_,
                     .segment = id_,
                     .replica_epoch = epoch,
                     .offset_bytes = from,
                     .data_bytes = to - from,
                     .flags = flags,
                     .certificate = {}};
  if ((flags & Write::kCertified) != 0) {
    storeAs(ask.certificate.data(), log::encodeCertificate(cutter_->cut(to, epoch, closes)));
  }
  transport::TxMessage request = owner_.caller().allocate(static_cast<uint32_t>(sizeof(ask)) + ask.data_bytes);
  request.appendHead(ask);
  segment_->copyOut(from, to, request.extendHead(ask.data_bytes));
  request->contiguous_bytes = sizeof(ask);
  return request;
}

void ReplicatedSegment::send(Replica& replica, uint32_t committed) {
  using Write = wire::WriteReplica;
  const uint32_t from = beginOfNext(replica);
  const uint32_t to = chunkEnd(from, committed);
  const bool closes = close_wanted_ && to == committed;
  // What is private counts when it is closed, and not before; of a new replica only the last byte makes it one.
  const bool is_whole = to == committed || RC_MUTATION("certify-what-is-half-made");
  const bool certifies = is_whole && mayCertify() && (isOpenHead() || closes);
  const uint64_t epoch = isOpenHead() && (certifies || !replica.opened) ? epoch_ : replica.epoch;
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
  has_certified_ = has_certified_ || certifies;
  if (certifies) replica.offered_epoch = std::max(replica.offered_epoch, epoch);
  replica.is_last_closed = closes;
  replica.is_last_flushed = flushes;
  replica.is_last_ahead = from > replica.stored_bytes;
  replica.request = makeWrite(replica, to, epoch, flags, closes);
  replica.next_bytes = std::max(replica.next_bytes, to);
  replica.settings = {.deadline_ns = owner_.dispatch().clock().nowNs() + (flushes ? kFlushNs : kWriteNs),
                      .priority = closed_reported_ ? runtime::Priority::Background : runtime::Priority::Waited};
  owner_.noteWrite(to - from);
  owner_.caller().connection(replica.address).start(replica);
}

// Brings what there is up to `to` and is not on its way yet: all of it, or nothing.
void ReplicatedSegment::sendFlush(Replica& replica, uint32_t to) {
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
  flush.settings = {.deadline_ns = owner_.dispatch().clock().nowNs() + patience_ns,
                    .priority = runtime::Priority::Waited};
  replica.next_bytes = std::max(replica.next_bytes, to);
  replica.sent_bytes = std::max(replica.sent_bytes, to);
  if (brings) owner_.noteWrite(to - from);
  owner_.noteFlush();
  owner_.caller().connection(replica.address).start(flush);
}

void ReplicatedSegment::flushed(rpc::OutgoingCall& call) {
  auto& flush = static_cast<Replica::Flush&>(call);
  Replica& replica = flush.owner;
  flush.busy = false;
  if (replica.given_up) return;
  ReplicatedSegment& segment = replica.segment;
  Status status = flush.outcome();
  wire::WriteReplica::Response answer{.header = {.status = Status::Ok}, .length_bytes = 0, .flushed_bytes = 0};
  if (status == Status::Ok &&
      (!wire::decode(flush.response.head(), answer) || answer.flushed_bytes < flush.bytes ||
       answer.flushed_bytes > answer.length_bytes || answer.length_bytes > replica.sent_bytes)) {
    status = Status::Corrupt;
  }
  flush.response = {};
  // A flush that was on its way while its epoch ended says nothing about the new one, whose first write is flushed, and
  // finds out whether the backup does what it is asked.
  const bool is_late = flush.epoch != segment.epoch_ || replica.closed || segment.closed_reported_;
  if (status == Status::Ok) {
    replica.flush_failing_since_ns = 0;
    if (!is_late) segment.onFlushed(replica, answer.flushed_bytes);
  } else if (!is_late || status == Status::Fenced) {
    segment.onFailed(replica, withoutGap(status, flush.is_ahead), replica.flush_failing_since_ns);
  }
  segment.owner_.stepNow(segment.id());
}

// What is flushed is there, with its certificate, whether the answer of the write that brought it has come or not.
void ReplicatedSegment::onFlushed(Replica& replica, uint32_t flushed_bytes) {
  replica.stored_bytes = std::max(replica.stored_bytes, flushed_bytes);
  replica.next_bytes = std::max(replica.next_bytes, replica.stored_bytes);
  replica.certified_bytes = std::max(replica.certified_bytes, flushed_bytes);
  replica.flushed_bytes = std::max(replica.flushed_bytes, flushed_bytes);
  replica.flushed_epoch = replica.certified_epoch;
}

void ReplicatedSegment::written(rpc::OutgoingCall& call) {
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
  ReplicatedSegment& segment = replica.segment;
  if (status == Status::Ok) {
    segment.onWritten(replica);
  } else {
    status = withoutLostAnswer(replica, withoutGap(status, replica.is_last_ahead));
    segment.onFailed(replica, status, replica.failing_since_ns);
  }
  // A closed one gives its turn back when it is complete.
  if (segment.isClosed()) return segment.owner_.wake();
  segment.owner_.stepNow(segment.id());
}

// The write that takes a replica to a later epoch may have arrived without an answer. If more has come since than one
// write takes it is not repeated: what is sent first has no certificate, and names the former epoch. A backup that is
// past that refuses it, and the next epoch is tried.
Status ReplicatedSegment::withoutLostAnswer(Replica& replica, Status status) {
  if (status != Status::StaleEpoch || replica.last_epoch >= replica.offered_epoch) return status;
  replica.epoch = replica.last_epoch + 1;
  return Status::RetryLater;
}

void ReplicatedSegment::onWritten(Replica& replica) {
  replica.opened = true;
  replica.failing_since_ns = 0;
  replica.stored_bytes = std::max(replica.stored_bytes, replica.last_to);
  replica.next_bytes = std::max(replica.next_bytes, replica.stored_bytes);
  replica.epoch = replica.last_epoch;
  if (!replica.is_last_certified) return;
  replica.certified_bytes = std::max(replica.certified_bytes, replica.last_to);
  replica.certified_epoch = replica.last_epoch;
  if (replica.is_last_flushed) onFlushed(replica, replica.last_to);
  if (closed_reported_ && !replica.closed && replica.is_last_closed) owner_.noteRepaired();
  replica.closed = replica.closed || replica.is_last_closed;
}

void ReplicatedSegment::onFailed(Replica& replica, Status status, int64_t& failing_since_ns) {
  replica.next_bytes = replica.stored_bytes;
  if (status == Status::Fenced) owner_.noteFenced();
  const int64_t now_ns = owner_.dispatch().clock().nowNs();
  if (failing_since_ns == 0) failing_since_ns = now_ns;
  // A server that has just enlisted is a member before it takes requests under its new id.
  const bool may_be_beginning = status == Status::WrongServerId && !replica.opened;
  if ((isFinal(status) && !may_be_beginning) || now_ns - failing_since_ns >= kPatienceNs) {
    const auto found = std::find_if(replicas_.begin(), replicas_.end(),
                                    [&](const auto& candidate) { return candidate.get() == &replica; });
    lose(static_cast<size_t>(found - replicas_.begin()), status);
    return;
  }
  // The other call to the same backup may have failed first.
  if (!replica.retry.isArmed()) owner_.dispatch().arm(replica.retry, now_ns + kRetryNs);
}

void ReplicatedSegment::retry(runtime::Timer& timer) {
  ReplicatedSegment& segment = static_cast<Replica::Retry&>(timer).owner.segment;
  // Its turn may be another one's by now.
  if (segment.isClosed()) return segment.owner_.wake();
  segment.owner_.stepNow(segment.id());
}

// Copies without which it is neither open nor closed. A server that is full counts, whether it can be asked again now
// or not: what waits for it may take the place of copies that go when this one is closed.
uint32_t ReplicatedSegment::awaitedCount() const {
  const uint32_t least = owner_.leastCount();
  if (copies_awaited_ == log::CopiesAwaited::Least) return least;
  return std::max(least, owner_.possibleCount(*this));
}

void ReplicatedSegment::reportPlaces() {
  if (is_head_ || closed_reported_) return;
  const bool lacks = refused_ && openedCount() < awaitedCount();
  refused_ = lacks;
  if (std::exchange(lacks_places_, lacks) != lacks) owner_.events().segmentLacksPlaces(id_, lacks);
}

void ReplicatedSegment::report() {
  // A refusal counts for as long as no other server has taken its place.
  if (is_head_ && replicas_.size() >= owner_.leastCount()) refused_ = false;
  reportPlaces();
  if (replicas_.size() < awaitedCount()) return;
  const auto all = [this](auto&& holds) {
    return std::all_of(replicas_.begin(), replicas_.end(), [&](const auto& replica) { return holds(*replica); });
  };
  if (closed_reported_) return;
  if (!is_head_ && !opened_reported_) {
    if (!all([](const Replica& replica) { return replica.opened; })) return;
    opened_reported_ = true;
    owner_.events().segmentOpened(id_);
  }
  if (is_head_) {
    if (!all([this](const Replica& replica) { return replica.certified_epoch == epoch_; })) return;
    if (!opened_reported_) {
      // Nothing in it is acknowledged before its predecessor is closed; the floor may follow until then.
      opened_reported_ = true;
      owner_.noteOpened(*this);
      owner_.events().segmentOpened(id_);
    }
    if (floor_epoch_ < epoch_ && !RC_MUTATION("go-on-without-the-floor")) {
      if (raising_ || !owner_.mayRaiseFloor(*this)) return;
      raising_ = true;
      owner_.raiseFloor(*this, epoch_);
      return;
    }
    reportDurable();
  }
  if (close_wanted_ && all([](const Replica& replica) { return replica.closed; })) {
    closed_reported_ = true;
    owner_.events().segmentClosed(id_);
  }
}

// All replicas are certified under the present epoch, which is not below the floor.
void ReplicatedSegment::reportDurable() {
  uint32_t durable = UINT32_MAX;
  uint32_t flushed = UINT32_MAX;
  for (const auto& replica : replicas_) {
    durable = std::min(durable, replica->certified_bytes);
    flushed = std::min(flushed, replica->flushed_epoch == epoch_ ? replica->flushed_bytes : 0);
  }
  if (RC_MUTATION("acknowledge-before-replication")) durable = segment_->committedBytes();
  if (durable > durable_reported_) {
    durable_reported_ = durable;
    owner_.events().segmentDurable(id_, durable);
  }
  if (flushed > flushed_reported_) {
    flushed_reported_ = flushed;
    owner_.events().segmentFlushed(id_, flushed);
  }
}

void ReplicatedSegment::floorRaised(uint64_t replica_epoch) {
  raising_ = false;
  floor_epoch_ = std::max(floor_epoch_, replica_epoch);
}

}  // namespace ramcore::master
