#include "store/server_lease.h"

#include "base/mutation.h"

namespace ramcore::store {

void ServerLease::renewed(int64_t sent_ns, int64_t lease_ns) {
  int64_t until = sent_ns + lease_ns / 10 * (RC_MUTATION("count-the-whole-lease") ? 10 : 9);
  if (RC_MUTATION("serve-after-lease")) until = INT64_MAX;
  int64_t known = valid_until_ns_.load(std::memory_order_relaxed);
  while (known < until && !valid_until_ns_.compare_exchange_weak(known, until, std::memory_order_relaxed)) {
  }
}

}  // namespace ramcore::store
