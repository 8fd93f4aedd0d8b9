#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "log/memory/certificate_cutter.h"
#include "log/replicator.h"
#include "master/replication/members.h"
#include "rpc/caller.h"
#include "rpc/dispatch.h"

namespace ramcore::master {

class ReplicatedSegment;

/// What a ReplicatedSegment needs from the owner of all segments. Implemented by ReplicaManager.
class ReplicaOwner {
 public:
  /// A server for one more replica of `segment`, or nullptr.
  virtual const Member* choose(const ReplicatedSegment& segment) = 0;
  /// Replicas that a segment should have now, by configuration and by the servers that live.
  virtual uint32_t targetCount() const = 0;
  /// With fewer replicas than this nothing is reported.
  virtual uint32_t leastCount() const = 0;
  /// targetCount() without the replicas that would be on servers that fail for another reason than a lack of storage
  /// frames.
  virtual uint32_t possibleCount(const ReplicatedSegment& segment) const = 0;
  /// True if every earlier log head is closed, so that the floor may pass them.
  virtual bool mayRaiseFloor(const ReplicatedSegment& segment) const = 0;
  /// Has the floor raised; ReplicatedSegment::floorRaised follows.
  virtual void raiseFloor(ReplicatedSegment& segment, uint64_t replica_epoch) = 0;
  /// A replica on `backup` was lost.
  /// @param frame_flags  with which its storage frame was asked for (see ReplicatedSegment::frameFlags)
  virtual void noteLost(ServerId backup, Status why, uint8_t frame_flags) = 0;
  /// A replica was lost on its disk; its server is as good for replicas as before.
  virtual void noteRotten(ServerId backup) = 0;
  /// The log head has its storage frames, and is now reported as opened.
  virtual void noteOpened(const ReplicatedSegment& segment) = 0;
  /// A backup says that this server is declared dead.
  virtual void noteFenced() = 0;
  /// One more replica of a segment that had been closed is complete.
  virtual void noteRepaired() = 0;
  /// The segment cannot be replicated again now: the entry at this offset is damaged in memory.
  virtual void noteUnsound(const log::Segment& segment, uint32_t offset_bytes) = 0;
  /// The entry at this offset was damaged in memory before a backup that needs it has received it; the segment is not
  /// closed.
  /// @return True: the entry was mended. False: it cannot be; the server has to stop, and nothing of the segment is
  ///         sent any more
  virtual bool noteSpoilt(const log::Segment& segment, uint32_t offset_bytes) = 0;
  virtual void noteWrite(uint32_t bytes) = 0;
  virtual void noteFlush() = 0;
  virtual bool isMember(ServerId backup) const = 0;
  /// Has step() called soon for every segment that has work.
  virtual void wake() = 0;
  /// Calls step() for one segment, unless the segment is freed. The segment may be gone afterwards.
  virtual void stepNow(SegmentId segment) = 0;
  virtual rpc::Dispatch& dispatch() = 0;
  virtual rpc::Caller& caller() = 0;
  virtual log::ReplicationEvents& events() = 0;

 protected:
  ~ReplicaOwner() = default;
};

/// The replicas of one segment: where they are, how much each has, and what may be reported of them.
/// Thread: the dispatch's.
class ReplicatedSegment {
 public:
  ReplicatedSegment(ReplicaOwner& owner, ClusterId cluster, ServerId self, const log::Segment& segment);
  ReplicatedSegment(const ReplicatedSegment&) = delete;
  ReplicatedSegment& operator=(const ReplicatedSegment&) = delete;
  ~ReplicatedSegment();

  SegmentId id() const { return id_; }
  bool isHead() const { return is_head_; }
  /// A small head: backups keep storage frames for these.
  bool isOfReserve() const { return is_of_reserve_; }
  /// Which of a backup's storage frames a replica that is opened now may take: kHead and kReserve of
  /// wire::WriteReplica. A segment that a recovery needs, and of which fewer than leastCount() servers have a replica,
  /// may also take a storage frame that is kept for survivors: until it has one, no log head can follow, so no storage
  /// frame would ever come free. A replica beyond leastCount() leaves all kept storage frames to cleaning.
  uint8_t frameFlags() const;
  /// Replicas that have a storage frame.
  uint32_t openedCount() const;
  /// True for a log head that a backup has refused for want of a storage frame, and that cannot be opened, or cannot be
  /// closed, because too few servers have it.
  bool isStuck() const;
  /// The log does not want it any more: see log::Replicator::withdraw.
  void withdraw() { withdraw_wanted_ = true; }
  /// See log::Replicator::awaitLeast.
  void awaitLeast() { copies_awaited_ = log::CopiesAwaited::Least; }
  /// True if the segment may be forgotten: it is a log head, withdraw() was called, fewer than leastCount() replicas
  /// have a storage frame, and no certificate for it was ever sent to a backup, so that no recovery can find it.
  bool canBeWithdrawn() const;
  bool isClosed() const { return closed_reported_; }
  /// Complete replicas: those that hold everything that was reported.
  uint32_t completeCount() const;
  uint32_t replicaCount() const { return static_cast<uint32_t>(replicas_.size()); }
  bool isOn(ServerId backup) const;
  /// The last server whose disk has not kept a replica of it; none if there was no such server.
  ServerId rottenOn() const { return rotten_on_; }
  /// All servers that it is or ever was on, for when it is freed.
  const std::vector<ServerId>& everHeldBy() const { return ever_held_by_; }
  const std::vector<std::unique_ptr<struct Replica>>& replicas() const { return replicas_; }

  /// True if it is closed, cannot be replicated again before its memory is restored, and no write of it is in flight.
  bool isBlocked() const;
  /// True if it is closed, all its replicas are complete, and no server takes the replicas that are lacking.
  bool isOutOfPlaces() const;

  /// True if something may have been acknowledged in it.
  bool isOpened() const { return opened_reported_; }

  /// The segment lies in other memory: see log::Replicator::moved. Replicas that are not complete are begun again.
  void moved(const log::Segment& segment);
  void close() { close_wanted_ = true; }
  /// A request waits until the first `bytes` are durable.
  void requestDurable(uint32_t bytes) { durable_wanted_ = std::max(durable_wanted_, bytes); }
  /// A request waits until the first `bytes` are flushed everywhere.
  void requestFlush(uint32_t bytes) { flush_wanted_ = std::max(flush_wanted_, bytes); }
  /// Gives up replicas on servers that are gone, finds new ones, sends what is to be sent, reports what is to be
  /// reported. Returns false if there is nothing left to do until something happens.
  bool step();
  void floorRaised(uint64_t replica_epoch);
  /// Gives up the replica on `backup`, unless its epoch is later than `replica_epoch`. Returns false if none was given
  /// up.
  bool loseOn(ServerId backup, uint64_t replica_epoch);
  /// Ends the calls; nothing happens afterwards.
  void stop();

 private:
  friend struct Replica;

  bool isOpenHead() const { return is_head_ && !closed_reported_; }
  bool mayCertify() const;
  bool needs(const Replica& replica, uint32_t committed) const;
  bool canFlush(const Replica& replica) const;
  bool isInStep(const Replica& replica) const;
  bool needsWrite(const Replica& replica, uint32_t committed) const;
  bool isSoundToSend(Replica& replica, uint32_t committed);
  bool isSoundChunk(uint32_t from, uint32_t verified, uint32_t committed);
  uint32_t verifiedFor(const Replica& replica) const;
  bool isPatient(const Replica& replica, uint32_t committed) const;
  void place();
  void sendWhatIsDue(Replica& replica, uint32_t committed);
  void send(Replica& replica, uint32_t committed);
  void sendFlush(Replica& replica, uint32_t to);
  uint32_t beginOfNext(const Replica& replica) const;
  transport::TxMessage makeWrite(const Replica& replica, uint32_t to, uint64_t epoch, uint8_t flags, bool closes);
  uint32_t chunkEnd(uint32_t from, uint32_t committed) const;
  void report();
  void reportPlaces();
  uint32_t awaitedCount() const;
  void dropGone();
  ServerId remove(size_t index);
  void lose(size_t index, Status why);
  static void written(rpc::OutgoingCall& call);
  static void flushed(rpc::OutgoingCall& call);
  static Status withoutLostAnswer(Replica& replica, Status status);
  void onWritten(Replica& replica);
  void onFlushed(Replica& replica, uint32_t flushed_bytes);
  void onFailed(Replica& replica, Status status, int64_t& failing_since_ns);
  void reportDurable();
  static void retry(runtime::Timer& timer);

  ReplicaOwner& owner_;
  const ServerId self_;
  const ClusterId cluster_;
  const log::Segment* segment_;  // not null
  const SegmentId id_;
  const bool is_head_;
  const bool is_of_reserve_;
  log::CopiesAwaited copies_awaited_;
  std::optional<log::CertificateCutter> cutter_;  // for segment_; never empty
  uint64_t epoch_ = 1;        // a head: epoch of the set of its replicas; others: the highest epoch used
  uint64_t floor_epoch_ = 1;  // the first set needs no floor: there is no older one
  bool raising_ = false;
  bool close_wanted_ = false;
  bool withdraw_wanted_ = false;
  bool refused_ = false;        // a backup had no storage frame for it, and no other server has taken its place
  bool is_spoilt_ = false;      // what is to be sent of it is damaged in memory for good
  bool lacks_places_ = false;   // a backup that is waited for had no storage frame; no other one has taken its place
  bool has_certified_ = false;  // a backup may have a certificate for it
  bool opened_reported_ = false;
  bool closed_reported_ = false;
  uint32_t verified_bytes_ = 0;  // up to here it was verified when it was first sent
  uint32_t durable_reported_ = 0;
  uint32_t flushed_reported_ = 0;
  uint32_t durable_wanted_ = 0;
  uint32_t flush_wanted_ = 0;
  std::vector<std::unique_ptr<Replica>> replicas_;
  ServerId rotten_on_;
  std::vector<ServerId> ever_held_by_;
};

/// One replica, and the write to it that is in flight. A flush that a request waits for is a call of its own beside the
/// write, so that what follows does not wait for the disk. There may be two such calls: one whose flush is under way,
/// and one that waits for the next flush, so that the disk does not wait for us.
struct Replica : rpc::OutgoingCall {
  Replica(ReplicatedSegment& segment, const Member& member, uint64_t replica_epoch);

  struct Retry : runtime::Timer {
    explicit Retry(Replica& replica) : Timer(&ReplicatedSegment::retry), owner(replica) {}
    Replica& owner;
  };
  struct Flush : rpc::OutgoingCall {
    explicit Flush(Replica& replica) : OutgoingCall(&ReplicatedSegment::flushed), owner(replica) {}
    Replica& owner;
    bool busy = false;
    bool is_ahead = false;  // it begins beyond stored_bytes
    uint32_t to = 0;        // where the bytes that it carries end, or would end
    uint32_t bytes = 0;     // bytes that it flushes at least, with their certificate
    uint64_t epoch = 0;
  };
  bool isBusy() const { return busy || flushes[0].busy || flushes[1].busy; }
  Flush* idleFlush() { return !flushes[0].busy ? &flushes[0] : !flushes[1].busy ? &flushes[1] : nullptr; }
  // Up to where it is flushed, or will be when the calls in flight are answered.
  uint32_t askedBytes() const;
  // Ends its calls; their outcome is ignored.
  void giveUp(rpc::Caller& caller);

  ReplicatedSegment& segment;
  const ServerId backup;
  const rpc::PeerAddress address;
  uint64_t epoch;                // epoch of the replica on the backup, as far as is known
  uint64_t offered_epoch = 0;    // the highest epoch that a certificate was sent under
  bool opened = false;           // it has a storage frame there
  uint8_t frame_flags = 0;       // flags of the last write that asked for that storage frame
  uint32_t stored_bytes = 0;     // bytes that the backup has acknowledged
  uint32_t certified_bytes = 0;  // bytes of these that are under a certificate
  uint64_t certified_epoch = 0;  // epoch of that certificate; 0: none
  uint32_t flushed_bytes = 0;    // bytes of these that are flushed together with a certificate
  uint64_t flushed_epoch = 0;    // the epoch of that certificate
  uint32_t sent_bytes = 0;       // bytes that the backup may have, acknowledged or not
  // Where a call that follows those in flight begins. Beyond stored_bytes only while calls are in flight and none has
  // failed. If one of them is lost nevertheless, the backup refuses the next one as a gap, and all begins again at
  // stored_bytes.
  uint32_t next_bytes = 0;
  bool closed = false;
  bool is_blocked = false;  // what is to be sent next is damaged in memory

  bool busy = false;
  bool given_up = false;           // the outcome of its calls is ignored
  bool is_last_certified = false;  // the write in flight has a certificate
  bool is_last_closed = false;
  bool is_last_flushed = false;
  bool is_last_ahead = false;
  uint32_t last_to = 0;
  uint64_t last_epoch = 0;
  int64_t failing_since_ns = 0;
  Flush flushes[2];
  int64_t flush_failing_since_ns = 0;
  Retry retry;
};

}  // namespace ramcore::master
