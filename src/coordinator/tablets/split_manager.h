#pragma once

#include <map>

#include "coordinator/tablets/migration_manager.h"
#include "coordinator/tablets/parts.h"

namespace ramcore::coordinator {

/// Cuts tablets in two where they are: a stored intent, one call to the owner that may be repeated, a stored end.
/// Thread: one executor.
class SplitManager final : public TabletOperations {
 public:
  /// @param migrations  a tablet whose move is not over is not cut. Outlives this
  SplitManager(const Parts& parts, const MigrationManager& migrations)
      : parts_(parts), migrations_(migrations), changed_(parts.journal.executor()) {}

  /// Reads the splits under way; after the tables.
  runtime::Task<Status> load();
  void resume();
  /// After Journal::stop().
  void stop();

  struct Halves {
    Status status = Status::Ok;
    TabletId lower;
    TabletId upper;  ///< begins at the hash asked for
  };
  /// Makes `at_hash` the first hash of a tablet; Ok at once if it is one. Failure: NoSuchTable; BadRequest: hash 0;
  /// RetryLater: the tablet is in transition or unavailable, or `deadline_ns` has passed (the split goes on);
  /// LimitReached: too many tablets, or as the owner says; as Journal::commit.
  runtime::Task<Halves> split(TableId table, KeyHash at_hash, int64_t deadline_ns);

  // TabletOperations
  runtime::Task<bool> endAll(TableId table) override;

 private:
  struct Active {
    Split split;
    TableId table;
  };
  Halves existing(TableId table, KeyHash at_hash) const;
  runtime::Task<Status> store(TableId table, KeyHash at_hash);
  runtime::Task<void> run(TabletId id);
  runtime::Task<bool> storeEnd(TabletId id, Status outcome);
  Tablet half(const Tablet& whole, const Split& split, bool upper) const;

  const Parts parts_;
  const MigrationManager& migrations_;
  runtime::Signal changed_;  // a split ended
  std::map<TabletId, Active> active_;
};

}  // namespace ramcore::coordinator
