#pragma once

#include <memory>
#include <string>

#include "backup/backup.h"
#include "base/result.h"
#include "coordinator/coordinator.h"
#include "master/master.h"
#include "rpc/dispatch.h"

namespace prometheus {
class Exposer;
}

namespace ramcore::tools {

/// Serves the numbers of a process at http://host:port/metrics in the text format of Prometheus. docs/metrics.md lists
/// them.
///
/// A scrape runs on threads of its own and reads relaxed counters only: it costs the dispatch thread nothing and sees
/// each count late at worst. The objects to which the counters belong outlive the server.
class MetricsServer {
 public:
  /// @param where  "host:port", IPv6 addresses in brackets.
  /// Failure: BadConfig: no such address; InUse: it cannot be bound.
  static Outcome<std::unique_ptr<MetricsServer>> open(const std::string& where, const rpc::Dispatch& dispatch,
                                                      runtime::Clock& clock);
  /// The same, or nullptr if `where` is empty.
  static Outcome<std::unique_ptr<MetricsServer>> openIfWanted(const std::string& where, const rpc::Dispatch& dispatch,
                                                              runtime::Clock& clock) {
    if (where.empty()) return std::unique_ptr<MetricsServer>();
    return open(where, dispatch, clock);
  }
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  /// From now on the master's numbers are served too. Not before its onServing. Any thread.
  void setMaster(const master::Master& master);
  /// The same for the backup in this process.
  void setBackup(const backup::Backup& backup);
  /// The same for a coordinator.
  void setCoordinator(const coordinator::Coordinator& coordinator);

 private:
  class Numbers;
  MetricsServer(std::unique_ptr<prometheus::Exposer> exposer, std::shared_ptr<Numbers> numbers);

  std::shared_ptr<Numbers> numbers_;
  std::unique_ptr<prometheus::Exposer> exposer_;  // holds the numbers weakly; stops first
};

}  // namespace ramcore::tools
