#pragma once

#include "master/cluster/client_admission.h"
#include "master/cluster/coordinator_link.h"
#include "master/migration/priority_pulls.h"
#include "master/pinned/pinned_values.h"
#include "master/requests/client_replies.h"
#include "master/requests/multi_requests.h"
#include "master/requests/room_queue.h"
#include "rpc/dispatch.h"
#include "store/maintenance.h"
#include "store/object_store.h"
#include "store/threads.h"

namespace ramcore::master {

/// The data plane: one short handler per client operation. Decode, check, act, reply.
///
/// Handlers run on the dispatch thread or a worker. An answer leaves only when everything it shows is durable, or
/// flushed if its table is a sync one (base/durability.h). A scan copies all values into the answer. A read and a
/// multi-read copy values shorter than zero_copy_bytes_min of the transport's limits; longer ones are sent from where
/// they lie in the log (pinned_values.h).
class MasterService final {
 public:
  struct Parts {
    store::ObjectStore& store;
    log::Log& log;
    index::HashIndex& index;
    store::TabletTable& tablets;
    store::ResultTable& results;
    store::ServerLease& lease;
    CoordinatorLink& link;
    PriorityPulls& priority_pulls;
    store::Maintenance& maintenance;
    PinnedValues& pinned;
    store::Threads& threads;
    runtime::Clock& clock;
    runtime::Executor& dispatch;
  };
  explicit MasterService(const Parts& parts);
  void addTo(rpc::ServiceTable& table);
  /// Refuses the mutations that wait for room. Called on the dispatch thread, before destruction.
  void stop() {
    writes_without_room_.stop();
    removes_without_room_.stop();
    handed_over_.stop();
  }

  using Stats = ClientReplies::Stats;
  const Stats& stats() const { return replies_.stats(); }

  void read(rpc::Request request);
  void readBatch(std::span<rpc::Request> requests);
  void writeBatch(std::span<rpc::Request> requests);
  void write(rpc::Request request);
  void remove(rpc::Request request) { write(std::move(request)); }
  void increment(rpc::Request request);
  void scan(rpc::Request request);
  void ping(rpc::Request request);

 private:
  struct ReadKey;

  bool decodeRead(const rpc::Request& request, ReadKey& out) const;
  void answerRead(rpc::Request request, const ReadKey& key, log::EntryRef ref);
  void mutate(rpc::Request request, const store::Mutation& mutation);
  void refuse(rpc::Request request, Status status, TableId table, KeyHash hash);
  void mutateAgain(rpc::Request request);
  static void runAgain(void* self, rpc::Request request) {
    static_cast<MasterService*>(self)->mutateAgain(std::move(request));
  }
  runtime::Task<void> confirmClientAndMutate(rpc::Request request, store::Mutation mutation);
  void answerMutation(rpc::Request request, wire::Opcode opcode, const store::Answer& answer);
  runtime::Task<void> scanWhenArrived(rpc::Request request, TabletId tablet, KeyHash first);
  static std::optional<KeyHash> lastToList(const store::Tablet& tablet, KeyHash cursor,
                                           std::optional<KeyHash> piece_last);
  void scanPiece(rpc::Request request, std::optional<KeyHash> piece_last);
  runtime::Task<void> runWhenArrived(rpc::Request request, TabletId tablet, KeyHash hash);
  void awaitArrival(rpc::Request request, TableId table, KeyHash hash);

  const Parts parts_;
  ClientReplies replies_;
  ClientAdmission admission_;
  MultiRequests multi_;
  RoomQueue writes_without_room_;
  RoomQueue removes_without_room_;  ///< apart: a small log head takes removals, but no writes
  RoomQueue handed_over_;           ///< of tablets that are about to be handed over
};

}  // namespace ramcore::master
