#pragma once

#include <map>
#include <vector>

#include "coordinator/state/async_mutex.h"
#include "coordinator/state/id_allocator.h"
#include "coordinator/state/journal.h"

namespace ramcore::coordinator {

/// The identities of clients. A client without a lease has no results kept for it anywhere, so "over" is said only
/// after it is stored, and then for ever; ids are never reused.
/// Thread: one executor.
class ClientLeases {
 public:
  static constexpr int64_t kLeaseNsDefault = 30 * runtime::kNanosPerSecond;
  static constexpr size_t kClientsMax = 200'000;

  ClientLeases(Journal& journal, int64_t lease_ns);

  /// Reads the stored clients: each gets a full lease, since what it was granted before is not known; one of the length
  /// that it may have been granted, if that was longer. Until then the client goes on with its identity.
  runtime::Task<Status> load();
  /// Ends leases that ran out, until stop().
  void start();
  /// After Journal::stop().
  void stop();

  struct Opened {
    Status status = Status::Ok;
    ClientId id;
  };
  /// A new identity, or the one that was given for the same nonce. Failure: BadRequest: nonce 0; LimitReached: too
  /// many; as
  /// Journal::commit.
  runtime::Task<Opened> open(uint64_t nonce);
  /// Another full lease from this call. Failure: LeaseExpired; RetryLater: the end is on its way to the store.
  /// @param acknowledged  all calls of the client up to this one are over. Not stored: whoever relies on it for longer
  ///                      than this coordinator lives hears it from the client itself
  Status renew(ClientId id, Sequence acknowledged = Sequence());
  /// Ends a lease now. Ok for unknown ones.
  runtime::Task<Status> close(ClientId id);

  struct Checked {
    Status status = Status::Ok;
    std::vector<bool> valid;             ///< in the order asked; false is final
    std::vector<Sequence> acknowledged;  ///< in the same order; the client has said so. 0: nothing known
    int64_t checked_for_ns = 0;  ///< true may be relied on for this long from when the question was sent; 0: not at all
  };
  /// What is stored about these clients, at most kCheckedMax. Failure: BadRequest; as Journal::commit.
  runtime::Task<Checked> check(std::vector<ClientId> ids);
  static constexpr size_t kCheckedMax = 4'096;

  int64_t leaseNs() const { return lease_ns_; }
  size_t count() const { return clients_.size(); }

 private:
  struct Client {
    uint64_t nonce = 0;
    int64_t end_ns = 0;
    Sequence acknowledged = {};
    bool ending = false;  // its end is on its way to the store
  };
  runtime::Task<Status> loadLongest();
  runtime::Task<void> storeShorterLease();
  runtime::Task<void> watch();
  runtime::Task<Status> endExpired();
  runtime::Task<Status> endStored(std::vector<ClientId> ids);
  int64_t nextEndNs() const;
  void forgiveStandstill();

  Journal& journal_;
  const int64_t lease_ns_;
  int64_t longest_ns_ = 0;      // leases that were granted before this start may be as long
  int64_t longest_end_ns_ = 0;  // and then they are over
  IdAllocator ids_;
  AsyncMutex lock_;  // of ending
  runtime::Signal changed_;
  std::map<ClientId, Client> clients_;
  std::map<uint64_t, ClientId> by_nonce_;
  int64_t watch_until_ns_ = runtime::kNever;  // when watch() meant to wake up
};

}  // namespace ramcore::coordinator
