#pragma once

#include <memory>
#include <vector>

#include "transport/gather/gather_policy.h"
#include "transport/transport.h"
#include "transport/verbs/head_pool.h"
#include "transport/verbs/place_pool.h"
#include "transport/verbs/queue_pair.h"
#include "transport/verbs/regions.h"
#include "wire/verbs_messages.h"

namespace ramcore::transport::verbs {

/// Work requests under construction, shared by the sessions of an endpoint.
struct SendScratch {
  static constexpr uint32_t kRequestsMax = 64;
  std::array<ibv_send_wr, kRequestsMax> requests;
  std::vector<ibv_sge> pieces;
  std::vector<TxMessage> handed_over;          ///< inline: done as soon as they are posted
  std::vector<std::shared_ptr<Place>> opened;  ///< places whose windows these requests bind
};

/// The bytes of messages that are not given to the adapter yet.
struct WaitingBytes {
  uint64_t own_bytes = 0;   ///< that are copies, or are to become copies because they were borrowed for too long
  bool is_overdue = false;  ///< there are some of the latter
  int64_t oldest_borrowed_ns = INT64_MAX;  ///< since when the oldest of the others is borrowed

  /// @param borrowed_by_ns  what was borrowed by then is overdue
  void add(const TxMessage& message, int64_t borrowed_by_ns);
};

/// The messages and transfers that one session gives to its queue pair: those that wait for room, and those whose
/// completion is waited for. A message is let go when the adapter has done with it, or when its queue pair is gone.
///
/// Completions come in the order of posting, so one that is asked for answers for all before it. It is asked for with
/// the last request of each chain that borrows bytes of others (so no owner waits for longer than a chain's 64
/// requests), and otherwise after so few requests that the queue never fills up for want of one.
///
/// Thread: the endpoint's.
class SendQueue {
 public:
  struct Parts {
    HeadPool& heads;
    RegisteredPool& blocks;
    const Regions& regions;
    SendScratch& scratch;
    SendCounts& counts;
    uint32_t copy_below_bytes;
    uint32_t entries_max;  ///< fewer, if the queue pair takes fewer
  };
  static constexpr uint16_t kNoSlot = UINT16_MAX;

  SendQueue(const Parts& parts, std::unique_ptr<QueuePair> pair, uint64_t tag);
  ~SendQueue();
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  QueuePair& pair() { return *pair_; }
  /// Destroys the queue pair: the adapter uses nothing of what it was given any more. pair() must not be called then.
  void destroyPair() { pair_.reset(); }

  /// Queues a message that fits a receive buffer of the peer.
  void send(const wire::VerbsHeader& header, TxMessage message);
  /// Queues a message that is written to `place`, and behind it the control packet that tells the peer.
  void write(const wire::VerbsHeader& header, TxMessage message, const wire::VerbsPiece& place);
  /// Opens a place to the peer by its window: messages that are queued behind this may tell the key. The place is kept
  /// until the request is posted. If the device refuses, the queue pair breaks.
  void bind(std::shared_ptr<Place> place);
  /// Reads `pieces`, one behind the other, into `into`. `slot` comes out of complete() when all is there.
  void read(uint16_t slot, Block& into, std::span<const wire::VerbsPiece> pieces);

  /// Drops what waits, and posts a last message whose completion says that nothing is left: after it isEmpty(), also if
  /// the queue pair is broken. False if that cannot be posted.
  [[nodiscard]] bool close(const wire::VerbsHeader& header);

  bool hasWaiting() const { return waiting_begin_ < waiting_.size(); }
  /// Posts what there is room for, with one doorbell for up to SendScratch::kRequestsMax requests.
  /// False: the queue pair is broken, or no memory can be registered.
  [[nodiscard]] bool post();
  /// The request that was numbered `position` is done, and all before it. Appends the slots of finished reads.
  void complete(uint32_t position, std::vector<uint16_t>& read_slots);
  /// True if all that was posted is done.
  bool isEmpty() const { return completed_ == posted_; }
  uint32_t postedPosition() const { return posted_; }

  size_t waitingCount() const { return waiting_.size() - waiting_begin_; }
  /// True if a completion that was asked for has not come yet.
  bool awaitsCompletion() const { return signalled_ != completed_; }
  /// Requests that are done; wraps.
  uint32_t completedPosition() const { return completed_; }
  /// The bytes of messages that wait here.
  WaitingBytes waitingBytes(int64_t borrowed_by_ns) const;
  /// Copies the chunks of waiting messages that were borrowed by then; returns the number of these messages.
  size_t copyOutWaiting(int64_t borrowed_by_ns);
  /// Copies all chunks of waiting messages, also those without an owner, whose bytes go when a call is abandoned.
  void copyUnowned();

 private:
  enum class Kind : uint8_t { Send, Write, Read, Bind };
  struct Waiting {
    Kind kind = Kind::Send;
    uint16_t slot = kNoSlot;
    wire::VerbsHeader header{};
    TxMessage message;
    wire::VerbsPiece place{};
    Block* into = nullptr;
    std::vector<wire::VerbsPiece> pieces;  ///< of a read
    std::shared_ptr<Place> opened;         ///< whose window is to be bound
  };
  struct Posted {
    uint32_t end = 0;  ///< position behind its last request
    uint16_t slot = kNoSlot;
    TxMessage message;
    Block* copies = nullptr;
  };
  struct Chain;

  uint32_t roomForRequests() const { return pair_->size().sends - 1 - (posted_ - completed_); }
  bool isReachable(const Chunk& chunk) const;
  bool append(Chain& chain, Waiting& waiting);
  bool appendSend(Chain& chain, Waiting& waiting);
  bool appendWrite(Chain& chain, Waiting& waiting);
  bool appendRead(Chain& chain, Waiting& waiting);
  static bool appendBind(Chain& chain, Waiting& waiting);
  bool gatherPieces(Chain& chain, TxBuffer& buffer, const GatherPlan& plan, Block*& copies);
  void keep(Chain& chain, Waiting& waiting, Block* copies);
  bool submit(Chain& chain);
  void finish(Posted& posted);
  void dropWaiting();

  const Parts parts_;
  std::unique_ptr<QueuePair> pair_;
  const uint64_t tag_;
  const GatherLimits limits_;
  std::vector<Waiting> waiting_;  // from waiting_begin_ on
  size_t waiting_begin_ = 0;
  std::vector<Posted> ring_;  // those that are posted, from first_ on
  size_t first_ = 0;
  size_t ring_count_ = 0;
  uint32_t posted_ = 0;  // positions count requests, and wrap
  uint32_t completed_ = 0;
  uint32_t signalled_ = 0;  // completions up to here are asked for
};

/// The work request id of a send: which session's, and which position.
constexpr uint64_t sendId(uint64_t tag, uint32_t position) { return tag << 32 | position; }
constexpr uint32_t positionOf(uint64_t id) { return static_cast<uint32_t>(id); }
constexpr uint64_t tagOf(uint64_t id) { return id >> 32; }

}  // namespace ramcore::transport::verbs
