#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "bench/support/machine.h"
#include "bench/support/statistics.h"

namespace ramcore::bench {

/// Prints figures for people as they come, and all of them once more as one line "json {...}" for programs.
class Report {
 public:
  explicit Report(std::string bench)
      : bench_(std::move(bench)), steal_begin_s_(stealSeconds()), begin_s_(nowSeconds()) {}

  /// One figure, measured once a round.
  void figure(const std::string& name, const std::string& unit, const std::vector<double>& rounds) {
    const double low = quantile(rounds, 0.25), median = quantile(rounds, 0.5), high = quantile(rounds, 0.75);
    std::printf("  %-46s %10.3f %-6s  quartiles %9.3f .. %9.3f\n", name.c_str(), median, unit.c_str(), low, high);
    std::fflush(stdout);
    add(name, unit, low, median, high, "");
  }

  enum class Goal { AtMost, AtLeast };
  /// A figure or ratio with a target.
  void target(const std::string& name, const std::string& unit, const std::vector<double>& rounds, Goal goal,
              double limit) {
    const double low = quantile(rounds, 0.25), median = quantile(rounds, 0.5), high = quantile(rounds, 0.75);
    const bool met = goal == Goal::AtMost ? median <= limit : median >= limit;
    std::printf("  %-46s %10.3f %-6s  quartiles %9.3f .. %9.3f  target %s %.2f: %s\n", name.c_str(), median,
                unit.c_str(), low, high, goal == Goal::AtMost ? "<=" : ">=", limit, met ? "met" : "MISSED");
    std::fflush(stdout);
    char extra[96];
    std::snprintf(extra, sizeof(extra), ",\"%s\":%g,\"met\":%s", goal == Goal::AtMost ? "at_most" : "at_least", limit,
                  met ? "true" : "false");
    add(name, unit, low, median, high, extra);
  }

  /// Says whether the rounds of a peer are so different that nothing follows from a comparison.
  bool isNoisy(const std::string& name, const std::vector<double>& peer_rounds) {
    const double by = spread(peer_rounds);
    if (by <= 1.5) return false;
    std::printf("  noisy: the rounds of %s differ by %.2fx\n", name.c_str(), by);
    noisy_ = true;
    return true;
  }

  /// Starts over, because what was printed so far says nothing.
  void discard() {
    std::printf("  repeating\n");
    results_.clear();
    noisy_ = false;
  }

  void finish(int rounds) {
    const double steal_s = stealSeconds() - steal_begin_s_;
    std::printf("  %d rounds in %.1f s, steal %.2f s, load %.1f%s\n", rounds, nowSeconds() - begin_s_, steal_s,
                loadAverage(), noisy_ ? ", noisy" : "");
    std::printf("json {\"bench\":\"%s\",\"rounds\":%d,\"steal_s\":%.2f,\"load\":%.2f,\"noisy\":%s,\"results\":[%s]}\n",
                bench_.c_str(), rounds, steal_s, loadAverage(), noisy_ ? "true" : "false", results_.c_str());
    std::fflush(stdout);
  }

 private:
  void add(const std::string& name, const std::string& unit, double low, double median, double high,
           const std::string& extra) {
    char line[512];
    std::snprintf(line, sizeof(line),
                  "%s{\"name\":\"%s\",\"unit\":\"%s\",\"median\":%.4g,\"low\":%.4g,\"high\":%.4g%s}",
                  results_.empty() ? "" : ",", name.c_str(), unit.c_str(), median, low, high, extra.c_str());
    results_ += line;
  }

  const std::string bench_;
  const double steal_begin_s_;
  const double begin_s_;
  std::string results_;
  bool noisy_ = false;
};

}  // namespace ramcore::bench
