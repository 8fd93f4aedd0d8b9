#pragma once

#include <map>
#include <vector>

#include "coordinator/state/async_mutex.h"
#include "coordinator/state/id_allocator.h"
#include "coordinator/state/journal.h"

namespace ramcore::coordinator {

/// The identities of clients. No server keeps results for a client without a lease, so a lease is reported as over only
/// after that is stored, and then for ever. Ids are never reused.
/// Thread: one executor.
class ClientLeases {
 public:
  static constexpr int64_t kLeaseNsDefault = 30 * runtime::kNanosPerSecond;
  static constexpr size_t kClientsMax = 200'000;

  ClientLeases(Journal& journal, int64_t lease_ns);

  /// Reads the stored clients. When their leases end is not known. So each client gets a full lease of the longest
  /// length that it may have been granted, and keeps its identity until that is over.
  runtime::Task<Status> load();
  /// Ends leases that have run out, until stop().
  void start();
  /// After Journal::stop().
  void stop();

  struct Opened {
    Status status = Status::Ok;
    ClientId id;
  };
  /// A new identity, or the one that was given for the same nonce. Failure: BadRequest: nonce 0; LimitReached: too
  /// many; as Journal::commit.
  runtime::Task<Opened> open(uint64_t nonce);
  /// Grants another full lease from this call on. Failure: LeaseExpired; RetryLater: the end of the lease is being
  /// stored.
  /// @param acknowledged  all calls of the client up to this one are over. Not stored: a server that relies on it for
  ///                      longer than this coordinator lives hears it from the client itself
  Status renew(ClientId id, Sequence acknowledged = Sequence());
  /// Ends a lease now. Ok for unknown clients.
  runtime::Task<Status> close(ClientId id);

  struct Checked {
    Status status = Status::Ok;
    std::vector<bool> valid;             ///< in the order asked; false is final
    std::vector<Sequence> acknowledged;  ///< in the same order: what the client has said. 0: nothing known
    /// A true in `valid` may be relied on for this long from when the question was sent; 0: not at all.
    int64_t checked_for_ns = 0;
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
    bool ending = false;  // its end is being stored
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
  int64_t longest_ns_ = 0;      // leases that were granted before this start may be this long
  int64_t longest_end_ns_ = 0;  // when leases of that length are over
  IdAllocator ids_;
  AsyncMutex lock_;  // held while leases are ended
  runtime::Signal changed_;
  std::map<ClientId, Client> clients_;
  std::map<uint64_t, ClientId> by_nonce_;
  int64_t watch_until_ns_ = runtime::kNever;  // when watch() meant to wake up
};

}  // namespace ramcore::coordinator
