#pragma once

#include <array>
#include <cstdint>

#include "base/points.h"
#include "runtime/random.h"
#include "sim/cluster/sim_cluster.h"

namespace ramcore::sim {

/// Lets the dispatch of a server run in the middle of a job of one of its workers, as if that had lost its processor:
/// at marked places (base/point.h), which the build preset `mutation` has. There stripes are taken and reservations
/// open, which never happens where each job runs as a whole. What runs in between runs to its end: the dispatch only
/// tries what a worker may hold.
///
/// One at a time. Does nothing in other builds.
class Interludes {
 public:
  /// All outlive it.
  Interludes(SimCluster& cluster, runtime::Random random);
  ~Interludes();
  Interludes(const Interludes&) = delete;
  Interludes& operator=(const Interludes&) = delete;

  /// In the order of Point: how often something ran there in between, or it was reached.
  using Counts = std::array<uint64_t, kPointCount>;
  const Counts& counts() const { return counts_; }

 private:
  void reached(Point point);

  SimCluster& cluster_;
  runtime::Random random_;
  bool is_between_ = false;
  Counts counts_{};
};

/// For people, in totals.
const char* name(Point point);

}  // namespace ramcore::sim
