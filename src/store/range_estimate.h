#pragma once

#include "index/hash_index.h"
#include "store/object_store.h"

namespace ramcore::store {

/// How much a part of a table has.
struct RangeEstimate {
  uint64_t objects = 0;
  uint64_t bytes = 0;  ///< of them in the log
};

/// Looks at some thousands of index entries that lie evenly in the range, and takes the rest for the same: a share of
/// some percent may be missing or too much. A range with fewer entries is counted.
/// Thread: any worker, inside a read section. Cost: a third of a millisecond.
RangeEstimate estimateRange(const ObjectStore& store, index::HashIndex& index, TableId table, const HashRange& range);

}  // namespace ramcore::store
