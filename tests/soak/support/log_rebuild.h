#pragma once

#include "runtime/random.h"
#include "soak/support/soak_model.h"
#include "soak/support/soak_store.h"

namespace ramcore::soak {

/// What rebuild() has read.
struct Rebuilt {
  uint64_t segments = 0;
  uint64_t entries = 0;
};

/// Brings everything that a recovery would find of `source`, the segments of its newest digest, into the empty
/// `target`: the segments in any order, the entries of each in any order, dead ones, tombstones and all. A failure of
/// the current gtest case if something cannot be read or is not taken.
///
/// @param target  has twice the memory of `source`: nothing is cleaned there
/// @param self    the caller as a reader; nobody else uses either store meanwhile
void rebuild(SoakStore& source, SoakStore& target, runtime::RcuReader self, runtime::Random& random, Rebuilt& rebuilt);

/// Fails the current gtest case for each key (the first few) about which `store` and model disagree.
void compare(const SoakStore& store, const SoakModel& model, std::string_view what);

/// The same of counters: as many objects as the models have, live bytes that are the sum of what is alive.
void compareCounters(SoakStore& store, std::span<const SoakModel* const> models);

/// Fails the current gtest case if what the log has counted, of each segment and in all, is not what a walk of it
/// gives. Ends a pass that is under way first.
/// @param self  the caller as a reader and as the reclaimer; nobody else uses the store meanwhile
void recountLog(SoakStore& store, runtime::RcuReader self);

}  // namespace ramcore::soak
