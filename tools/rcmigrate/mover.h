#pragma once

#include <csignal>
#include <cstdint>
#include <map>
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
  uint64_t rate_max = 0;       ///< bytes a second, of all moves to a server together; 0: any
  uint32_t parallel = 4;       ///< moves at a time; at least 1
  uint32_t timeout_ms = 5000;  ///< of one question to the coordinator
  bool waits = true;           ///< false: the moves are only begun
  bool quiet = false;          ///< no progress on stderr
  bool json = false;           ///< what has become of the moves is printed as JSON, and nothing else on stdout
};

/// Carries out the steps of a plan: has tablets cut and moved, several at a time, and tells how it goes. Moves that
/// were begun end by themselves, also if this process dies; a step that is done already is none.
class Mover {
 public:
  /// @param interrupted  set by a signal: nothing more is begun, and what goes on is not waited for
  Mover(tools::ClusterSession& session, const MoverSettings& settings, const volatile sig_atomic_t& interrupted)
      : session_(session), settings_(settings), interrupted_(interrupted) {}

  /// May be called again, with other steps. What fails is said on stderr.
  void run(const std::vector<PlanStep>& steps);
  /// Waits for moves that somebody has begun before.
  void follow(const std::vector<client::MigrationRecord>& moves);
  /// Whether something failed, or an end was not seen.
  bool hasFailed() const { return exitCode() != 0; }
  bool hasDone() const { return done_ != 0; }
  /// For the program.
  int exitCode() const;
  /// "moves": what has become of each; "calls": how long calls took at their servers; "counts".
  tools::Json report() const;

 private:
  struct Move {
    uint64_t migration = 0;
    PlanStep step{};
    std::string what{};
    std::string from_name{};
    std::string to_name{};
    int64_t begun_ns = 0;
    client::MigrationRecord now{};
    bool rate_is_to_be_looked_at = false;
    std::string outcome{};  ///< "done", "failed", ...; empty: it goes on
  };
  struct Failed {
    PlanStep step;
    std::string reason;
  };
  client::CoordinatorStub& coordinator() { return session_.client().coordinator(); }
  int64_t deadlineNs() const { return session_.nowNs() + settings_.timeout_ms * runtime::kNanosPerMilli; }
  template <typename Ask>
  auto untilKnown(const Ask& ask);
  bool isBusy(const PlanStep& step) const;
  void begin(const PlanStep& step);
  void beginSplit(const PlanStep& step);
  void beginMove(const PlanStep& step, const client::ClusterStatus& cluster, const client::TabletInfo& tablet);
  void noteThere(const std::string& what);
  void sayWhatGoesOn();

  void look();
  void noteSilence(Status status);
  void noteForgotten(Move& move);
  void finish(Move& move);
  void keepRate(Move& move);

  bool tellsOfCalls() const { return settings_.waits && (!settings_.quiet || settings_.json); }
  void lookBefore();
  void lookAtCalls();
  void showProgress();
  std::string progressOf(const Move& move) const;
  std::string callsAt(ServerId server) const;
  tools::Json callsAsJson() const;
  tools::Json asJson(const Move& move) const;

  void failStep(const PlanStep& step, int code, const Failure& failure);
  void failDropped(const PlanStep& step);
  void fail(int code, const Failure& failure);

  tools::ClusterSession& session_;
  const MoverSettings settings_;
  const volatile sig_atomic_t& interrupted_;
  std::vector<Move> under_way_;
  std::vector<Move> over_;
  std::vector<Failed> failed_steps_;
  size_t steps_count_ = 0;
  size_t done_ = 0;
  size_t failed_ = 0;
  int failure_code_ = 0;      // of the first failure
  bool is_cut_off_ = false;   // the coordinator does not answer, or does not take more moves: nothing more is begun
  int64_t silent_since_ = 0;  // the coordinator has not answered since; 0: it has
  std::map<TableId, std::string> table_names_;
  std::set<TableId> dropped_;  // tables, since the steps were planned
  int64_t looked_ns_ = 0;      // at the calls
  int64_t shown_ns_ = 0;
  int64_t first_shown_ns_ = 0;
  CallHistory calls_;
  ProgressLines progress_;
};

/// "57 %, 1200 objects, 1.2 MiB in 0.50 s, 2.4 MiB/s": how far a move is, after so long a time.
std::string progressText(const client::MigrationStatus& now, double seconds);

}  // namespace ramcore::rcmigrate
