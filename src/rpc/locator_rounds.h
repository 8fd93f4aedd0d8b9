#pragma once

#include <vector>

#include "base/trace.h"
#include "transport/locator.h"

namespace ramcore::rpc {

/// The locators of one process in the order in which they are tried: in two rounds, first those that are not avoided,
/// then the others. A locator whose session opened and did not answer is avoided for 30 s.
/// Thread: the dispatch's.
class LocatorRounds {
 public:
  /// @param locators  those that this process can use, the best first; borrowed
  explicit LocatorRounds(const std::vector<transport::Locator>& locators) : locators_(locators) {}

  /// Takes the next locator of the present rounds; nullptr if all were tried.
  const transport::Locator* next(int64_t now_ns);
  /// The locator that next() gave last.
  const transport::Locator& current() const { return locators_[current_]; }
  bool hasOthers() const { return locators_.size() > 1; }
  /// True if the next one is the first.
  bool isAtBeginning() const { return next_ == 0; }
  /// Begins with the best again.
  void restart() { next_ = 0; }
  /// Gives current() another try with the next call of next().
  void repeat() { --next_; }
  /// Avoids current() for a while, and warns of it once.
  void avoid(int64_t now_ns, Trace& trace);

 private:
  /// State of the locator with the same index in locators_.
  struct Doubt {
    int64_t avoided_until_ns = 0;  // 0: the locator is not avoided
    bool is_told = false;          // a warning was printed
  };

  const std::vector<transport::Locator>& locators_;
  std::vector<Doubt> doubts_ = std::vector<Doubt>(locators_.size());
  size_t next_ = 0;
  size_t current_ = 0;
};

}  // namespace ramcore::rpc
