#pragma once

#include <atomic>
#include <functional>

#include "log/cleaner.h"
#include "log/log.h"
#include "master/hash_index.h"
#include "master/object_store.h"
#include "runtime/epoch.h"
#include "runtime/executor.h"

namespace ramcore::master {

/// The background work of a master, in slices on one executor: cleaning, reclamation, removed keys, memory for the
/// index before it grows into it. Sleeps while there
/// is nothing to do; no tick. It is the reclaimer of the Rcu.
class Maintenance : private runtime::Job {
 public:
  struct Parts {
    log::Log& log;
    log::Cleaner& cleaner;
    ObjectStore& store;
    index::HashIndex& index;
    runtime::Rcu& rcu;
  };
  Maintenance(runtime::Executor& executor, const Parts& parts);
  /// No slice is queued (checked).
  ~Maintenance();

  /// There may be something to do. Any thread; cheap when a slice is queued already.
  void poke();
  /// True if a poke would find something: a few loads, for after a mutation.
  bool isDue() const { return parts_.cleaner.isNeeded() || parts_.rcu.pending() || parts_.index.prefaultIsDue(); }
  /// The slice that is queued, or the next one, is the last. Any thread; watch stopped().
  void stop();
  bool stopped() const { return stop_.load() && !scheduled_.load(); }

 private:
  void slice();
  runtime::Priority urgency() const;

  struct Again : runtime::Timer {
    explicit Again(Maintenance& owner)
        : runtime::Timer([](runtime::Timer& timer) { static_cast<Again&>(timer).owner.slice(); }), owner(owner) {}
    Maintenance& owner;
  };

  runtime::Executor& executor_;
  const Parts parts_;
  Again again_;
  std::atomic<bool> scheduled_{false};
  std::atomic<bool> poked_{false};
  std::atomic<bool> stop_{false};
};

}  // namespace ramcore::master
