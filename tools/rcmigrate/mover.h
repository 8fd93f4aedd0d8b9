#pragma once

#include <csignal>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "client/coordinator_stub.h"
#include "tools/rcmigrate/call_times.h"
#include "tools/rcmigrate/plan.h"
#include "tools/rcmigrate/progress_lines.h"
#include "tools/support/cluster_session.h"
#include "tools/support/json.h"

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

  /// May be called again, with other steps.
  /// @return the exit code of the program; what failed was said on stderr
  int run(const std::vector<PlanStep>& steps);
  /// What has become of all moves, and how long calls took meanwhile.
  std::string asJson() const;

 private:
  struct Move {
    uint64_t migration = 0;
    PlanStep step;
    std::string what;
    std::string from_name;
    std::string to_name;
    int64_t begun_ns = 0;
    client::MigrationRecord now;
  };
  client::CoordinatorStub& coordinator() { return session_.client().coordinator(); }
  int64_t deadlineNs() const { return session_.nowNs() + settings_.timeout_ms * runtime::kNanosPerMilli; }
  bool isBusy(const PlanStep& step) const;
  template <typename Ask>
  auto untilKnown(const Ask& ask);
  void begin(const PlanStep& step);
  void beginSplit(const PlanStep& step);
  void beginMove(const PlanStep& step, const client::ClusterStatus& cluster, const client::TabletInfo& tablet);
  bool look();
  void finish(const Move& move);
  bool tellsOfCalls() const { return settings_.waits && (!settings_.quiet || settings_.json); }
  void lookBefore();
  void lookAtCalls();
  void showProgress();
  std::string progressOf(const Move& move) const;
  std::string callsAt(ServerId server) const;
  void fail(int code, const Failure& failure);
  void failDropped(TableId table);
  void failAnswer(Status status, const std::string& what);
  int exitCode() const;
  tools::Json callsAsJson() const;

  tools::ClusterSession& session_;
  const MoverSettings settings_;
  const volatile sig_atomic_t& interrupted_;
  std::vector<Move> under_way_;
  std::vector<Move> over_;
  size_t steps_count_ = 0;
  size_t done_ = 0;
  size_t failed_ = 0;
  std::set<TableId> dropped_;  // tables, since the steps were planned
  int failure_code_ = 0;       // of the first failure
  int64_t looked_ns_ = 0;      // at the calls
  CallHistory calls_;
  ProgressLines progress_;
};

/// "57 %, 1200 objects, 1.2 MiB in 0.50 s, 2.4 MiB/s": how far a move is, after so long a time.
std::string progressText(const client::MigrationStatus& now, double seconds);

}  // namespace ramcore::rcmigrate
