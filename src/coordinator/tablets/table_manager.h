#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/tablets/parts.h"

namespace ramcore::coordinator {

/// Creates and drops tables. Both are a stored intent (the table's record), calls to servers that may be repeated, and
/// a stored end. A coordinator that starts carries on with the intents that it finds.
/// Thread: one executor.
class TableManager {
 public:
  static constexpr uint32_t kTabletsPerTableMax = 1'024;
  static constexpr size_t kTablesMax = 4'096;

  TableManager(const Parts& parts, std::vector<TabletOperations*> operations);

  /// Reads tables and tablets into the map. Failure: Corrupt if they contradict each other.
  runtime::Task<Status> load();
  /// Carries on with what was under way.
  void resume();
  /// After Journal::stop(): ends the waits of create() and drop().
  void stop();

  struct Created {
    Status status = Status::Ok;
    TableId id;  ///< the table, with Ok and TableExists
  };
  /// Creates a table of `tablet_count` tablets (0: one per server) and returns when all are served. A second request
  /// for the name waits for the first. Then it returns Ok if it has the same nonce, else TableExists, whatever else it
  /// asks for.
  /// @param nonce  of the call, the same in all its attempts.
  /// Failure: BadRequest: name or count beyond the limits, nonce 0; TableExists; RetryLater: no server; LimitReached:
  /// too many tables or tablets; CoordinatorFull: the disk is full, and the creation may go on once there is room;
  /// OutcomeUnknown: the intent is stored, and the creation goes on after `deadline_ns` or in the next life of the
  /// coordinator; Shutdown, NotLeader: this coordinator is over, and the intent may be stored.
  runtime::Task<Created> create(std::string name, uint32_t tablet_count, Durability durability, uint64_t nonce,
                                int64_t deadline_ns);
  /// Drops a table and returns when no server answers for it any more; repeated requests wait for the first. Failure:
  /// NoSuchTable; RetryLater: the table is not created yet; CoordinatorFull, OutcomeUnknown, Shutdown, NotLeader: as
  /// create().
  runtime::Task<Status> drop(TableId id, int64_t deadline_ns);

  /// 1..255 bytes of UTF-8 without control characters.
  static bool isTableName(std::string_view name);

 private:
  bool isSoundIntent(const Table& table) const;
  runtime::Task<Status> storeCreate(std::string name, uint32_t tablet_count, Durability durability, uint64_t nonce);
  runtime::Task<void> runCreate(TableId id);
  runtime::Task<bool> createTablets(TableId id, std::vector<Tablet>& tablets);
  runtime::Task<bool> createTablet(TableId id, uint32_t index, Tablet& tablet);
  runtime::Task<TakeResult> takeNew(Tablet tablet);
  runtime::Task<bool> moveIntent(TableId id, uint32_t index);
  runtime::Task<Status> storeCreated(TableId id, const std::vector<Tablet>& tablets);
  runtime::Task<void> runDrop(TableId id);
  runtime::Task<void> dropTablet(Tablet tablet, ServerId server);
  runtime::Task<bool> storeDropped(TableId id);
  runtime::Task<Status> waitUntil(TableId id, TableState state, int64_t deadline_ns);
  Tablet intended(const Table& table, uint32_t index) const;

  const Parts parts_;
  const std::vector<TabletOperations*> operations_;
  IdAllocator ids_;
  runtime::Signal changed_;  // a table was finished
};

}  // namespace ramcore::coordinator
