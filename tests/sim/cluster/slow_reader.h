#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "master/master.h"
#include "runtime/random.h"
#include "runtime/sim/sim_epoch.h"

namespace ramcore::sim {

/// A thread of a server that has looked an object up and then loses its processor: for as long as it stands still, what
/// it found has to stay as it is, whatever the cleaner does. At first it holds nothing but its read section. Later it
/// may take a pin and leave the section, as for an answer that is sent without a copy.
class SlowReader {
 public:
  /// `rcu` outlives the reader.
  explicit SlowReader(runtime::SimRcu& rcu) : rcu_(rcu) {}
  ~SlowReader() { abandon(); }
  SlowReader(const SlowReader&) = delete;
  SlowReader& operator=(const SlowReader&) = delete;

  bool isReading() const { return reading_.has_value(); }
  /// Looks up an object of the closed segment that has least alive: the cleaner is likely to be there next. False:
  /// there is none.
  bool begin(const master::Master& master, runtime::Random& random);
  /// Takes a pin instead of the section.
  void pin(master::Master& master);
  /// Goes on. Not empty: what it found is not there any more.
  std::string end(const master::Master& master);
  /// The process goes.
  void abandon();

 private:
  struct Reading {
    std::optional<runtime::RcuReader> self;  ///< in its section
    runtime::Pin pin;                        ///< afterwards
    log::EntryRef ref;
    SegmentId segment;
    uint32_t bytes = 0;
    uint64_t print = 0;
  };
  static uint64_t printOf(const log::EntryView& entry);

  runtime::SimRcu& rcu_;
  std::optional<Reading> reading_;
};

}  // namespace ramcore::sim
