#pragma once

#include <span>
#include <vector>

#include "master/cluster/client_admission.h"
#include "master/migration/priority_pulls.h"
#include "master/requests/client_replies.h"
#include "rpc/dispatch.h"
#include "runtime/task.h"
#include "store/maintenance.h"
#include "store/object_store.h"
#include "store/tablet_table.h"

namespace ramcore::master {

/// The handlers of requests that are about many objects. Their parts are calls of their own: not atomic together. Keys
/// that have not arrived are waited for together.
///
/// Dispatch thread or a worker, inside a read section. Holds references only.
class MultiRequests {
 public:
  /// Everything is borrowed and outlives this.
  struct Parts {
    store::ObjectStore& store;
    log::Log& log;
    store::TabletTable& tablets;
    PriorityPulls& priority_pulls;
    store::Maintenance& maintenance;
    runtime::Clock& clock;
    ClientReplies& replies;
    ClientAdmission& admission;
  };
  explicit MultiRequests(const Parts& parts) : parts_(parts) {}

  /// Answers a multi-read: each key with a status of its own. A key for whose value the answer has no room gets
  /// RetryLater, or TooLarge if the value would not fit alone.
  /// A request with keys that have not arrived waits for all of them together; those that do not come in time get
  /// RetryLater.
  void read(rpc::Request request);
  /// Carries out the writes and removals of a multi-mutation, each with a status of its own; on a worker.
  runtime::Task<void> mutate(rpc::Request request);

 private:
  void readNow(rpc::Request request, bool may_wait, std::span<const PriorityPulls::Wanted> arrived);
  runtime::Task<void> readWhenArrived(rpc::Request request, std::vector<PriorityPulls::Wanted> wanted,
                                      std::vector<PriorityPulls::Wanted> arrived);
  const Parts parts_;
};

}  // namespace ramcore::master
