#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/change_ref.h"
#include "coordinator/state/journal.h"

namespace ramcore::coordinator {

/// What a store knows of the changes that were made to it, and of those that it ought to have and lacks.
struct StoredHistory {
  struct Start {
    uint64_t id = 0;
    /// The highest change number under this start. It means nothing for the start that has not ended.
    uint64_t last_change = 0;
    /// It belongs to another state: its changes up to last_change count as known, but are not here.
    bool is_given_up = false;
  };
  /// Oldest first. The last one that is not given up has not ended.
  std::vector<Start> starts;
  /// The highest change of starts that are not listed any more.
  uint64_t last_forgotten_change = 0;
  /// Changes that servers have named and that are not here: the latest of each start.
  std::vector<ChangeRef> missing;
};
std::string encode(const StoredHistory& history);
[[nodiscard]] bool decode(std::string_view bytes, StoredHistory& history);

/// Tells whether this state of the cluster is the newest one that there was.
///
/// Each change that another process may rely on has a number (StateStore::changeNumber), and each start of a
/// coordinator has a random id. Both go out with answers to servers as a ChangeRef. Servers keep the latest one,
/// durably before they use a tablet or a floor, and name it when they enlist and renew. A state that lacks a change of
/// which it is told is an older copy: it does not know what was given to whom since, and must decide nothing. Numbers
/// alone would not be enough, because a copy that continues to be used reaches them again. That a coordinator has
/// started is not a change: a copy that is found out at once has left nothing behind that would make the right state
/// look like a copy. tests/models/change_reference_model.py walks all of this, and shows what breaks without each rule.
/// Thread: one executor.
class ChangeHistory {
 public:
  /// @param start  drawn at random for this start of the coordinator, not 0
  ChangeHistory(Journal& journal, uint64_t start);

  /// Reads what is stored. Failure: Corrupt, or as the store.
  runtime::Task<Status> load();
  /// Stores that this start has begun, before it makes a change.
  runtime::Task<Status> begin();

  uint64_t start() const { return start_; }
  /// The latest change that is durable.
  ChangeRef latest() const;
  /// Whether this state has a change that a server has heard of.
  bool has(ChangeRef heard) const;

  /// True if servers have named changes that are not here.
  bool isBehind() const { return !stored_.missing.empty(); }
  /// The highest number that was named and is not here; 0: none.
  uint64_t missingNumber() const;
  /// Notes that a server has named a change that is not here. Returns false if that is known already.
  bool noteMissing(ChangeRef missing);
  /// Stores what was noted, so that no later start of a coordinator serves with this state either.
  runtime::Task<Status> storeMissing();
  /// An operator continues without the missing changes. First ids, epochs and servers of this state are made different
  /// from those of the changes that are given up; then what is missing counts as known. After begin(). May be repeated
  /// after a crash.
  runtime::Task<Status> giveUpMissing();
  /// For a person: what is missing and what is here.
  std::string describeMissing() const;

 private:
  static constexpr size_t kStartsMax = 1'000;
  static constexpr size_t kMissingMax = 1'000;

  const StoredHistory::Start* find(uint64_t id) const;
  runtime::Task<Status> store(StoredHistory next, uint64_t number_min = 0);
  runtime::Task<Status> skipIds(uint64_t step);
  runtime::Task<Status> skipEpochs(uint64_t step);
  runtime::Task<Status> endServers();
  runtime::Task<Status> commitAll(std::vector<KeyValue> changes);

  Journal& journal_;
  const uint64_t start_;
  StoredHistory stored_;
};

}  // namespace ramcore::coordinator
