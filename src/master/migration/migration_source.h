#pragma once

#include <initializer_list>
#include <optional>

#include "index/hash_index.h"
#include "log/log.h"
#include "master/migration/client_activity.h"
#include "master/pinned/pinned_values.h"
#include "rpc/dispatch.h"
#include "store/object_store.h"
#include "store/range_slice.h"
#include "store/result_table.h"
#include "store/tablet_table.h"
#include "store/threads.h"
#include "wire/migration_messages.h"

namespace ramcore::master {

/// The former owner's side of a move: says how much room a tablet takes, hands out the results of calls while it is
/// frozen, and then, while it is lent, the contents, slice by slice or by key hash. Keeps no state of its own: the new
/// owner's cursor says everything. Handlers run on workers.
class MigrationSource {
 public:
  struct Parts {
    store::ObjectStore& store;
    log::Log& log;
    index::HashIndex& index;
    store::TabletTable& tablets;
    store::ResultTable& results;
    PinnedValues& pinned;
    store::Threads& threads;
  };
  explicit MigrationSource(const Parts& parts) : parts_(parts), activity_(parts.tablets) {}
  void addTo(rpc::ServiceTable& table);

  bool isSound(log::EntryRef ref);
  void pull(rpc::Request request);
  void pullResults(rpc::Request request);
  void pullHashes(rpc::Request request);
  void measure(rpc::Request request);
  void listClients(rpc::Request request);

 private:
  /// The tablet that a request names if it is in one of these states, or why there is none.
  Result<store::Tablet> tabletIn(std::initializer_list<store::TabletState> states, TabletId id,
                                 TabletEpoch epoch) const;
  Status fill(const store::Tablet& tablet, const HashRange& range, const store::RangeSlice::Limits& limits,
              store::RangeSlice& slice);
  uint64_t appendedBytes(wire::MeasureTablet::Part part) const;
  Status measureObjects(const store::Tablet& tablet, KeyHash cursor, wire::MeasureTablet::Response& sum);
  struct Lent;
  Lent lend(const rpc::Request& request, store::RangeSlice& slice, uint64_t bytes_max);
  void append(transport::TxMessage& response, const store::RangeSlice& slice, const Lent& lent) const;

  const Parts parts_;
  ClientActivity activity_;
};

}  // namespace ramcore::master
