#pragma once

#include <atomic>
#include <functional>
#include <unordered_map>
#include <vector>

#include "backup/frame_store.h"
#include "backup/freed_segments.h"
#include "backup/replica_cache.h"
#include "backup/replica_judge.h"
#include "backup/replica_page.h"
#include "base/trace.h"
#include "rpc/dispatch.h"
#include "wire/replica_messages.h"

namespace ramcore::backup {

/// Serves the requests of other servers and of the coordinator: takes and frees replicas, fences dead masters, shows
/// their replicas, and finds out which replicas are not needed any more.
///
/// Before FrameStore::begin() is over every request is answered with RetryLater.
/// Thread: handlers and coroutines run on the dispatch executor, which is the store's; storage frames are read on the
/// background executor or a worker. So writes of one session take effect in the order in which they were sent.
class BackupService {
 public:
  struct Parts {
    FrameStore& store;
    rpc::Dispatch& dispatch;
    runtime::Executor& background;
    ReplicaJudge& judge;
    Trace& trace;
    std::function<void()> on_fence;                  ///< may be empty; see Backup::Environment
    std::function<bool(uint64_t start)> obeys = {};  ///< likewise
  };
  explicit BackupService(const Parts& parts);
  BackupService(const BackupService&) = delete;
  BackupService& operator=(const BackupService&) = delete;
  /// stopped() is true (checked).
  ~BackupService();

  void addTo(rpc::ServiceTable& table);
  /// Begins to ask which replicas can go: at once, from time to time, and soon after a write that found no storage
  /// frame. Called once, when the store has begun.
  void start();
  /// Ends everything that runs; watch stopped().
  void stop();
  /// True when nothing of the service is queued or suspended any more. Requests in service keep it false.
  bool stopped() const { return running_.load() == 0; }

  void writeReplica(rpc::Request request);
  void freeReplica(rpc::Request request);
  runtime::Task<void> readReplica(rpc::Request request);
  runtime::Task<void> fetchReplica(rpc::Request request);
  runtime::Task<void> fenceServer(rpc::Request request);

  /// Whether the coordinator has told this backup that the master is dead. On the dispatch thread.
  bool isFenced(ServerId master) const {
    const auto found = masters_.find(master);
    return found != masters_.end() && found->second.fenced;
  }
  /// Refused writes and frees of fenced masters.
  uint64_t fencedRefusals() const { return fenced_refusals_.load(std::memory_order_relaxed); }

 private:
  /// A replica of a fenced master that was found whole.
  struct FoundReplica {
    log::Certificate certificate;
    bool may_be_short = false;
    bool has_digest = false;
    SegmentId previous_head;
    std::vector<SegmentId> members;  ///< members of the digest; only of an open replica, and of the newest head
  };
  /// What is known of one master. Kept for the life of the process: ids are not used again.
  struct Master {
    int64_t heard_ns = 0;  ///< time of its last write
    bool fenced = false;
    bool listing = false;
    bool listed = false;
    std::vector<FoundReplica> replicas;  ///< the replicas found whole; complete once `listed`
    FreedSegments freed;
  };
  template <typename Tag>
  struct IdHash {
    size_t operator()(Id<Tag, uint64_t> id) const { return id.value * 0x9e3779b97f4a7c15; }
  };

  Status admit(const rpc::Request& request, ServerId master);
  runtime::Task<void> answerLater(rpc::Request request, FrameStore::Written written, bool flushes);
  runtime::Task<void> list(ServerId id, Master& master);
  void answerFence(rpc::Request request, const Master& master);
  void noteGone(Master& master, ServerId id, SegmentId segment, const wire::ReplicaVersion& replica);
  void answerPage(rpc::Request request, const wire::ReadReplica::Request& ask, const RangeFilter& filter,
                  ByteSpan bytes);
  void answerFetch(rpc::Request request, const wire::FetchReplica::Request& ask, Status status, ByteSpan bytes);
  runtime::Task<void> collect();
  void collectSoon();
  std::vector<ServerId> questionable();
  runtime::Task<void> collectOf(std::vector<ServerId> masters);
  runtime::Task<void> collectFormer(rpc::PeerAddress master);
  void releaseAll(ServerId master);

  const Parts parts_;
  ReplicaCache cache_;
  std::unordered_map<ServerId, Master, IdHash<struct ServerIdTag>> masters_;  // addresses of values stay
  runtime::Signal changed_;    // a list is complete, a collection is due sooner, or the service stops
  int64_t collected_ns_ = 0;   // when it was last asked which replicas can go
  int64_t collect_at_ns_ = 0;  // when it will be asked next
  uint32_t fetching_ = 0;      // fetchReplica() requests with bytes in memory
  std::atomic<uint32_t> running_{0};
  std::atomic<uint64_t> fenced_refusals_{0};
  bool stop_ = false;
};

}  // namespace ramcore::backup
