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

/// What the replicas of one segment ask of those of all. Implemented by ReplicaManager.
class ReplicaOwner {
 public:
  /// A server for one more replica of `segment`, or nullptr.
  virtual const Member* choose(const ReplicatedSegment& segment) = 0;
  /// Replicas that a segment should have now, by configuration and by the servers that live.
  virtual uint32_t targetCount() const = 0;
  /// With fewer nothing is reported.
  virtual uint32_t leastCount() const = 0;
  /// Of targetCount() without those that would be on servers that fail, other than for want of a place.
  virtual uint32_t possibleCount(const ReplicatedSegment& segment) const = 0;
  /// Every earlier head is closed, so the floor may pass it.
  virtual bool mayRaiseFloor(const ReplicatedSegment& segment) const = 0;
  /// Has the floor raised; ReplicatedSegment::floorRaised follows.
  virtual void raiseFloor(ReplicatedSegment& segment, uint64_t replica_epoch) = 0;
  /// @param frame_flags  what its frame was asked for with (see ReplicatedSegment::frameFlags)
  virtual void noteLost(ServerId backup, Status why, uint8_t frame_flags) = 0;
  /// A replica was lost on its disk; its server is as good as before.
  virtual void noteRotten(ServerId backup) = 0;
  /// The head has its places, and is reported opened now.
  virtual void noteOpened(const ReplicatedSegment& segment) = 0;
  /// A backup says that this server is declared dead.
  virtual void noteFenced() = 0;
  /// One more replica of a segment that had been closed is complete.
  virtual void noteRepaired() = 0;
  /// The segment cannot be copied again now: the entry at this offset is damaged in memory.
  virtual void noteUnsound(const log::Segment& segment, uint32_t offset_bytes) = 0;
  /// The entry at this offset is damaged before a backup that needs it has it, in a segment that is not closed.
  /// @return true: it was mended. False: it cannot be; the server has to stop, and nothing of the segment is sent any
  ///         more
  virtual bool noteSpoilt(const log::Segment& segment, uint32_t offset_bytes) = 0;
  virtual void noteWrite(uint32_t bytes) = 0;
  virtual void noteFlush() = 0;
  virtual bool isMember(ServerId backup) const = 0;
  /// Has every segment that has work step soon.
  virtual void wake() = 0;
  /// Has one segment step, unless it is freed. It may be gone afterwards.
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
  /// A small head: backups keep frames for those.
  bool isOfReserve() const { return is_of_reserve_; }
  /// Which of a backup's frames a replica that is opened now may have: kHead and kReserve of wire::WriteReplica. What a
  /// recovery needs and too few have may have one of those that others leave to survivors: until it has it, no head can
  /// follow, so nothing would ever come free. What is merely to have more copies leaves all that is kept to cleaning.
  uint8_t frameFlags() const;
  /// Replicas that have a frame.
  uint32_t openedCount() const;
  /// A head that was refused a frame for want of one, and is not open, or not closed, for want of servers.
  bool isStuck() const;
  /// The log does not want it any more: see log::Replicator::withdraw.
  void withdraw() { withdraw_wanted_ = true; }
  /// See log::Replicator::awaitLeast.
  void awaitLeast() { copies_awaited_ = log::CopiesAwaited::Least; }
  /// It may be forgotten: that was said, and no recovery can find it, because nobody has had a certificate for it.
  bool canBeWithdrawn() const;
  bool isClosed() const { return closed_reported_; }
  /// Complete replicas: that hold everything that was reported.
  uint32_t completeCount() const;
  uint32_t replicaCount() const { return static_cast<uint32_t>(replicas_.size()); }
  bool isOn(ServerId backup) const;
  /// The server whose disk has not kept a replica of it, the last one; none.
  ServerId rottenOn() const { return rotten_on_; }
  /// Everywhere it is or ever was, for when it is freed.
  const std::vector<ServerId>& everHeldBy() const { return ever_held_by_; }
  const std::vector<std::unique_ptr<struct Replica>>& replicas() const { return replicas_; }

  /// It is closed, and cannot be copied again before its memory is restored; nothing of it is on its way.
  bool isBlocked() const;
  /// It is closed, has everything on the servers that keep it, and nobody has a place for what is lacking.
  bool isOutOfPlaces() const;

  /// Something may have been acknowledged in it.
  bool isOpened() const { return opened_reported_; }

  /// It lies in other memory: see log::Replicator::moved. What is not complete is begun again.
  void moved(const log::Segment& segment);
  void close() { close_wanted_ = true; }
  /// Somebody waits until the first `bytes` are durable.
  void requestDurable(uint32_t bytes) { durable_wanted_ = std::max(durable_wanted_, bytes); }
  /// Somebody waits until the first `bytes` are flushed everywhere.
  void requestFlush(uint32_t bytes) { flush_wanted_ = std::max(flush_wanted_, bytes); }
  /// Gives up replicas on servers that are gone, finds new ones, sends what is to be sent, reports what is to be
  /// reported. False: there is nothing left to do until something happens.
  bool step();
  void floorRaised(uint64_t replica_epoch);
  /// Gives up the replica on `backup`, unless it is of a later epoch than this. False: there is none.
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
  uint64_t epoch_ = 1;        // of the set of replicas of a head; the highest that was used otherwise
  uint64_t floor_epoch_ = 1;  // the first set needs no floor: there is no older one
  bool raising_ = false;
  bool close_wanted_ = false;
  bool withdraw_wanted_ = false;
  bool refused_ = false;        // some backup had no frame for it
  bool is_spoilt_ = false;      // what is to be sent of it is not what was written, and never will be
  bool lacks_places_ = false;   // some backup that is waited for had none, and none has taken its place
  bool has_certified_ = false;  // some backup may have a certificate for it
  bool opened_reported_ = false;
  bool closed_reported_ = false;
  uint32_t verified_bytes_ = 0;  // what was as it had been written when it was first sent
  uint32_t durable_reported_ = 0;
  uint32_t flushed_reported_ = 0;
  uint32_t durable_wanted_ = 0;
  uint32_t flush_wanted_ = 0;
  std::vector<std::unique_ptr<Replica>> replicas_;
  ServerId rotten_on_;
  std::vector<ServerId> ever_held_by_;
};

/// One replica, and the write that is on its way to it. A flush that somebody waits for is a call of its own beside it,
/// so that what follows does not wait for the disk. There may be two: one whose flush is under way, and one that waits
/// for the next, so that the disk does not wait for us.
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
    bool is_ahead = false;  // it begins behind what is acknowledged
    uint32_t to = 0;        // where what it brings ends, or would end
    uint32_t bytes = 0;     // it covers at least, with their certificate
    uint64_t epoch = 0;
  };
  bool isBusy() const { return busy || flushes[0].busy || flushes[1].busy; }
  Flush* idleFlush() { return !flushes[0].busy ? &flushes[0] : !flushes[1].busy ? &flushes[1] : nullptr; }
  // Up to where it is flushed, or will be when the calls on their way are answered.
  uint32_t askedBytes() const;
  // Ends its calls. Their end interests nobody.
  void giveUp(rpc::Caller& caller);

  ReplicatedSegment& segment;
  const ServerId backup;
  const rpc::PeerAddress address;
  uint64_t epoch;                // of the replica there, as far as is known
  uint64_t offered_epoch = 0;    // the highest that a certificate was sent under
  bool opened = false;           // it has a frame there
  uint8_t frame_flags = 0;       // of the write that asked for that frame last
  uint32_t stored_bytes = 0;     // acknowledged
  uint32_t certified_bytes = 0;  // of them, under a certificate
  uint64_t certified_epoch = 0;  // 0: none
  uint32_t flushed_bytes = 0;    // of them, with the certificate that is flushed
  uint64_t flushed_epoch = 0;    // of that certificate
  uint32_t sent_bytes = 0;       // that it may have, acknowledged or not
  // Where a call begins that follows those on their way. Behind stored_bytes only while there are some and none has
  // failed; if one is lost nevertheless, the next one is refused as a gap, and all begins again at stored_bytes.
  uint32_t next_bytes = 0;
  bool closed = false;
  bool is_blocked = false;  // what is to be sent next is damaged in memory

  bool busy = false;
  bool given_up = false;           // its end interests nobody
  bool is_last_certified = false;  // of the write that is on its way
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
