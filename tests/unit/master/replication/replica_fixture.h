#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "log/format/log_reader.h"
#include "log/log.h"
#include "master/replication/replica_manager.h"
#include "runtime/pins.h"
#include "runtime/sim/sim_epoch.h"
#include "unit/log/map_owner.h"
#include "unit/master/replication/scripted_backup.h"
#include "unit/master/replication/scripted_floors.h"
#include "unit/rpc/rpc_fixture.h"

namespace ramcore::master {

inline constexpr int64_t kMilli = runtime::kNanosPerMilli;

/// A log on one server of a simulated network, with its replicas on others.
class ReplicaTest : public rpc::RpcTest {
 protected:
  static constexpr uint64_t kSelf = 11;

  ReplicaTest() : server_(add("server", {.role = transport::Role::Server, .id = kSelf})) {}
  ~ReplicaTest() override {
    for (const auto& backup : backups_) {
      EXPECT_TRUE(backup->gaps == 0 || backup->expects_gaps) << "a gap";
      EXPECT_TRUE(backup->stale == 0 || backup->expects_stale) << "the epoch of a replica went back";
    }
    if (manager_ != nullptr) stop();
    for (auto& backup : backups_) backup->release();
    log_.reset();
    manager_.reset();
  }

  /// Backups with the ids 1 to `count`, all members.
  void addBackups(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const uint64_t number = backups_.size() + 1;
      rpc::RpcProcess& process =
          add("backup" + std::to_string(number), {.role = transport::Role::Server, .id = number});
      backups_.push_back(std::make_unique<ScriptedBackup>(process, number));
    }
  }
  ScriptedBackup& backup(uint64_t id) { return *backups_.at(id - 1); }

  void makeManager(const ReplicationOptions& options = {}) {
    const ReplicaManager::Environment environment{
        .clock = server_.node.clock(),
        .trace = silentTrace(),
        .dispatch = server_.dispatch(),
        .caller = *server_.caller,
        .floors = floors_,
        .backup = gauge_,
        .on_spoilt = [this](const std::string& why) { spoilt_.push_back(why); }};
    manager_ = std::make_unique<ReplicaManager>(options, environment, runtime::Random(3));
  }
  void makeLog(const log::LogConfig& config = log::LogConfig::forTest()) {
    ASSERT_TRUE(config.validate().ok());
    memory_ = log::LogMemory::open(config.memory_bytes).value();
    owner_ = std::make_unique<log::MapOwner>(*memory_);
    server_.onDispatch([&] {
      manager_->begin(ClusterId(7), ServerId(kSelf));
      log_ = std::make_unique<log::Log>(config, log::LogIdentity{ClusterId(7), ServerId(kSelf)}, *memory_,
                                        log::Log::Environment{*owner_, *manager_, rcu_, pins_});
    });
  }
  /// `count` backups, of which the first `members` are members, and a log whose first head is open.
  void start(size_t count, std::vector<uint64_t> members, const ReplicationOptions& options = {},
             const log::LogConfig& config = log::LogConfig::forTest()) {
    addBackups(count);
    makeManager(options);
    setMembers(members);
    makeLog(config);
    ASSERT_TRUE(runUntil([this] { return log_->headId() == SegmentId(1); }));
  }
  Member member(uint64_t id) {
    return {.id = ServerId(id),
            .address = id == kSelf ? addressOf(server_, id) : addressOf(backup(id).process, id),
            .keeps_replicas = true,
            .failure_domain = domains_[id]};
  }
  void setMembers(const std::vector<uint64_t>& ids) {
    std::vector<Member> members{member(kSelf)};
    for (const uint64_t id : ids) members.push_back(member(id));
    server_.onDispatch([&] { manager_->setMembers(std::move(members)); });
  }
  LogPosition put(const std::string& key, const std::string& value = "value") {
    Status status = Status::Ok;
    server_.onDispatch([&] { status = owner_->put(*log_, key, value); });
    EXPECT_EQ(status, Status::Ok);
    return owner_->end();
  }
  /// Requests it, as a call that waits does.
  bool becomesDurable(LogPosition position, int64_t within_ns = 5 * runtime::kNanosPerSecond) {
    server_.onDispatch([&] { manager_->requestDurable(position); });
    const int64_t until_ns = scheduler.nowNs() + within_ns;
    while (!log_->durability().isDurable(position) && scheduler.nowNs() < until_ns) runFor(runtime::kNanosPerMilli);
    return log_->durability().isDurable(position);
  }
  /// Requests it, as a call that waits does.
  bool becomesFlushed(LogPosition position, int64_t within_ns = 5 * runtime::kNanosPerSecond) {
    server_.onDispatch([&] { log_->durability().requestFlush(position); });
    return comesTrue([&] { return log_->durability().isFlushed(position); }, within_ns);
  }
  size_t flushCallsTo(uint64_t id) {
    return static_cast<size_t>(
        std::ranges::count_if(backup(id).writes, [](const auto& write) { return write.is_flush_call; }));
  }
  bool comesTrue(const std::function<bool()>& what, int64_t within_ns = 20 * runtime::kNanosPerSecond) {
    const int64_t until_ns = scheduler.nowNs() + within_ns;
    while (!what() && scheduler.nowNs() < until_ns) runFor(runtime::kNanosPerMilli);
    return what();
  }
  /// Rolls the log to a new head; the former one is closed on all backups.
  void roll() {
    SegmentId request;
    server_.onDispatch([&] { request = log_->requestRoll(); });
    ASSERT_TRUE(comesTrue([&] { return log_->isRolled(request); }));
  }
  std::vector<uint64_t> holders(LogPosition position, uint64_t epoch = 1) const {
    std::vector<uint64_t> ids;
    for (const auto& backup : backups_) {
      if (backup->holds(position.segment, position.offset_bytes, epoch)) ids.push_back(backup->id);
    }
    return ids;
  }
  ReplicaManager::Counts counts() {
    ReplicaManager::Counts counts;
    server_.onDispatch([&] { counts = manager_->counts(); });
    return counts;
  }
  void releaseFloors() {
    server_.onDispatch([this] { floors_.release(); });
  }
  void stop() {
    server_.onDispatch([this] {
      manager_->stop();
      floors_.release();
    });
    ASSERT_TRUE(runUntil([this] { return manager_->isIdle(); }));
  }

  rpc::RpcProcess& server_;
  std::vector<std::unique_ptr<ScriptedBackup>> backups_;
  std::map<uint64_t, std::string> domains_;
  ScriptedFloors floors_{server_.dispatch()};
  const BackupGauge* gauge_ = nullptr;  // for makeManager()
  std::vector<std::string> spoilt_;     // why the server should stop
  std::unique_ptr<ReplicaManager> manager_;
  std::unique_ptr<log::LogMemory> memory_;
  std::unique_ptr<log::MapOwner> owner_;
  runtime::SimRcu rcu_;
  runtime::PinRegistry pins_{4};
  std::unique_ptr<log::Log> log_;
};

}  // namespace ramcore::master
