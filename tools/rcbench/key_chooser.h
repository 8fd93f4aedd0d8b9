#pragma once

#include <cstdint>
#include <set>

#include "runtime/random.h"

namespace ramcore::rcbench {

/// Ranks 0, 1, 2, … drawn so that rank r comes with a probability proportional to 1 / (r + 1)^skew (Gray et al.,
/// "Quickly generating billion-record synthetic databases", 1994; the same generator as YCSB's). The population may
/// grow.
class ZipfianRank {
 public:
  /// @param skew  0 < skew < 1; 0.99 is YCSB's. Cost: one pow() for each of the first 10 million of `population`.
  ZipfianRank(uint64_t population, double skew);
  /// Makes the population at least `population`; costs one pow() for each of the first 10 million that is added.
  void grow(uint64_t population);
  uint64_t next(runtime::Random& random) const;

 private:
  void update();

  const double skew_;
  const double alpha_;
  const double zeta_of_two_;
  uint64_t population_ = 0;
  double zeta_ = 0;
  double eta_ = 0;
};

enum class Distribution : uint8_t {
  Uniform,
  Zipfian,  ///< skewed; the popular records are spread over the key space
  Latest,   ///< skewed towards the records inserted last
};

/// Which record the next operation takes.
class KeyChooser {
 public:
  KeyChooser(Distribution distribution, double skew, uint64_t record_count);
  /// @param record_count  records that exist now; never fewer than before.
  uint64_t next(uint64_t record_count, runtime::Random& random);

 private:
  const Distribution distribution_;
  ZipfianRank rank_;
};

/// Gives numbers to new records, and knows below which number all records are acknowledged: only those are read.
class InsertCounter {
 public:
  explicit InsertCounter(uint64_t record_count) : next_(record_count), acknowledged_(record_count) {}
  uint64_t begin() { return next_++; }
  /// The insert of `record` is over, whether it succeeded or not; acknowledged() does not wait for it any more.
  void finish(uint64_t record);
  /// All records below this one are written (or failed).
  uint64_t acknowledged() const { return acknowledged_; }

 private:
  uint64_t next_;
  uint64_t acknowledged_;
  std::set<uint64_t> finished_ahead_;
};

}  // namespace ramcore::rcbench
