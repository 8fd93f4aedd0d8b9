#include "durability/workload.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>

namespace durability {
namespace {

using ramcore::CallOptions;
using ramcore::Condition;
using ramcore::Status;

// docs/formats.md: where a key lies.
uint64_t hashOf(ramcore::Table table, const std::string& key) {
  return XXH3_64bits_withSeed(key.data(), key.size(), table.id);
}

std::vector<Recorder::Key> makeKeys(const WorkloadSettings& settings, ramcore::Table table) {
  std::vector<Recorder::Key> keys;
  for (uint32_t i = 0; i < settings.registers; ++i) keys.push_back({.name = "r" + std::to_string(i)});
  for (uint32_t i = 0; i < settings.counters; ++i) keys.push_back({.name = "c" + std::to_string(i)});
  for (Recorder::Key& key : keys) key.hash = hashOf(table, key.name);
  return keys;
}

std::string textOf(const std::string& key, const std::string& value) {
  if (!isCounter(key)) return value;
  int64_t number = 0;
  if (value.size() != sizeof number) return "no-counter";
  std::memcpy(&number, value.data(), sizeof number);
  return std::to_string(number);
}

/// One worker's choice of calls, and the versions it has seen.
class Caller {
 public:
  Caller(const WorkloadSettings& settings, uint32_t worker, ramcore::Client& client, ramcore::Table table,
         Recorder& recorder)
      : settings_(settings),
        worker_(worker),
        client_(client),
        table_(table),
        recorder_(recorder),
        random_(settings.seed * 1000 + worker),
        seen_(recorder.keys().size()) {}

  void callOnce() {
    const size_t key = random_() % recorder_.keys().size();
    Call call;
    call.client = worker_;
    choose(recorder_.keys()[key].name, seen_[key], call);
    const uint32_t part = random_() % 50 == 0 ? 100 : 1;
    CallOptions options{.timeout = std::chrono::milliseconds(settings_.timeout_ms / part),
                        .condition = conditionOf(call)};
    recorder_.begin(key, call);
    carryOut(call, options);
    if (call.version != 0) seen_[key] = call.version;
    recorder_.end(key, call);
  }

 private:
  void choose(const std::string& key, uint64_t seen_version, Call& call) {
    const uint64_t dice = random_() % 100;
    if (dice < 20) return;  // a read
    if (isCounter(key)) {
      call.kind = Kind::Increment;
      call.argument = "1";
      return;
    }
    call.kind = dice < 35 ? Kind::Remove : Kind::Write;
    if (call.kind == Kind::Write) call.argument = "w" + std::to_string(worker_) + "-" + std::to_string(++written_);
    switch (random_() % 8) {
      case 0:
        call.demand = Demand::MustExist;
        break;
      case 1:
        if (call.kind == Kind::Write) call.demand = Demand::MustNotExist;
        break;
      case 2:
        if (seen_version == 0) break;
        call.demand = Demand::VersionEquals;
        call.demanded_version = seen_version;
        break;
      default:
        break;
    }
  }

  static Condition conditionOf(const Call& call) {
    switch (call.demand) {
      case Demand::None:
        return {};
      case Demand::MustExist:
        return Condition::mustExist();
      case Demand::MustNotExist:
        return Condition::mustNotExist();
      case Demand::VersionEquals:
        return Condition::versionEquals(call.demanded_version);
    }
    return {};
  }

  void carryOut(Call& call, const CallOptions& options) {
    if (call.kind == Kind::Read) {
      const auto found = client_.read(table_, call.key, options);
      call.status = name(found.status());
      if (!found.ok()) return;
      call.version = found->version;
      call.result = textOf(call.key, found->value);
      return;
    }
    const ramcore::MutateResult result = call.kind == Kind::Write
                                             ? client_.write(table_, call.key, call.argument, options)
                                         : call.kind == Kind::Remove ? client_.remove(table_, call.key, options)
                                                                     : client_.increment(table_, call.key, 1, options);
    call.status = name(result.status);
    call.version = result.version;
    if (call.kind == Kind::Increment && result.ok()) call.result = std::to_string(result.value);
  }

  const WorkloadSettings& settings_;
  const uint32_t worker_;
  ramcore::Client& client_;
  const ramcore::Table table_;
  Recorder& recorder_;
  std::mt19937_64 random_;
  uint64_t written_ = 0;
  std::vector<uint64_t> seen_;  // by key: the version of the last answer
};

}  // namespace

Workload::Workload(const WorkloadSettings& settings) : settings_(settings) {
  // Ports are one client's.
  const uint32_t reader = settings_.dpdk.ports.empty() ? 1 : 0;
  for (uint32_t i = 0; i < settings_.clients + reader; ++i) clients_.push_back(connect());
  auto table = clients_.front().createTable(settings_.table, settings_.tablets);
  if (!table.ok()) {
    std::fprintf(stderr, "table %s cannot be created: %s\n", settings_.table.c_str(), name(table.status()).data());
    std::exit(2);
  }
  table_ = *table;
  recorder_ = std::make_unique<Recorder>(settings_.journal, makeKeys(settings_, table_));
  for (uint32_t i = 0; i < settings_.workers; ++i) threads_.emplace_back([this, i] { work(i); });
}

Workload::~Workload() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

ramcore::Client Workload::connect() const {
  ramcore::ClientOptions options;
  options.coordinators = settings_.coordinators;
  options.cluster_name = settings_.cluster;
  options.secret_file = settings_.secret_file;
  options.dpdk = settings_.dpdk;
  auto client = ramcore::Client::connect(options);
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.error().message.c_str());
    std::exit(2);
  }
  return std::move(client).value();
}

void Workload::pause() {
  std::unique_lock lock(mutex_);
  paused_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return running_ == 0; });
}

void Workload::resume() {
  const std::lock_guard lock(mutex_);
  paused_ = false;
  changed_.notify_all();
}

// The calls of all workers together keep to the rate; what a worker missed it does not make up for.
void Workload::work(uint32_t worker) {
  Caller caller(settings_, worker, clients_[worker % settings_.clients], table_, *recorder_);
  const int64_t step_ns = int64_t{1'000'000'000} * settings_.workers / settings_.rate;
  int64_t due_ns = nowNs() + step_ns * worker / settings_.workers;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      const int64_t wait_ns = std::max<int64_t>(0, due_ns - nowNs());
      changed_.wait_for(lock, std::chrono::nanoseconds(wait_ns), [this] { return stopping_; });
      changed_.wait(lock, [this] { return stopping_ || !paused_; });
      if (stopping_) return;
      ++running_;
    }
    caller.callOnce();
    due_ns = std::max(due_ns + step_ns, nowNs());
    const std::lock_guard lock(mutex_);
    --running_;
    if (running_ == 0 && paused_) changed_.notify_all();
  }
}

std::vector<std::string> Workload::readAll(std::chrono::milliseconds timeout) {
  const std::vector<Recorder::Key>& keys = recorder_->keys();
  std::vector<Call> calls(keys.size());
  std::vector<ramcore::Future<ramcore::Result<ramcore::ReadResult>>> futures;
  for (size_t i = 0; i < keys.size(); ++i) {
    calls[i].client = settings_.workers;
    recorder_->begin(i, calls[i]);
    futures.push_back(clients_.back().readAsync(table_, keys[i].name, {.timeout = timeout, .condition = {}}));
  }
  std::vector<std::string> unreadable;
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto found = futures[i].get();
    calls[i].status = name(found.status());
    if (found.ok()) {
      calls[i].version = found->version;
      calls[i].result = textOf(keys[i].name, found->value);
    }
    if (calls[i].fate() != Fate::Answered) {
      unreadable.push_back("key " + keys[i].name + ": cannot be read, " + calls[i].status);
    }
    recorder_->end(i, calls[i]);
  }
  return unreadable;
}

}  // namespace durability
