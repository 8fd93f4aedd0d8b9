#include "client/async_calls.h"

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "client/point_call.h"

namespace ramcore {

using client::AsyncCalls;

namespace detail {

/// Shared by a Future and its running call. The last of the two deletes it.
template <typename T>
struct Pending : client::Driver::Waited {
  Pending(AsyncCalls& of_calls, Run begin) : Waited(begin), calls(of_calls) {
    ++calls.running_;
    ++calls.live_;
  }
  virtual ~Pending() { --calls.live_; }

  /// The outcome, in a forked process, of a call that had not ended when the process was forked.
  virtual T forked() = 0;

  bool isForked() const { return calls.fork_mark_.isForked(); }
  client::Driver& driver() { return calls.driver_; }

  /// Called by the driving thread when the call is over and `value` is there.
  void end() {
    --calls.running_;
    driver().finished(*this);
    if (is_let_go.exchange(true, std::memory_order_acq_rel)) delete this;
  }
  /// Called by the program's thread when the future is gone.
  void drop() {
    // A forked process leaves its copy alone, which may lie in memory that belongs to both processes.
    if (isForked() && !is_refused) [[unlikely]]
      return;
    if (is_let_go.exchange(true, std::memory_order_acq_rel)) delete this;
  }
  /// Ends a call that has not begun.
  void refuse(T outcome) {
    --calls.running_;
    value.emplace(std::move(outcome));
    is_refused = true;
    is_let_go.store(true, std::memory_order_relaxed);
    is_done.store(true, std::memory_order_release);
  }
  void start() {
    if (isForked()) [[unlikely]] {
      refuse(forked());
    } else {
      driver().start(*this, calls.running_.load(std::memory_order_relaxed) == 1);
    }
  }

  AsyncCalls& calls;
  std::optional<T> value;
  std::atomic<bool> is_let_go{false};  // the future or the call does not need this object any more
  bool is_refused = false;
};

}  // namespace detail

namespace client {
namespace {

template <typename T>
T pointValue(PointResult& result) {
  if constexpr (std::is_same_v<T, MutateResult>) {
    return {.status = result.status, .version = result.version, .value = result.counter};
  } else {
    if (result.status != Status::Ok) return result.status;
    ReadResult out;
    out.version = result.version;
    result.takeValue(out.value);
    result.message = {};
    return out;
  }
}

}  // namespace

/// A call on one object for which no thread waits yet. Owns its bytes.
template <typename T>
struct PendingPoint final : detail::Pending<T> {
  PendingPoint(AsyncCalls& calls, const PointRequest& point_request, int64_t timeout)
      : detail::Pending<T>(calls, &PendingPoint::begin),
        call(calls.cluster_, &PendingPoint::ended),
        request(point_request),
        timeout_ns(timeout) {
    bytes.reserve(request.key.size() + request.value.size());
    bytes.append(asText(request.key)).append(asText(request.value));
    const ByteSpan copied = asBytes(bytes);
    const size_t key_bytes = request.key.size();
    request.key = copied.first(key_bytes);
    request.value = copied.subspan(key_bytes);
  }
  T forked() override {
    if constexpr (std::is_same_v<T, MutateResult>) {
      return {.status = Status::Forked};
    } else {
      return Status::Forked;
    }
  }
  static void begin(runtime::Job& job) {
    auto& self = static_cast<PendingPoint&>(job);
    const int64_t deadline_ns = addNs(self.calls.clock_.nowNs(), self.timeout_ns);
    if (self.call.start(self.request, self.timeout_ns, deadline_ns, &self)) ended(self.call);
  }
  static void ended(PointCall& call) {
    auto& self = *static_cast<PendingPoint*>(call.owner());
    self.value.emplace(pointValue<T>(call.result));
    self.end();
  }

  PointCall call;
  std::string bytes;
  PointRequest request;
  const int64_t timeout_ns;
};

/// A multi-operation for which no thread waits yet.
template <typename Item>
struct PendingMulti final : detail::Pending<size_t> {
  PendingMulti(AsyncCalls& calls, std::span<Item> multi_items, int64_t timeout_ns)
      : Pending<size_t>(calls, &PendingMulti::begin),
        items(multi_items),
        deadline_ns(addNs(calls.clock_.nowNs(), timeout_ns)) {}
  size_t forked() override { return refuseAll(items, Status::Forked); }
  static void begin(runtime::Job& job) { carry(static_cast<PendingMulti&>(job)).detach(); }
  static runtime::Task<void> carry(PendingMulti& self) {
    if constexpr (std::is_same_v<Item, ReadItem>) {
      co_await self.calls.cluster_.multiRead(self.items, self.deadline_ns);
    } else {
      co_await self.calls.cluster_.multiMutate(self.items, self.deadline_ns);
    }
    size_t failed = 0;
    for (const Item& item : self.items) failed += item.status != Status::Ok ? 1 : 0;
    self.value.emplace(failed);
    self.end();
  }

  const std::span<Item> items;
  const int64_t deadline_ns;
};

namespace {

template <typename T, typename Call>
Future<T> begin(Call* call) {
  Future<T> future(call);
  call->start();
  return future;
}

}  // namespace

AsyncCalls::~AsyncCalls() { RC_CHECK_MSG(fork_mark_.isForked() || live_.load() == 0, "a future outlives its client"); }

Future<Result<ReadResult>> AsyncCalls::read(const PointRequest& request, int64_t timeout_ns) {
  return begin<Result<ReadResult>>(new PendingPoint<Result<ReadResult>>(*this, request, timeout_ns));
}

Future<MutateResult> AsyncCalls::mutate(const PointRequest& request, int64_t timeout_ns) {
  return begin<MutateResult>(new PendingPoint<MutateResult>(*this, request, timeout_ns));
}

Future<size_t> AsyncCalls::multiRead(std::span<ReadItem> items, int64_t timeout_ns) {
  return begin<size_t>(new PendingMulti<ReadItem>(*this, items, timeout_ns));
}

Future<size_t> AsyncCalls::multiMutate(std::span<MutateItem> items, int64_t timeout_ns) {
  return begin<size_t>(new PendingMulti<MutateItem>(*this, items, timeout_ns));
}

}  // namespace client

// ---- Future

template <typename T>
bool Future<T>::ready() const {
  // In a forked process no thread carries the call on.
  return pending_->is_done.load(std::memory_order_acquire) || pending_->isForked();
}

template <typename T>
void Future<T>::wait() {
  if (!ready()) pending_->driver().wait(*pending_);
}

template <typename T>
T Future<T>::get() {
  wait();
  T value = pending_->is_done.load(std::memory_order_acquire) ? std::move(*pending_->value) : pending_->forked();
  drop();
  return value;
}

template <typename T>
void Future<T>::drop() noexcept {
  if (pending_ != nullptr) std::exchange(pending_, nullptr)->drop();
}

template class Future<Result<ReadResult>>;
template class Future<MutateResult>;
template class Future<size_t>;

}  // namespace ramcore
