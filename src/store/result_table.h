#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/spin_lock.h"
#include "base/status.h"
#include "log/log.h"
#include "store/call_results.h"
#include "wire/message_header.h"

namespace ramcore::store {

/// The result of a mutating call, kept until the client says that it has the answer: a repeated call gets the result
/// instead of running again (the idea of RIFL, Lee et al., SOSP 2015).
struct MutationResult {
  wire::Opcode opcode{};
  Status status = Status::Ok;
  Version version = 0;
  int64_t value = 0;  ///< of Increment
  TableId table;
  KeyHash key_hash = 0;
};

/// Results of all clients that this master has heard of, in memory. Each has its record in the log: the object itself
/// if that carries it (log::CarriedResult), otherwise an entry written in the same group. An object that carries a
/// result which is still needed is alive: a mutation that kills it gives the result a record of its own (moveOut).
///
/// Locks: one per shard, taken inside a key's stripe lock, never the other way round. Any thread.
class ResultTable {
 public:
  /// Sets the log in which the records lie. The log is told when a record is no longer needed. Called once, before any
  /// other call.
  void connect(log::Log& log) { log_ = &log; }

  /// What is to be done with a call.
  enum class Verdict : uint8_t {
    New,            ///< run it
    Duplicate,      ///< answer `result`, once `record` is durable
    Stale,          ///< the client has acknowledged it: a late repetition, refuse
    UnknownClient,  ///< ask the coordinator whether the client's lease is valid, then admit() it and look again
    TooMany,        ///< the client has not acknowledged kResultsPerClientMax other calls: try again later
    Busy,           ///< the table was not read: another thread has held the lock for longer than `wait` allows
  };
  struct Lookup {
    Verdict verdict;
    MutationResult result;
    log::EntryRef record;
  };

  /// Looks a call up and notes what the client acknowledges: records up to `identity.acknowledged` are forgotten.
  Lookup find(const wire::CallIdentity& identity, LockWait wait = LockWait::Any);
  /// Keeps the result of a call that find() called New; the caller has held the key's stripe since. If the client was
  /// forgotten meanwhile its lease is over, and the call will not be repeated.
  /// @param is_carried  `record` is the object, which carries it
  void insert(const wire::CallIdentity& identity, const MutationResult& result, log::EntryRef record, bool is_carried);
  /// Notes what the client acknowledges, as find(). False: it has acknowledged this call, too, so the record of the
  /// call need not be kept. For records of a move or a recovery, which come in any order, and repeatedly.
  bool isAwaited(const wire::CallIdentity& identity);
  /// Keeps a result that a move or a recovery brings; `record` is the copy in our own log. A client that is unknown
  /// here stays so: its repeated call is answered, a new one waits until the coordinator has confirmed its lease.
  void take(const wire::CallIdentity& identity, const MutationResult& result, log::EntryRef record);
  /// Whether the result of a call is kept here.
  bool has(ClientId client, Sequence sequence) const;
  /// The coordinator has confirmed the lease of `client`, in answer to a question sent at `asked_ns`.
  /// @param acknowledged  what the client has told the coordinator that it acknowledges. The results of these calls may
  ///                      be gone here, or may have been dropped before this server took the others over. Without this
  ///                      number a late repetition of such a call would pass for a new one
  /// @return false, and nothing happens: `asked_ns` is not newer than a question to which the coordinator answered that
  ///         some client's lease is over. That client may be this one, and the present answer may be late. Ask again
  bool admit(ClientId client, int64_t asked_ns, Sequence acknowledged = Sequence());
  /// The coordinator has confirmed that the lease of `client` is over, in answer to a question sent at `asked_ns`:
  /// everything about it goes.
  void forget(ClientId client, int64_t asked_ns);
  /// Clients with ids above `after` whose last confirmation is older than `before_ns`: the `count_max` lowest, in
  /// order.
  /// @param with_results  only clients of which results are kept
  std::vector<ClientId> silentSince(int64_t before_ns, ClientId after, size_t count_max,
                                    bool with_results = false) const;
  /// Notes that the lease of `client` was still valid at `now_ns`.
  /// @param acknowledged  as for admit()
  void heard(ClientId client, int64_t now_ns, Sequence acknowledged = Sequence());

  struct Record {
    ClientId client;
    Sequence sequence;
    Sequence acknowledged;
    MutationResult result;
  };
  /// The result that the object at `object` carries, if it is still needed.
  std::optional<Record> carriedBy(log::EntryRef object, const log::CarriedResult& carried) const;
  /// Notes that the object at `object` has died, and that its result has a record of its own, in the group by which it
  /// died.
  void moveOut(log::EntryRef object, ClientId client, Sequence sequence, log::EntryRef record);
  /// Forgets the result that the object at `object` carries, whose key does not belong to this server any more.
  /// @return false: there is no such result
  bool drop(log::EntryRef object, const log::CarriedResult& carried);

  /// True if the log's record at `record` is what this table points to.
  bool isLive(ClientId client, Sequence sequence, log::EntryRef record) const;
  /// The cleaner has copied a record, or the object that carries the result; false if it died meanwhile.
  bool relocated(ClientId client, Sequence sequence, log::EntryRef from, log::EntryRef to);

  /// Records of keys in `range` of `table`, ordered by key hash, client and sequence, for a move.
  std::vector<Record> inRange(TableId table, const HashRange& range) const;
  /// Forgets records of keys in `range` of `table` (the tablet is gone from here), except where `is_ours` says of a key
  /// hash that it is here again.
  void dropRange(TableId table, const HashRange& range, const std::function<bool(KeyHash)>& is_ours);

  /// More than a client library keeps open (its window is 4,096 calls): bounds what one client can pin.
  static constexpr size_t kResultsPerClientMax = 16 * 1024;

  size_t recordCount() const;
  size_t clientCount() const;

 private:
  struct Stored {
    MutationResult result;
    log::EntryRef record;
    bool is_carried = false;  // `record` is an object
  };
  struct Client {
    Sequence acknowledged;
    int64_t heard_ns = 0;
    bool is_admitted = false;     // its lease was confirmed to this master
    CallResults<Stored> results;  // few: calls in flight of one client on this master
  };
  struct Shard {
    mutable SpinLock lock;
    std::map<ClientId, Client> clients RC_GUARDED_BY(lock);
    int64_t over_asked_ns RC_GUARDED_BY(lock) =
        std::numeric_limits<int64_t>::min();  // the highest `asked_ns` of a forget(), of any client
  };
  static constexpr size_t kShardCount = 16;
  /// The result of a call, if its record is `record`; else nullptr.
  template <typename AnyShard>
  static auto find(AnyShard& shard, ClientId client, Sequence sequence, log::EntryRef record) RC_REQUIRES(shard.lock) {
    const auto found = shard.clients.find(client);
    decltype(found->second.results.find(sequence)) stored = nullptr;
    if (found != shard.clients.end()) stored = found->second.results.find(sequence);
    return stored != nullptr && stored->record == record ? stored : nullptr;
  }
  Shard& shardOf(ClientId client) { return shards_[client.value % kShardCount]; }
  const Shard& shardOf(ClientId client) const { return shards_[client.value % kShardCount]; }

  Lookup find(Shard& shard, const wire::CallIdentity& identity) RC_REQUIRES(shard.lock);
  void acknowledge(Client& client, Sequence acknowledged);
  void store(Client& client, const wire::CallIdentity& identity, const Stored& stored);
  void markDead(const Stored& stored);

  log::Log* log_ = nullptr;
  std::array<Shard, kShardCount> shards_;
};

}  // namespace ramcore::store
