#pragma once

#include "index/hash_index.h"
#include "rpc/dispatch.h"
#include "rpc/service_table.h"
#include "runtime/task.h"
#include "store/object_store.h"
#include "store/tablet_table.h"

namespace ramcore::wire::control {
class CallTimes;
class TabletLoad;
}  // namespace ramcore::wire::control

namespace ramcore::master {

/// The handler of the coordinator's question about each tablet: how large it is, and what calls there are to it; and
/// how long the calls of clients take. On a worker; between two tablets it lets others run.
class TabletReport {
 public:
  /// All are borrowed and outlive this.
  struct Parts {
    ServerId self;
    store::ObjectStore& store;
    index::HashIndex& index;
    store::TabletTable& tablets;
    const rpc::Dispatch& dispatch;
  };
  explicit TabletReport(const Parts& parts) : parts_(parts) {}
  void addTo(rpc::ServiceTable& table);

 private:
  runtime::Task<void> tabletLoads(rpc::Request request);
  void fill(const store::Tablet& tablet, size_t sample_max, wire::control::TabletLoad& load) const;
  void fillCallTimes(wire::control::CallTimes& calls) const;
  std::string keyOf(const store::Tablet& tablet, KeyHash hash) const;

  const Parts parts_;
};

}  // namespace ramcore::master
