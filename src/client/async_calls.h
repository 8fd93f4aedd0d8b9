#pragma once

#include <atomic>
#include <span>

#include "client/driver.h"
#include "client/master_stub.h"
#include "ramcore/client.h"
#include "runtime/fork_mark.h"

namespace ramcore::client {

/// Starts calls that give a Future, and that go on while some thread drives. Borrows what they run on: the parts of a
/// program's client, or of the client of a simulated process.
///
/// Threads: any, as Driver allows. The bytes of single calls are copied; items of multi-calls are borrowed until their
/// future is ready.
///
/// Timeouts: the timeout of a call on one object counts from when a driving thread begins the call, that of a
/// multi-operation from the call of the function. The call has ended by then, if some thread drives.
class AsyncCalls {
 public:
  /// @param fork_mark  of the process that made the client: in another one every call ends with Forked
  AsyncCalls(Driver& driver, ClusterClient& cluster, runtime::Clock& clock, const runtime::ForkMark& fork_mark)
      : driver_(driver), cluster_(cluster), clock_(clock), fork_mark_(fork_mark) {}
  AsyncCalls(const AsyncCalls&) = delete;
  AsyncCalls& operator=(const AsyncCalls&) = delete;
  /// No call may be running, and no future of one may be left (checked, except in a forked process).
  ~AsyncCalls();

  /// @param request  of kind Read
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
  std::atomic<uint64_t> live_{0};  ///< calls that have not ended, or whose future is left
};

/// Gives every item of a multi-operation that was not begun this status, and version 0.
/// @return how many items there are: all have failed
template <typename Item>
size_t refuseAll(std::span<Item> items, Status status) {
  for (Item& item : items) {
    item.status = status;
    item.version = 0;
  }
  return items.size();
}

}  // namespace ramcore::client
