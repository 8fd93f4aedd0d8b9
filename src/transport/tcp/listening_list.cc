#include "transport/tcp/listening_list.h"

#include <algorithm>

namespace ramcore::transport::tcp {

void ListeningList::add(const Locator& locator) {
  MutexGuard guard(mutex_);
  locators_.push_back(locator);
}

void ListeningList::remove(const Locator& locator) {
  MutexGuard guard(mutex_);
  const auto found = std::find(locators_.begin(), locators_.end(), locator);
  if (found != locators_.end()) locators_.erase(found);
}

std::vector<Locator> ListeningList::get() const {
  MutexGuard guard(mutex_);
  return locators_;
}

}  // namespace ramcore::transport::tcp
