#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/log/log_fixture.h"

namespace ramcore::log {

/// The changes of each key, and where they end in the log. A recovery may find the state after the last durable change,
/// or after any later one.
class DurableHistory {
 public:
  void note(const std::string& key, std::optional<std::string> value, LogPosition end) {
    changes_[key].push_back({std::move(value), end});
  }
  void check(const Log& log, const std::map<std::string, std::string>& recovered, const std::string& when) {
    for (auto& [key, list] : changes_) {
      size_t durable = 0;
      for (size_t i = 0; i < list.size(); ++i) {
        if (log.durability().isDurable(list[i].end)) durable = i + 1;
      }
      const auto found = recovered.find(key);
      const std::optional<std::string> value = found == recovered.end() ? std::nullopt : std::optional(found->second);
      bool allowed = durable == 0 && !value;
      for (size_t i = durable == 0 ? 0 : durable - 1; i < list.size(); ++i) allowed = allowed || list[i].value == value;
      ASSERT_TRUE(allowed) << key << " " << when << ": recovered " << value.value_or("nothing");
      if (durable > 1) list.erase(list.begin(), list.begin() + static_cast<ptrdiff_t>(durable) - 1);
    }
  }

 private:
  struct Change {
    std::optional<std::string> value;
    LogPosition end;
  };
  std::map<std::string, std::vector<Change>> changes_;
};

/// Writes, removes, steps of cleaning, and reports of replication, in a random order.
struct CrashTrial {
  uint64_t seed = 1;
  int steps = 5000;
  int judged_every = 7;  ///< how many steps there are between two checks of what a crash would leave behind
  uint32_t keys = 40;
  size_t value_bytes_max = 650;
  uint32_t flush_percent = 0;  ///< the share of reports that something is durable which report flushes, too
  /// Shares of the compacted segments whose replicas were lost and made again; each share is checked.
  std::vector<uint32_t> lost_percents = {0};

  /// @param clean  called with the random numbers, for one step of cleaning
  template <typename Clean>
  void run(LogFixture& fixture, Clean&& clean) {
    fixture.copies.setAutomatic(false);
    std::mt19937_64 random(seed);
    DurableHistory history;
    for (int step = 0; step < steps; ++step) {
      switch (random() % 16) {
        case 0:
          fixture.copies.deliverOpens();
          break;
        case 1:
        case 2:
          fixture.copies.deliverAdvances();
          if (random() % 100 < flush_percent) fixture.copies.deliverFlushes();
          break;
        case 3:
          fixture.copies.deliverCloses();
          break;
        case 4:
        case 5:
          clean(random);
          break;
        case 6:
          fixture.reclaim();
          break;
        default:
          change(fixture, random, history, step);
      }
      if (step % judged_every != 0) continue;
      judge(fixture, random, history, step);
      if (testing::Test::HasFatalFailure()) return;
    }
  }

 private:
  void change(LogFixture& fixture, std::mt19937_64& random, DurableHistory& history, int step) const {
    const std::string key = "k" + std::to_string(random() % keys);
    const bool removes = random() % 4 == 0;
    const std::string value(50 + random() % (value_bytes_max - 50), static_cast<char>('a' + step % 26));
    const Status status =
        removes ? fixture.owner.remove(*fixture.log, key) : fixture.owner.put(*fixture.log, key, value);
    if (status == Status::Ok) history.note(key, removes ? std::nullopt : std::optional(value), fixture.owner.end());
  }
  void judge(LogFixture& fixture, std::mt19937_64& random, DurableHistory& history, int step) const {
    for (const uint32_t lost_percent : lost_percents) {
      const auto recovered =
          recover(fixture.copies.replicasMadeAgain([&](SegmentId) { return random() % 100 < lost_percent; }));
      const std::string when = "seed " + std::to_string(seed) + " step " + std::to_string(step) + " lost " +
                               std::to_string(lost_percent) + " %";
      ASSERT_TRUE(recovered.has_value()) << when << ": no complete log";
      history.check(*fixture.log, *recovered, when);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
};

}  // namespace ramcore::log
