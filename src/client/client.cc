#include "ramcore/client.h"

#include <algorithm>
#include <utility>

#include "client/client_impl.h"
#include "client/point_call.h"

namespace ramcore {
namespace {

using client::ClusterClient;
using client::PointCall;
using client::PointRequest;
using client::PointResult;
using wire::Opcode;

PointRequest pointRequest(Opcode kind, Table table, std::string_view key, const Condition& condition = {}) {
  return {.kind = kind,
          .table = TableId(table.id),
          .key = asBytes(key),
          .condition = static_cast<wire::Condition>(condition.kind()),
          .condition_version = condition.version()};
}

/// A call on one object that this thread waits for. Lives on the stack; allocates nothing.
struct WaitedPoint final : client::Driver::Waited {
  WaitedPoint(Client::Impl& client, const PointRequest& point_request, int64_t timeout)
      : Waited(&WaitedPoint::begin),
        impl(client),
        call(client.cluster(), &WaitedPoint::ended),
        request(point_request),
        timeout_ns(timeout) {
    look = &WaitedPoint::lookAtClock;
  }
  static void begin(runtime::Job& job) {
    auto& self = static_cast<WaitedPoint&>(job);
    // A thread that drives while it waits looks at the clock now and then; for others a timer has to do it.
    const int64_t deadline_ns =
        self.is_driven_by_waiter ? runtime::kNever : client::addNs(self.impl.nowNs(), self.timeout_ns);
    if (self.call.start(self.request, self.timeout_ns, deadline_ns, &self)) self.impl.driver().finished(self);
  }
  static void ended(PointCall& call) {
    auto& self = *static_cast<WaitedPoint*>(call.owner());
    self.impl.driver().finished(self);
  }
  static void lookAtClock(Waited& waited, int64_t now_ns) {
    auto& self = static_cast<WaitedPoint&>(waited);
    if (self.deadline_ns == runtime::kNever) self.deadline_ns = client::addNs(now_ns, self.timeout_ns);
    self.call.expire(now_ns, self.deadline_ns);
  }

  Client::Impl& impl;
  PointCall call;
  const PointRequest& request;
  const int64_t timeout_ns;
  int64_t deadline_ns = runtime::kNever;
};

MutateResult runMutation(Client::Impl& impl, const PointRequest& request, const CallOptions& options) {
  if (impl.isForked()) [[unlikely]]
    return {.status = Status::Forked};
  WaitedPoint waited(impl, request, impl.timeoutNs(options.timeout));
  impl.driver().runToEnd(waited);
  const PointResult& result = waited.call.result;
  return {.status = result.status, .version = result.version, .value = result.counter};
}

template <typename Item>
size_t countFailed(std::span<const Item> items) {
  return static_cast<size_t>(
      std::count_if(items.begin(), items.end(), [](const Item& item) { return item.status != Status::Ok; }));
}

}  // namespace

// ---- Client

Outcome<Client> Client::connect(const detail::PlainClientOptions& from) {
  ClientOptions options;
  options.coordinators.assign(from.coordinators.begin(), from.coordinators.end());
  options.cluster_name = from.cluster_name;
  options.secret_file = from.secret_file;
  options.default_timeout = from.default_timeout;
  options.connect_timeout = from.connect_timeout;
  options.spin_time = from.spin_time;
  options.background_thread = from.background_thread;
  options.administrator = from.administrator;
  options.rdma_device = from.rdma_device;
  options.rdma_traffic_class = from.rdma_traffic_class;
  options.rdma_service_level = from.rdma_service_level;
  options.dpdk.ports.assign(from.dpdk_ports.begin(), from.dpdk_ports.end());
  options.dpdk.address = from.dpdk_address;
  options.dpdk.mtu = from.dpdk_mtu;
  options.dpdk.memory_mb = from.dpdk_memory_mb;
  options.dpdk.huge_pages = from.dpdk_huge_pages;
  options.dpdk.arguments = from.dpdk_arguments;
  options.dpdk.seal = from.dpdk_seal;
  options.dpdk.faults = from.dpdk_faults;
  options.log_level = from.log_level;
  auto impl = Impl::open(options);
  if (!impl) return impl.error();
  return Client(std::move(impl).value());
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&& other) noexcept {
  if (this != &other) Impl::end(std::exchange(impl_, std::move(other.impl_)));
  return *this;
}
Client::~Client() { Impl::end(std::move(impl_)); }

bool Client::poll() { return !impl_->isForked() && impl_->driver().poll(); }

// ---- tables

Result<Table> Client::createTable(std::string_view name, uint32_t tablet_count, const CallOptions& options) {
  return createTable(name, TableOptions{.tablet_count = tablet_count}, options);
}

Result<Table> Client::createTable(std::string_view name, const TableOptions& table, const CallOptions& options) {
  const auto made = impl_->runTask(options.timeout, [&](ClusterClient& cluster, int64_t deadline_ns) {
    return cluster.createTable(std::string(name), table.tablet_count, deadline_ns, table.durability);
  });
  if (!made) return made.error();
  return Table{made->value};
}

Status Client::dropTable(std::string_view name, const CallOptions& options) {
  return impl_->runTask(options.timeout, [&](ClusterClient& cluster, int64_t deadline_ns) {
    return cluster.dropTable(std::string(name), deadline_ns);
  });
}

Status Client::listTables(void (*add)(void* to, TableInfo& table), void* to, const CallOptions& options) {
  auto tables = impl_->runTask(
      options.timeout, [](ClusterClient& cluster, int64_t deadline_ns) { return cluster.listTables(deadline_ns); });
  if (!tables) return tables.error();
  for (TableInfo& table : *tables) add(to, table);
  return Status::Ok;
}

Result<Table> Client::openTable(std::string_view name, const CallOptions& options) {
  const auto found = impl_->runTask(options.timeout, [&](ClusterClient& cluster, int64_t deadline_ns) {
    return cluster.openTable(std::string(name), deadline_ns);
  });
  if (!found) return found.error();
  return Table{found->value};
}

// ---- one object

Result<uint64_t> Client::read(Table table, std::string_view key, std::string& value, const CallOptions& options) {
  if (impl_->isForked()) [[unlikely]]
    return Status::Forked;
  const PointRequest request = pointRequest(Opcode::Read, table, key);
  WaitedPoint waited(*impl_, request, impl_->timeoutNs(options.timeout));
  impl_->driver().runToEnd(waited);
  const PointResult& result = waited.call.result;
  if (result.status != Status::Ok) return result.status;
  result.takeValue(value);
  return result.version;
}

Result<ReadResult> Client::read(Table table, std::string_view key, const CallOptions& options) {
  ReadResult out;
  const Result<uint64_t> version = read(table, key, out.value, options);
  if (!version) return version.error();
  out.version = *version;
  return out;
}

Result<ReadSize> Client::read(Table table, std::string_view key, std::span<std::byte> buffer,
                              const CallOptions& options) {
  if (impl_->isForked()) [[unlikely]]
    return Status::Forked;
  const PointRequest request = pointRequest(Opcode::Read, table, key);
  WaitedPoint waited(*impl_, request, impl_->timeoutNs(options.timeout));
  impl_->driver().runToEnd(waited);
  const PointResult& result = waited.call.result;
  if (result.status != Status::Ok) return result.status;
  result.copyValue(buffer);
  return ReadSize{.value_bytes = result.value_bytes, .version = result.version};
}

MutateResult Client::write(Table table, std::string_view key, std::string_view value, const CallOptions& options) {
  PointRequest request = pointRequest(Opcode::Write, table, key, options.condition);
  request.value = asBytes(value);
  return runMutation(*impl_, request, options);
}

MutateResult Client::remove(Table table, std::string_view key, const CallOptions& options) {
  return runMutation(*impl_, pointRequest(Opcode::Remove, table, key, options.condition), options);
}

MutateResult Client::increment(Table table, std::string_view key, int64_t delta, const CallOptions& options) {
  PointRequest request = pointRequest(Opcode::Increment, table, key, options.condition);
  request.delta = delta;
  return runMutation(*impl_, request, options);
}

// ---- several objects

size_t Client::multiRead(std::span<ReadItem> items, const CallOptions& options) {
  if (impl_->isForked()) [[unlikely]]
    return client::refuseAll(items, Status::Forked);
  impl_->runTask(options.timeout, [items](ClusterClient& cluster, int64_t deadline_ns) {
    return cluster.multiRead(items, deadline_ns);
  });
  return countFailed<ReadItem>(items);
}

size_t Client::multiMutate(std::span<MutateItem> items, const CallOptions& options) {
  if (impl_->isForked()) [[unlikely]]
    return client::refuseAll(items, Status::Forked);
  impl_->runTask(options.timeout, [items](ClusterClient& cluster, int64_t deadline_ns) {
    return cluster.multiMutate(items, deadline_ns);
  });
  return countFailed<MutateItem>(items);
}

// ---- calls that go on by themselves

Future<Result<ReadResult>> Client::readAsync(Table table, std::string_view key, const CallOptions& options) {
  return impl_->async().read(pointRequest(Opcode::Read, table, key), impl_->timeoutNs(options.timeout));
}

Future<MutateResult> Client::writeAsync(Table table, std::string_view key, std::string_view value,
                                        const CallOptions& options) {
  PointRequest request = pointRequest(Opcode::Write, table, key, options.condition);
  request.value = asBytes(value);
  return impl_->async().mutate(request, impl_->timeoutNs(options.timeout));
}

Future<MutateResult> Client::removeAsync(Table table, std::string_view key, const CallOptions& options) {
  return impl_->async().mutate(pointRequest(Opcode::Remove, table, key, options.condition),
                               impl_->timeoutNs(options.timeout));
}

Future<MutateResult> Client::incrementAsync(Table table, std::string_view key, int64_t delta,
                                            const CallOptions& options) {
  PointRequest request = pointRequest(Opcode::Increment, table, key, options.condition);
  request.delta = delta;
  return impl_->async().mutate(request, impl_->timeoutNs(options.timeout));
}

Future<size_t> Client::multiReadAsync(std::span<ReadItem> items, const CallOptions& options) {
  return impl_->async().multiRead(items, impl_->timeoutNs(options.timeout));
}

Future<size_t> Client::multiMutateAsync(std::span<MutateItem> items, const CallOptions& options) {
  return impl_->async().multiMutate(items, impl_->timeoutNs(options.timeout));
}

// ---- enumeration

struct Scan::State {
  Client::Impl& impl;
  std::optional<std::chrono::nanoseconds> timeout;
  client::ScanCursor cursor;
  std::vector<Object> batch = {};
  size_t next = 0;
  Status status = Status::Ok;
};

Scan::Scan(std::unique_ptr<State> state) : state_(std::move(state)) {}
Scan::Scan(Scan&&) noexcept = default;
Scan& Scan::operator=(Scan&&) noexcept = default;
Scan::~Scan() = default;

Status Scan::status() const { return state_->status; }

const Object* Scan::next() {
  State& state = *state_;
  if (state.impl.isForked()) [[unlikely]] {
    state.status = Status::Forked;
    return nullptr;
  }
  while (state.next == state.batch.size()) {
    if (state.cursor.is_end) return nullptr;
    state.next = 0;
    state.status = state.impl.runTask(state.timeout, [&state](ClusterClient& cluster, int64_t deadline_ns) {
      return cluster.scanNext(state.cursor, state.batch, deadline_ns);
    });
    if (state.status != Status::Ok) return nullptr;
  }
  return &state.batch[state.next++];
}

Scan Client::scan(Table table, const ScanOptions& options) {
  return Scan(std::make_unique<Scan::State>(
      Scan::State{.impl = *impl_,
                  .timeout = options.timeout,
                  .cursor = {.table = TableId(table.id), .batch_bytes = options.batch_bytes}}));
}

}  // namespace ramcore
