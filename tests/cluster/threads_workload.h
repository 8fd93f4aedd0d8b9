#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "client/coordinator_stub.h"
#include "ramcore/client.h"

namespace ramcore::cluster {

/// Counts what all threads of a workload have done, for those that wait for it: they sleep meanwhile, because threads
/// that watch take the processors that the watched need.
///
/// Any thread.
class StepCount {
 public:
  void add() {
    if (count_.fetch_add(1) + 1 >= next_.load()) announce();
  }
  /// There will be no further steps: nobody waits any more.
  void end();
  /// Waits until there were so many steps. False if they have ended before.
  bool await(uint64_t count);
  uint64_t load() const { return count_.load(); }

 private:
  void announce();

  std::atomic<uint64_t> count_{0};
  std::atomic<uint64_t> next_{~uint64_t{0}};  // the least that is waited for
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multiset<uint64_t> awaited_;
  bool has_ended_ = false;
};

/// Counts of all threads of a workload together.
struct WorkloadTotals {
  StepCount steps;
  std::atomic<uint64_t> scans{0};
  std::atomic<uint64_t> multi_items{0};
  std::atomic<uint64_t> increments{0};
  std::atomic<uint64_t> futures{0};
};

/// One thread's use of a table: it alone changes the keys it owns, so it knows what every answer must be; counters are
/// shared, and it knows what it added to them. Every mismatch is a gtest failure.
///
/// Thread: its own; the client may be shared with others.
class WorkloadThread {
 public:
  static constexpr uint32_t kKeys = 120;
  static constexpr uint32_t kSharedCounters = 6;

  WorkloadThread(uint32_t number, Client& client, Table table, WorkloadTotals& totals);

  /// One operation of a random kind, checked. False after a mismatch: there is no use in going on.
  bool step();

  /// Reads all it owns once more, through any client.
  void verify(Client& client) const;
  size_t objectCount() const { return objects_.size(); }
  /// The sum that this thread added to a shared counter. It may be 0 also after additions: hasTouched() says whether
  /// there were any.
  uint64_t addedTo(uint32_t counter) const { return added_[counter]; }
  bool hasTouched(uint32_t counter) const { return touched_[counter]; }
  static std::string counterName(uint32_t counter) { return "shared" + std::to_string(counter); }
  /// Whose key it is: the number of a thread, or nothing for a shared counter.
  static bool isOwnedBy(const std::string& key, uint32_t number);

 private:
  struct Known {
    std::string value;
    uint64_t version = 0;
  };

  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }
  std::string keyName(uint32_t key) const;
  std::string anyKey() { return keyName(below(kKeys)); }
  std::string counterKey();
  std::string newValue(const std::string& key);
  /// Takes over what a mutation answered; versions of a key only rise, also across its removal.
  void wrote(const std::string& key, const std::string& value, uint64_t version);
  void removed(const std::string& key, uint64_t version);
  void checkObject(const std::string& key, Status status, const std::string& value, uint64_t version) const;

  void write();
  void writeIf();
  void remove();
  void read();
  void incrementOwn();
  void incrementShared();
  void multiRead();
  void multiMutate();
  void readFutures();
  void scan();

  const uint32_t number_;
  Client& client_;
  const Table table_;
  WorkloadTotals& totals_;
  std::mt19937_64 random_;
  uint64_t writes_ = 0;
  std::map<std::string, Known> objects_;
  std::map<std::string, uint64_t> last_version_;  // the highest seen of each key
  std::array<uint64_t, kSharedCounters> added_{};
  std::array<bool, kSharedCounters> touched_{};
};

/// The administrator: moves random tablets to random servers, one or two at a time, and splits some. It looks after its
/// moves again when the others have gone on a step.
class AdministratorThread {
 public:
  AdministratorThread(Client& client, std::string table_name, std::vector<ServerId> servers, StepCount& steps,
                      uint64_t seed);

  /// One move, or a split while there are few tablets; done when it returns.
  void step();
  /// Moves two tablets at a time; both moves are over when it returns. Now and then it is step() instead.
  void stepOfTwo();
  uint64_t movesDone() const { return moves_done_.load(); }
  /// Pairs of moves that were under way together at one moment at least.
  uint64_t pairsDone() const { return pairs_done_.load(); }
  uint64_t splitsDone() const { return splits_done_.load(); }

 private:
  client::TableMap fetchMap();
  /// @return nothing: it was refused
  std::optional<uint64_t> beginMove(const client::TabletInfo& tablet);
  client::MigrationStatus::State stateOf(uint64_t migration);
  bool awaitMove(uint64_t migration);
  /// Whether both were under way at the moment in which the second one was looked at.
  bool areBothUnderWay(uint64_t first, uint64_t second);
  /// A server that was started again has another id.
  void findServers();

  Client& client_;
  const std::string table_name_;
  std::vector<ServerId> servers_;
  StepCount& steps_;
  std::mt19937_64 random_;
  std::atomic<uint64_t> moves_done_{0};
  std::atomic<uint64_t> splits_done_{0};
  std::atomic<uint64_t> pairs_done_{0};
};

}  // namespace ramcore::cluster
