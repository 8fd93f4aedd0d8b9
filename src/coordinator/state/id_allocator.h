#pragma once

#include <string>
#include <string_view>

#include "coordinator/state/async_mutex.h"
#include "coordinator/state/journal.h"

namespace ramcore::coordinator {

/// Hands out ids 1, 2, 3, ... that are never handed out again, not even after a crash. A block of them is reserved in
/// the store at a time; the rest of a block is lost in a crash, which does not matter.
class IdAllocator {
 public:
  /// All kinds of ids.
  static constexpr std::string_view kKinds[] = {"server", "table", "tablet", "client", "migration"};

  /// @param kind  one of kKinds (checked), part of the key in the store
  IdAllocator(Journal& journal, std::string_view kind);

  runtime::Task<Status> load();
  /// The first of `count` consecutive ids. count: 1..1,000,000. Failure: as Journal::commit.
  runtime::Task<Result<uint64_t>> take(uint64_t count = 1);
  /// No id from this one on was ever handed out: a stored record that has one is damaged.
  uint64_t end() const { return next_; }

 private:
  friend class ChangeHistory;  // skips ids that another copy of the state may have handed out
  static constexpr uint64_t kBlock = 256;
  static constexpr std::string_view kPrefix = "id/";

  Journal& journal_;
  const std::string key_;
  AsyncMutex lock_;
  uint64_t next_ = 1;
  uint64_t reserved_until_ = 1;
};

}  // namespace ramcore::coordinator
