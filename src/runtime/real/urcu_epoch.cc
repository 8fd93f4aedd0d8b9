#include "runtime/real/urcu_epoch.h"

#include "base/check.h"

#include <urcu-qsbr.h>

// liburcu's barriers are inline assembly inside a library that is not instrumented: ThreadSanitizer sees no order
// between a reader's last access and the reclaimer's first one unless it is told.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RC_TSAN_ANNOTATIONS 1
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif
#endif

namespace ramcore::runtime {
namespace {

// How many objects the thread is registered with. With liburcu a thread may be registered only once.
thread_local uint32_t registrations = 0;

class UrcuRcu final : public Rcu {
 public:
  RcuReader registerThread() override {
    if (registrations++ == 0) urcu_qsbr_register_thread();
    return RcuReader{0};
  }
  void unregisterThread(RcuReader) override {
    RC_CHECK(registrations > 0);
    leaveSection();
    if (--registrations == 0) urcu_qsbr_unregister_thread();
  }
  void quiescent(RcuReader) override {
    RC_DCHECK(registrations > 0);
    leaveSection();
    urcu_qsbr_quiescent_state();
  }
  void offline(RcuReader) override {
    RC_DCHECK(registrations > 0);
    leaveSection();
    urcu_qsbr_thread_offline();
  }
  void online(RcuReader) override {
    RC_DCHECK(registrations > 0);
    urcu_qsbr_thread_online();
  }

 protected:
  void beginGracePeriod() override {}
  bool finishGracePeriod() override {
    // A registered reclaimer is taken off line by liburcu while it waits.
    leaveSection();
    urcu_qsbr_synchronize_rcu();
#if defined(RC_TSAN_ANNOTATIONS)
    __tsan_acquire(this);
#endif
    return true;
  }

 private:
  void leaveSection() {
#if defined(RC_TSAN_ANNOTATIONS)
    __tsan_release(this);
#endif
  }
};

}  // namespace

std::unique_ptr<Rcu> makeUrcu() { return std::make_unique<UrcuRcu>(); }

}  // namespace ramcore::runtime
