#pragma once

#include <map>
#include <memory>

#include "client/coordinator_stub.h"
#include "client/pacer.h"
#include "client/tablet_cache.h"

namespace ramcore::client {

/// How often a client asks the coordinator where the tablets of a table are.
struct FinderSettings {
  int64_t first_pause_ns = 1 * runtime::kNanosPerMilli;  ///< the shortest pause between two questions about a table
  int64_t longest_pause_ns = runtime::kNanosPerSecond;   ///< the longest one, while the answer stays the same
};

/// Knows where the tablets are, and asks the coordinator about those of which it does not know or has doubts: once for
/// all calls to a table, and again after pauses that grow.
///
/// Thread: the dispatch's, or one that keeps the dispatch from being stepped meanwhile. No locks.
class TabletFinder {
 public:
  /// @param random  lengths of pauses are drawn from it
  /// All are borrowed and outlive the finder.
  TabletFinder(CoordinatorStub& coordinator, Pacer& pacer, runtime::Random& random, const FinderSettings& settings)
      : coordinator_(coordinator), pacer_(pacer), random_(random), settings_(settings) {}
  TabletFinder(const TabletFinder&) = delete;
  TabletFinder& operator=(const TabletFinder&) = delete;

  TabletCache& cache() { return cache_; }

  struct Place {
    TabletCache::Owner* owner = nullptr;
    TabletEpoch epoch;
  };
  /// Finds the owner of a key hash. RetryLater: the tablet is not available now.
  /// @param is_stale  true: the coordinator is asked, as by refresh()
  runtime::Task<Result<Place>> locate(TableId table, KeyHash hash, bool is_stale, int64_t since_ns,
                                      int64_t deadline_ns);
  /// Asks the coordinator where the tablets of the table are, unless a question that began at or after `since_ns` was
  /// answered. Waits for a question that runs.
  runtime::Task<Status> refresh(TableId table, int64_t since_ns, int64_t deadline_ns);
  /// For a call to `place` that has waited for long. Asks the coordinator in the background where the tablet is, unless
  /// the tablet is known to be elsewhere or it is too early for another question.
  /// @return true if the tablet is not at `place` any more, as far as this client knows
  bool isElsewhere(TableId table, KeyHash hash, const Place& place);
  /// Asks in the background where the table's tablets are, if it is time for that.
  void inquire(TableId table);
  /// Notes that an attempt at the owner ended without an answer. After DeadlineExceeded the client doubts the owner:
  /// what it knows of it may be wrong.
  void noteUnanswered(TabletCache::Owner& owner, Status status);
  /// One attempt, which is given up when the tablet is elsewhere. It stays in place until the attempt is over.
  struct Attempt {
    TabletFinder& finder;
    TableId table;
    KeyHash hash = 0;
    Place place;
    rpc::CallSettings settings(int64_t deadline_ns);
    static bool isHopeless(void* attempt);
  };

  /// True if no question runs in the background. Those that calls wait for are counted by them.
  bool isIdle() const { return inquiries_ == 0; }

  struct Stats {
    uint64_t refreshes = 0;  ///< questions to the coordinator
    uint64_t abandoned = 0;  ///< attempts that were given up because the tablet was elsewhere
  };
  const Stats& stats() const { return stats_; }

 private:
  // Questions about one table: at most one at a time.
  struct Refresh {
    Refresh(runtime::Executor& executor, const RetrySettings& pauses) : pace(pauses), done(executor) {}
    bool is_running = false;
    bool is_inquiring = false;
    int64_t started_ns = INT64_MIN;
    int64_t asked_ns = INT64_MIN;    // as started_ns, but also if there was no answer
    int64_t allowed_ns = INT64_MIN;  // the next question may not begin before
    Backoff pace;                    // pauses between questions whose answers are the same
    Status outcome = Status::Ok;
    runtime::Signal done;
  };

  Refresh& refreshOf(TableId table);
  RetrySettings paceOfQuestions() const {
    return {.first_ns = settings_.first_pause_ns, .longest_ns = settings_.longest_pause_ns};
  }
  void notePace(Refresh& refresh, bool has_changed);
  runtime::Task<void> inquireOnce(TableId table);

  CoordinatorStub& coordinator_;
  Pacer& pacer_;
  runtime::Random& random_;
  const FinderSettings settings_;
  TabletCache cache_;
  std::map<TableId, std::unique_ptr<Refresh>> refreshes_;
  uint64_t inquiries_ = 0;  // questions in the background that run
  Stats stats_;
};

}  // namespace ramcore::client
