#include "sim/cluster/sim_client.h"

#include <algorithm>
#include <coroutine>
#include <type_traits>

#include "base/check.h"
#include "client/point_call.h"
#include "sim/workload/values.h"

namespace ramcore::sim {
namespace {

wire::Condition toWire(ConditionKind kind) {
  switch (kind) {
    case ConditionKind::None:
      return wire::Condition::None;
    case ConditionKind::MustExist:
      return wire::Condition::MustExist;
    case ConditionKind::MustNotExist:
      return wire::Condition::MustNotExist;
    case ConditionKind::VersionEquals:
      return wire::Condition::VersionEquals;
    case ConditionKind::VersionNotGreater:
      return wire::Condition::VersionNotGreater;
  }
  return wire::Condition::None;
}

ramcore::Condition toPublic(const Condition& condition) {
  switch (condition.kind) {
    case ConditionKind::None:
      return {};
    case ConditionKind::MustExist:
      return ramcore::Condition::mustExist();
    case ConditionKind::MustNotExist:
      return ramcore::Condition::mustNotExist();
    case ConditionKind::VersionEquals:
      return ramcore::Condition::versionEquals(condition.version);
    case ConditionKind::VersionNotGreater:
      return ramcore::Condition::versionNotGreater(condition.version);
  }
  return {};
}

wire::Opcode opcodeOf(OperationKind kind) {
  switch (kind) {
    case OperationKind::Write:
      return wire::Opcode::Write;
    case OperationKind::Remove:
      return wire::Opcode::Remove;
    case OperationKind::Increment:
      return wire::Opcode::Increment;
    case OperationKind::Read:
    case OperationKind::ScanRead:
      return wire::Opcode::Read;
  }
  return wire::Opcode::Read;
}

// How a status is noted. The client is taken at its word: a mutation that ends in another way than these has not
// happened and will not, and a read saw nothing. Neither is part of the history.
Outcome outcomeOf(Status status) {
  switch (status) {
    case Status::Ok:
      return Outcome::Ok;
    case Status::NotFound:
      return Outcome::NotFound;
    case Status::ObjectExists:
      return Outcome::ObjectExists;
    case Status::WrongVersion:
      return Outcome::WrongVersion;
    case Status::TypeMismatch:
      return Outcome::TypeMismatch;
    case Status::OutcomeUnknown:
      return Outcome::Unknown;
    default:
      return Outcome::NotRun;
  }
}

Answer noteMutation(const PlannedPart& part, Status status, Version version, int64_t counter) {
  Answer answer{.outcome = outcomeOf(status), .version = version};
  const bool removed_nothing = part.operation.kind == OperationKind::Remove && status == Status::Ok && version == 0;
  if (removed_nothing) answer.outcome = Outcome::NotFound;
  if (part.operation.kind == OperationKind::Increment && status == Status::Ok) {
    answer.result = {.bits = static_cast<uint64_t>(counter), .is_integer = true};
  }
  return answer;
}

// A PointCall that a coroutine waits for.
class FastCall {
 public:
  // @param is_expired  the call is not told when it has to end: it is ended from outside
  FastCall(client::ClusterClient& core, runtime::Executor& executor, const client::PointRequest& request,
           int64_t deadline_ns, bool is_expired)
      : call_(core, &FastCall::ended),
        expiry_(*this),
        executor_(executor),
        request_(request),
        deadline_ns_(deadline_ns),
        is_expired_(is_expired) {}

  bool await_ready() {
    const int64_t timeout_ns = deadline_ns_ - executor_.clock().nowNs();
    return call_.start(request_, timeout_ns, is_expired_ ? runtime::kNever : deadline_ns_, this);
  }
  void await_suspend(std::coroutine_handle<> waiter) {
    waiter_ = waiter;
    if (is_expired_) executor_.arm(expiry_, deadline_ns_);
  }
  client::PointResult await_resume() { return std::move(call_.result); }

 private:
  struct Expiry : runtime::Timer {
    explicit Expiry(FastCall& owner)
        : Timer([](runtime::Timer& timer) {
            FastCall& call = static_cast<Expiry&>(timer).owner;
            call.call_.expire(call.executor_.clock().nowNs(), call.deadline_ns_);
          }),
          owner(owner) {}
    FastCall& owner;
  };
  static void ended(client::PointCall& call) {
    auto& self = *static_cast<FastCall*>(call.owner());
    self.expiry_.cancel();
    self.waiter_.resume();
  }

  client::PointCall call_;
  Expiry expiry_;
  runtime::Executor& executor_;
  const client::PointRequest& request_;
  const int64_t deadline_ns_;
  const bool is_expired_;
  std::coroutine_handle<> waiter_;
};

}  // namespace

SimClient::SimClient(runtime::SimScheduler& scheduler, runtime::SimTraceLog& log, transport::SimNetwork& network,
                     const std::string& name, uint32_t number, const std::string& cluster_name,
                     const std::string& coordinator_node, const Shared& shared, transport::Role role)
    : node_(scheduler, log, name, {}),
      identity_{.role = role, .id = 0, .cluster_name = cluster_name, .secret = {}},
      transport_(network, node_.clock(), name, [this] { dispatch_.wake(); }),
      endpoint_(transport_.makeEndpoint(identity_)),
      dispatch_(node_, {}),
      ending_(dispatch_.dispatch()),
      number_(number),
      shared_(shared),
      random_(node_.stream("client")),
      fast_random_(node_.stream("fast calls")),
      start_(*this) {
  dispatch_.dispatch().addEndpoint(*endpoint_);
  caller_ = std::make_unique<rpc::Caller>(dispatch_.dispatch());
  caller_->learnClusterFor(identity_);
  auto locator = transport::Locator::parse("sim://" + coordinator_node);
  core_ = std::make_unique<client::ClusterClient>(
      *caller_, node_.entropy(), std::vector{rpc::PeerAddress{.id = 0, .locators = {std::move(locator).value()}}},
      client::ClusterClientOptions{});
  driver_ = std::make_unique<client::Driver>(dispatch_.dispatch(), dispatch_, *core_, 0);
  async_ = std::make_unique<client::AsyncCalls>(*driver_, *core_, node_.clock(), fork_mark_);
}

SimClient::~SimClient() {
  constexpr uint64_t kStepsMax = 100'000;
  dispatch_.runNow([this] {
    core_->stop();
    caller_->shutDown();
  });
  // At least once: an admin's calls of the coordinator are not counted there, and end now.
  int rounds = 0;
  do {
    dispatch_.runNow([this] { ending_.notifyAll(); });
    RC_CHECK(dispatch_.drain(kStepsMax) && node_.drain(kStepsMax));
  } while (++rounds < 1000 && !isUnwound());
  RC_CHECK_MSG(isUnwound(), "a simulated client could not be unwound");
  dispatch_.end();
  node_.kill();
}

int64_t SimClient::deadline() {
  // Mostly long enough for everything to be repaired, sometimes so short that outcomes stay unknown.
  const int64_t patience_ms = random_.below(20) == 0 ? static_cast<int64_t>(random_.below(50)) + 1 : 60'000;
  return node_.clock().nowNs() + patience_ms * runtime::kNanosPerMilli;
}

void SimClient::start(uint64_t calls) {
  done_ = false;
  reads_ = false;
  calls_ = calls;
  dispatch_.dispatch().post(start_, runtime::Priority::Client);
  dispatch_.wake();
}

void SimClient::readAll() {
  done_ = false;
  reads_ = true;
  dispatch_.dispatch().post(start_, runtime::Priority::Client);
  dispatch_.wake();
}

runtime::Task<void> SimClient::openTables() {
  while (tables_.size() < shared_.tables.all().size()) {
    auto table = co_await core_->openTable(shared_.tables.all()[tables_.size()].name,
                                           node_.clock().nowNs() + 10 * runtime::kNanosPerSecond);
    if (!table.ok() && table.error() == Status::Shutdown) co_return;  // the run was given up
    if (table.ok()) tables_.push_back(*table);
  }
}

runtime::Task<void> SimClient::run(uint64_t calls) {
  co_await openTables();
  if (tables_.size() < shared_.tables.all().size()) co_return;
  loops_running_ = shared_.pace.loops;
  for (uint64_t i = 0; i < shared_.pace.loops; ++i) {
    loop(calls / shared_.pace.loops + (i < calls % shared_.pace.loops ? 1 : 0)).detach();
  }
}

runtime::Task<void> SimClient::loop(uint64_t calls) {
  const ClientPace& pace = shared_.pace;
  for (uint64_t i = 0; i < calls; ++i) {
    const PlannedCall planned = shared_.generator.next(number_);
    if (calls_under_way_++ != 0) ++overlapping_calls_;
    co_await call(planned);
    --calls_under_way_;
    ++completed_[static_cast<size_t>(planned.kind)];
    // Clients think between calls, so that a run is long enough for things to happen to it.
    if ((i + 1) % pace.burst != 0) continue;
    const auto think_ns = static_cast<uint64_t>(pace.think_ns_max) * pace.burst;
    co_await runtime::sleepFor(dispatch_.dispatch(), static_cast<int64_t>(random_.below(think_ns)));
  }
  --loops_running_;
  done_ = loops_running_ == 0;
}

runtime::Task<void> SimClient::call(const PlannedCall& call) {
  if (call.kind == CallKind::Scan) {
    co_await scan();
  } else if (call.parts.size() > 1) {
    co_await multi(call);
  } else {
    co_await point(call.parts.front());
  }
}

void SimClient::note(size_t index, const Answer& answer) {
  shared_.history.finish(index, answer, static_cast<uint64_t>(now()));
  if (shared_.ledger != nullptr) shared_.ledger->check(shared_.history.operations()[index], answer);
}

Answer SimClient::noteOf(const PlannedPart& part, const client::PointResult& result) const {
  if (!part.operation.isRead()) return noteMutation(part, result.status, result.version, result.counter);
  Answer answer{.outcome = outcomeOf(result.status), .version = result.version};
  if (result.status == Status::Ok) {
    std::string value;
    result.takeValue(value);
    answer.result = observe(value);
  }
  return answer;
}

runtime::Task<void> SimClient::point(const PlannedPart& part) {
  const std::string key = keyBytes(part.operation.key);
  client::PointRequest request{.kind = opcodeOf(part.operation.kind),
                               .table = tableOf(part.operation.key),
                               .key = asBytes(key),
                               .value = asBytes(part.value),
                               .delta = static_cast<int64_t>(part.operation.delta),
                               .condition = toWire(part.operation.condition.kind),
                               .condition_version = part.operation.condition.version};
  const size_t index = shared_.history.invoke(part.operation, static_cast<uint64_t>(now()));
  std::optional<Answer> answer;
  const bool is_fast = isFast();
  if (is_fast && hasFuture()) {
    answer = co_await executeWithFuture(part, request);
    if (!answer) co_return;
  } else {
    client::PointResult result;
    if (is_fast) {
      result = co_await executeFast(request, deadline());
    } else {
      result = co_await core_->execute(request, deadline());
    }
    answer = noteOf(part, result);
  }
  note(index, *answer);
  shared_.generator.seen(part.operation.key, answer->version);
}

runtime::Task<std::optional<Answer>> SimClient::executeWithFuture(const PlannedPart& part,
                                                                  client::PointRequest request) {
  ++futures_;
  const bool drops = fast_random_.below(1000) < shared_.fast.dropped_permille;
  futures_dropped_ += drops ? 1 : 0;
  if (part.operation.isRead()) {
    auto future = async_->read(request, timeout());
    if (drops) co_return std::nullopt;
    co_await untilReady(future);
    const Result<ReadResult> result = future.get();
    Answer answer{.outcome = outcomeOf(result.status())};
    if (result.ok()) {
      answer.version = result->version;
      answer.result = observe(result->value);
    }
    co_return answer;
  }
  auto future = async_->mutate(request, timeout());
  if (drops) co_return std::nullopt;
  co_await untilReady(future);
  const MutateResult result = future.get();
  co_return noteMutation(part, result.status, result.version, result.value);
}

template <typename Items>
runtime::Task<void> SimClient::multiWithFuture(Items& items) {
  ++futures_;
  Future<size_t> future;
  if constexpr (std::is_same_v<typename Items::value_type, ReadItem>) {
    future = async_->multiRead(items, timeout());
  } else {
    future = async_->multiMutate(items, timeout());
  }
  co_await untilReady(future);
  const size_t failed = future.get();
  size_t counted = 0;
  for (const auto& item : items) counted += item.status != Status::Ok ? 1 : 0;
  RC_CHECK(failed == counted);
}

template <typename T>
runtime::Task<void> SimClient::untilReady(Future<T>& future) {
  int64_t pause_ns = 10 * runtime::kNanosPerMicro;
  while (!future.ready()) {
    [[maybe_unused]] const Status woken = co_await ending_.wait(node_.clock().nowNs() + pause_ns);
    pause_ns = std::min(2 * pause_ns, 20 * runtime::kNanosPerMilli);
  }
}

runtime::Task<client::PointResult> SimClient::executeFast(client::PointRequest request, int64_t deadline_ns) {
  ++fast_calls_;
  const bool is_expired = fast_random_.below(1000) < shared_.fast.expired_permille;
  FastCall call(*core_, dispatch_.dispatch(), request, deadline_ns, is_expired);
  co_return co_await call;
}

runtime::Task<void> SimClient::multi(const PlannedCall& call) {
  std::vector<std::string> keys;
  for (const PlannedPart& part : call.parts) keys.push_back(keyBytes(part.operation.key));
  std::vector<size_t> indexes;
  for (const PlannedPart& part : call.parts) {
    indexes.push_back(shared_.history.invoke(part.operation, static_cast<uint64_t>(now())));
  }
  if (call.kind == CallKind::MultiRead) {
    std::vector<ReadItem> items(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      items[i].table = Table{tableOf(call.parts[i].operation.key).value};
      items[i].key = keys[i];
    }
    if (isFast() && hasFuture()) {
      co_await multiWithFuture(items);
    } else {
      co_await core_->multiRead(items, deadline());
    }
    for (size_t i = 0; i < items.size(); ++i) {
      Answer answer{.outcome = outcomeOf(items[i].status), .version = items[i].version};
      if (items[i].status == Status::Ok) answer.result = observe(items[i].value);
      note(indexes[i], answer);
    }
    co_return;
  }
  std::vector<MutateItem> items(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const PlannedPart& part = call.parts[i];
    items[i].kind = part.operation.kind == OperationKind::Remove ? MutateItem::Kind::Remove : MutateItem::Kind::Write;
    items[i].table = Table{tableOf(part.operation.key).value};
    items[i].key = keys[i];
    items[i].value = part.value;
    items[i].condition = toPublic(part.operation.condition);
  }
  if (isFast() && hasFuture()) {
    co_await multiWithFuture(items);
  } else {
    co_await core_->multiMutate(items, deadline());
  }
  for (size_t i = 0; i < items.size(); ++i) {
    const Answer answer = noteMutation(call.parts[i], items[i].status, items[i].version, 0);
    note(indexes[i], answer);
  }
}

runtime::Task<void> SimClient::scan() {
  const size_t table = tables_.size() == 1 ? 0 : random_.below(tables_.size());
  ScanRecord record{.process = number_,
                    .table = table,
                    .invoke_order = shared_.history.tick(),
                    .invoke_time_ns = static_cast<uint64_t>(now())};
  client::ScanCursor cursor{.table = tables_[table], .batch_bytes = 256 + static_cast<uint32_t>(random_.below(4096))};
  bool failed = false;
  while (!cursor.is_end && !failed) {
    std::vector<Object> objects;
    const uint64_t invoke_order = shared_.history.tick();
    const int64_t invoke_ns = now();
    const Status status = co_await core_->scanNext(cursor, objects, deadline());
    failed = status != Status::Ok;
    if (failed) break;
    const uint64_t return_order = shared_.history.tick();
    for (const Object& object : objects) {
      const auto key = keyOfBytes(object.key);
      if (shared_.ledger != nullptr && key) {
        shared_.ledger->check({.process = number_, .key = *key, .kind = OperationKind::ScanRead},
                              {.outcome = Outcome::Ok, .version = object.version});
      }
      record.objects.push_back({.key = key.value_or(~uint64_t{0}),
                                .value = observe(object.value),
                                .version = object.version,
                                .invoke_order = invoke_order,
                                .return_order = return_order,
                                .invoke_time_ns = static_cast<uint64_t>(invoke_ns),
                                .return_time_ns = static_cast<uint64_t>(now())});
    }
  }
  record.is_complete = cursor.is_end && !failed;
  record.return_order = shared_.history.tick();
  record.return_time_ns = static_cast<uint64_t>(now());
  shared_.scans.push_back(std::move(record));
}

runtime::Task<void> SimClient::runReads() {
  co_await openTables();
  if (tables_.size() < shared_.tables.all().size()) co_return;
  for (const HistoryKey key : shared_.generator.keys()) {
    const PlannedPart part{.operation = {.process = number_, .key = key, .kind = OperationKind::Read}, .value = {}};
    const std::string bytes = keyBytes(key);
    for (;;) {
      const size_t index = shared_.history.invoke(part.operation, static_cast<uint64_t>(now()));
      client::PointResult result =
          co_await core_->read(tableOf(key), asBytes(bytes), node_.clock().nowNs() + 60 * runtime::kNanosPerSecond);
      note(index, noteOf(part, result));
      if (result.status == Status::Shutdown) co_return;  // the run was given up
      const bool answered = result.status == Status::Ok || result.status == Status::NotFound;
      if (!answered) continue;
      final_.emplace_back(key, std::move(result));
      break;
    }
  }
  done_ = true;
}

}  // namespace ramcore::sim
