#include <optional>
#include <type_traits>
#include <utility>

#include "client/client_impl.h"
#include "client/point_call.h"

namespace ramcore {

using client::ClusterClient;
using client::PointCall;
using client::PointRequest;
using wire::Opcode;

namespace detail {

/// What a Future and its running call share. Whoever is the last of the two deletes it.
template <typename T>
struct Pending : client::Driver::Waited {
  Pending(Client::Impl& client, Run begin) : Waited(begin), impl(client) {
    ++impl.running_futures;
    ++impl.live_futures;
  }
  virtual ~Pending() { --impl.live_futures; }

  /// What a call gives that had not ended when the process was forked.
  virtual T forked() = 0;

  /// The driving thread: the call is over and `value` is there.
  void end() {
    --impl.running_futures;
    impl.driver().finished(*this);
    if (is_let_go.exchange(true, std::memory_order_acq_rel)) delete this;
  }
  /// The program's thread: the future is gone.
  void drop() {
    // What a fork copied may lie in memory that belongs to both processes.
    if (impl.isForked() && !is_refused) [[unlikely]]
      return;
    if (is_let_go.exchange(true, std::memory_order_acq_rel)) delete this;
  }
  /// The call ends before it began.
  void refuse(T outcome) {
    --impl.running_futures;
    value.emplace(std::move(outcome));
    is_refused = true;
    is_let_go.store(true, std::memory_order_relaxed);
    is_done.store(true, std::memory_order_release);
  }
  void start() { impl.driver().start(*this, impl.running_futures.load(std::memory_order_relaxed) == 1); }

  Client::Impl& impl;
  std::optional<T> value;
  std::atomic<bool> is_let_go{false};  // by one of the two
  bool is_refused = false;
};

}  // namespace detail

namespace {

using detail::Pending;

template <typename T>
T forkedValue() {
  if constexpr (std::is_same_v<T, MutateResult>) {
    return {.status = Status::Forked};
  } else {
    return Status::Forked;
  }
}

template <typename T>
T pointValue(client::PointResult& result) {
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

/// A call on one object that nobody waits for yet. Owns its bytes.
template <typename T>
struct PendingPoint final : Pending<T> {
  PendingPoint(Client::Impl& client, const PointRequest& point_request, const CallOptions& options)
      : Pending<T>(client, &PendingPoint::begin),
        call(client.cluster(), &PendingPoint::ended),
        request(point_request),
        timeout_ns(client.timeoutNs(options.timeout)) {
    bytes.reserve(request.key.size() + request.value.size());
    bytes.append(asText(request.key)).append(asText(request.value));
    const ByteSpan copied = asBytes(bytes);
    const size_t key_bytes = request.key.size();
    request.key = copied.first(key_bytes);
    request.value = copied.subspan(key_bytes);
    request.condition = static_cast<wire::Condition>(options.condition.kind());
    request.condition_version = options.condition.version();
  }
  T forked() override { return forkedValue<T>(); }
  static void begin(runtime::Job& job) {
    auto& self = static_cast<PendingPoint&>(job);
    const int64_t deadline_ns = client::addNs(self.impl.nowNs(), self.timeout_ns);
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

/// A multi-operation that nobody waits for yet.
template <typename Item>
struct PendingMulti final : Pending<size_t> {
  PendingMulti(Client::Impl& client, std::span<Item> multi_items, const CallOptions& options)
      : Pending<size_t>(client, &PendingMulti::begin),
        items(multi_items),
        deadline_ns(client::addNs(client.nowNs(), client.timeoutNs(options.timeout))) {}
  size_t forked() override { return client::refuseAll(items, Status::Forked); }
  static void begin(runtime::Job& job) { carry(static_cast<PendingMulti&>(job)).detach(); }
  static runtime::Task<void> carry(PendingMulti& self) {
    if constexpr (std::is_same_v<Item, ReadItem>) {
      co_await self.impl.cluster().multiRead(self.items, self.deadline_ns);
    } else {
      co_await self.impl.cluster().multiMutate(self.items, self.deadline_ns);
    }
    size_t failed = 0;
    for (const Item& item : self.items) failed += item.status != Status::Ok ? 1 : 0;
    self.value.emplace(failed);
    self.end();
  }

  const std::span<Item> items;
  const int64_t deadline_ns;
};

template <typename T>
Future<T> startPoint(Client::Impl& impl, const PointRequest& request, const CallOptions& options) {
  auto* pending = new PendingPoint<T>(impl, request, options);
  Future<T> future(pending);
  if (impl.isForked()) [[unlikely]] {
    pending->refuse(forkedValue<T>());
  } else {
    pending->start();
  }
  return future;
}

template <typename Item>
Future<size_t> startMulti(Client::Impl& impl, std::span<Item> items, const CallOptions& options) {
  auto* pending = new PendingMulti<Item>(impl, items, options);
  Future<size_t> future(pending);
  if (impl.isForked()) [[unlikely]] {
    pending->refuse(client::refuseAll(items, Status::Forked));
  } else {
    pending->start();
  }
  return future;
}

PointRequest pointRequest(Opcode kind, Table table, std::string_view key) {
  return {.kind = kind, .table = TableId(table.id), .key = asBytes(key)};
}

}  // namespace

// ---- Future

template <typename T>
bool Future<T>::ready() const {
  // In a forked process nobody carries the call any more.
  return pending_->is_done.load(std::memory_order_acquire) || pending_->impl.isForked();
}

template <typename T>
void Future<T>::wait() {
  if (!ready()) pending_->impl.driver().wait(*pending_);
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

// ---- Client

Future<Result<ReadResult>> Client::readAsync(Table table, std::string_view key, const CallOptions& options) {
  return startPoint<Result<ReadResult>>(*impl_, pointRequest(Opcode::Read, table, key), options);
}

Future<MutateResult> Client::writeAsync(Table table, std::string_view key, std::string_view value,
                                        const CallOptions& options) {
  PointRequest request = pointRequest(Opcode::Write, table, key);
  request.value = asBytes(value);
  return startPoint<MutateResult>(*impl_, request, options);
}

Future<MutateResult> Client::removeAsync(Table table, std::string_view key, const CallOptions& options) {
  return startPoint<MutateResult>(*impl_, pointRequest(Opcode::Remove, table, key), options);
}

Future<MutateResult> Client::incrementAsync(Table table, std::string_view key, int64_t delta,
                                            const CallOptions& options) {
  PointRequest request = pointRequest(Opcode::Increment, table, key);
  request.delta = delta;
  return startPoint<MutateResult>(*impl_, request, options);
}

Future<size_t> Client::multiReadAsync(std::span<ReadItem> items, const CallOptions& options) {
  return startMulti(*impl_, items, options);
}

Future<size_t> Client::multiMutateAsync(std::span<MutateItem> items, const CallOptions& options) {
  return startMulti(*impl_, items, options);
}

}  // namespace ramcore
