#pragma once

// The only include of libibverbs.
#include <infiniband/verbs.h>

#include <memory>

namespace ramcore::transport::verbs {

/// Gives an object of libibverbs back. Some objects cannot be given back while others depend on them, so owners are
/// declared behind those that they depend on, and go first.
template <auto kClose>
struct Closer {
  template <typename T>
  void operator()(T* object) const {
    static_cast<void>(kClose(object));
  }
};

using Context = std::unique_ptr<ibv_context, Closer<&ibv_close_device>>;
using ProtectionDomain = std::unique_ptr<ibv_pd, Closer<&ibv_dealloc_pd>>;
using CompletionChannel = std::unique_ptr<ibv_comp_channel, Closer<&ibv_destroy_comp_channel>>;
using CompletionQueue = std::unique_ptr<ibv_cq, Closer<&ibv_destroy_cq>>;
using SharedReceiveQueue = std::unique_ptr<ibv_srq, Closer<&ibv_destroy_srq>>;
using RawQueuePair = std::unique_ptr<ibv_qp, Closer<&ibv_destroy_qp>>;
using MemoryRegion = std::unique_ptr<ibv_mr, Closer<&ibv_dereg_mr>>;
using MemoryWindow = std::unique_ptr<ibv_mw, Closer<&ibv_dealloc_mw>>;

}  // namespace ramcore::transport::verbs
