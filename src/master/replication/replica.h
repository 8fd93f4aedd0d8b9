#pragma once

#include "master/replication/members.h"
#include "rpc/caller.h"
#include "runtime/timer.h"

namespace ramcore::master {

class ReplicaSender;

/// One replica, and the calls to its backup that are in flight: one write, and at most two flush calls.
///
/// Bytes that are committed while the write is in flight go with the next write or flush call. A flush that a request
/// waits for is a call of its own, which is answered when the bytes are on the disk, so that the answers to writes do
/// not wait for the disk. There may be two such calls: one whose flush is under way, and one that waits for the next
/// flush, so that the disk does not wait for this server. They carry the bytes that are to be flushed, unless a request
/// waits for these bytes to be durable but not flushed, or they are too many for one call. Then writes carry the bytes,
/// and a flush call is sent right behind them. See ReplicaSender::sendWhatIsDue.
/// Thread: the dispatch's.
struct Replica : rpc::OutgoingCall {
  /// @param owner  sends the calls, and deals with their answers; borrowed
  Replica(ReplicaSender& owner, const Member& member, uint64_t replica_epoch);

  struct Retry : runtime::Timer {
    explicit Retry(Replica& replica);
    Replica& owner;
  };
  struct Flush : rpc::OutgoingCall {
    explicit Flush(Replica& replica);
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

  ReplicaSender& sender;
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
  bool is_blocked = false;  // the segment is closed, and the bytes to be sent next are damaged in memory

  bool busy = false;      // a write is in flight
  bool given_up = false;  // the outcome of its calls is ignored
  // The write in flight: whether it has a certificate, closes the replica, is flushed, begins beyond stored_bytes;
  // where it ends, and its epoch.
  bool is_last_certified = false;
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
