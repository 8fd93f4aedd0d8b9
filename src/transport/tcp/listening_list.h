#pragma once

#include <vector>

#include "base/spin_lock.h"
#include "transport/locator.h"

namespace ramcore::transport::tcp {

/// Where the endpoints of one transport listen: what handshakes tell the peers. Any thread.
class ListeningList {
 public:
  void add(const Locator& locator);
  void remove(const Locator& locator);
  std::vector<Locator> get() const;

 private:
  mutable Mutex mutex_;  // a leaf
  std::vector<Locator> locators_ RC_GUARDED_BY(mutex_);
};

}  // namespace ramcore::transport::tcp
