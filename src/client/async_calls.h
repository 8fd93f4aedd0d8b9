#pragma once

#include <atomic>
#include <span>

#include "client/driver.h"
#include "client/master_stub.h"
#include "ramcore/client.h"
#include "runtime/fork_mark.h"

namespace ramcore::client {

/// Calls that go on by themselves: each is begun here and gives a Future. What they are begun on is lent: a program's
/// client, or the client of a simulated process.
///
/// Threads: any, as Driver allows. The bytes of single calls are copied; items of multi-calls are borrowed until their
/// future is ready.
class AsyncCalls {
 public:
  /// @param fork_mark  of the process that made the client: in another one every call ends with Forked
  AsyncCalls(Driver& driver, ClusterClient& cluster, runtime::Clock& clock, const runtime::ForkMark& fork_mark)
      : driver_(driver), cluster_(cluster), clock_(clock), fork_mark_(fork_mark) {}
  AsyncCalls(const AsyncCalls&) = delete;
  AsyncCalls& operator=(const AsyncCalls&) = delete;
  /// No call runs, and nobody has a future of one (checked, but in a process that was forked).
  ~AsyncCalls();

  /// @param request     of kind Read
  /// @param timeout_ns  from now on; the call has ended by then, if somebody drives
  Future<Result<ReadResult>> read(const PointRequest& request, int64_t timeout_ns);
  /// @param request  of another kind, with its condition
  Future<MutateResult> mutate(const PointRequest& request, int64_t timeout_ns);
  Future<size_t> multiRead(std::span<ReadItem> items, int64_t timeout_ns);
  Future<size_t> multiMutate(std::span<MutateItem> items, int64_t timeout_ns);

  /// Calls that have not ended, with futures that are held or were dropped.
  uint64_t runningCount() const { return running_.load(); }

 private:
  template <typename T>
  friend struct detail::Pending;
  template <typename T>
  friend struct PendingPoint;
  template <typename Item>
  friend struct PendingMulti;

  Driver& driver_;
  ClusterClient& cluster_;
  runtime::Clock& clock_;
  const runtime::ForkMark& fork_mark_;
  std::atomic<uint64_t> running_{0};
  std::atomic<uint64_t> live_{0};  ///< of which the program or a call has something
};

/// The outcome of a multi-operation that was not begun.
template <typename Item>
size_t refuseAll(std::span<Item> items, Status status) {
  for (Item& item : items) {
    item.status = status;
    item.version = 0;
  }
  return items.size();
}

}  // namespace ramcore::client
