#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "client/coordinator_stub.h"
#include "tools/rcmigrate/plan.h"
#include "tools/support/cluster_session.h"

namespace ramcore::rcmigrate {

struct MoverSettings {
  uint64_t rate_max = 0;       ///< bytes a second, of each move; 0: any
  uint32_t parallel = 4;       ///< moves at a time; at least 1
  uint32_t timeout_ms = 5000;  ///< of one question to the coordinator
  bool waits = true;           ///< false: the moves are only begun
  bool quiet = false;          ///< no progress on stderr
  bool json = false;           ///< what has become of the moves is printed as JSON
};

/// Carries out the steps of a plan: has tablets cut and moved, several at a time, and tells how it goes. Moves that
/// were begun end by themselves, also if this process dies; a step that is done already is none.
class Mover {
 public:
  /// @param interrupted  set by a signal: nothing more is begun, and what goes on is not waited for
  Mover(tools::ClusterSession& session, const MoverSettings& settings, const volatile sig_atomic_t& interrupted)
      : session_(session), settings_(settings), interrupted_(interrupted) {}

  /// @return the exit code of the program; what failed was said on stderr
  int run(const std::vector<PlanStep>& steps);

 private:
  struct Move {
    uint64_t migration = 0;
    PlanStep step;
    std::string what;
    int64_t begun_ns = 0;
    client::MigrationRecord now;
  };
  client::CoordinatorStub& coordinator() { return session_.client().coordinator(); }
  int64_t deadlineNs() const { return session_.nowNs() + settings_.timeout_ms * runtime::kNanosPerMilli; }
  bool isBusy(const PlanStep& step) const;
  void begin(const PlanStep& step);
  void beginSplit(const PlanStep& step);
  void beginMove(const PlanStep& step, const client::ClusterStatus& cluster, const client::TabletInfo& tablet);
  bool look();
  void finish(const Move& move);
  void showProgress();
  void clearProgress();
  void fail(int code, const Failure& failure);
  void failAnswer(Status status, const std::string& what);
  int exitCode() const;
  std::string asJson() const;

  tools::ClusterSession& session_;
  const MoverSettings settings_;
  const volatile sig_atomic_t& interrupted_;
  std::vector<Move> under_way_;
  std::vector<Move> over_;
  size_t steps_count_ = 0;
  size_t done_ = 0;
  size_t failed_ = 0;
  int failure_code_ = 0;  // of the first failure
  int64_t shown_ns_ = 0;
  bool line_open_ = false;
};

/// "57 %, 1200 objects, 1.2 MiB in 0.50 s, 2.4 MiB/s": how far a move is, after so long a time.
std::string progressText(const client::MigrationStatus& now, double seconds);

}  // namespace ramcore::rcmigrate
