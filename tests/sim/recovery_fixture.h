#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "runtime/random.h"
#include "sim/cluster/replay_check.h"
#include "sim/cluster/scripted_backup.h"
#include "sim/master_fixture.h"
#include "sim/workload/values.h"

namespace ramcore::sim::raw {

inline constexpr KeyHash kMiddle = KeyHash{1} << 63;

/// Server 0 is the one that dies; the others recover its table.
class MasterRecoveryTest : public MasterServiceTest {
 protected:
  static constexpr size_t kDead = 0;

  MasterRecoveryTest() { world.addServer(); }

  struct Object {
    Version version = 0;
    std::string value;
  };
  struct LastCall {
    Opcode opcode{};
    std::string key;
    std::string value;
    uint64_t sequence = 0;
    Answer answer;
  };

  ScriptedBackup& addBackup() {
    const uint64_t number = backups.size() + 1;
    ScriptedBackup& backup = *backups.emplace_back(std::make_unique<ScriptedBackup>(world, 200 + number, number));
    backup.segments = log;
    return backup;
  }

  // ---- the life of the dead server

  std::string keyOf(uint64_t number) {
    keys.insert(number);
    return keyBytes(number);
  }
  uint64_t nextSequence(uint64_t client) { return ++sequences[client]; }
  void put(uint64_t number, const std::string& value, size_t server = kDead, uint64_t epoch = 1) {
    const std::string key = keyOf(number);
    const Answer answer = write(key, value, nextSequence(1), {.client = 1, .epoch = epoch, .server = server});
    ASSERT_EQ(answer.status, Status::Ok);
    ASSERT_GT(answer.version, highest[key]);
    highest[key] = answer.version;
    model[key] = {answer.version, value};
  }
  /// Writes, removes and counts with two clients, which acknowledge now and then.
  void mutateRandomly(runtime::Random& random, uint64_t key_count, size_t count) {
    for (size_t i = 0; i < count && !HasFatalFailure(); ++i) {
      const uint64_t client = 1 + random.below(2);
      LastCall& last = last_calls[client];
      WriteOptions options{.client = client, .acknowledged = random.below(2) == 0 ? last.sequence : 0};
      const uint64_t kind = random.below(10);
      last.key = keyOf(random.below(key_count));
      last.sequence = nextSequence(client);
      if (kind < 6) {
        last.opcode = Opcode::Write;
        last.value = uniqueValueBytes(++value_number, static_cast<uint32_t>(9 + random.below(1500)));
        if (random.below(8) == 0) options.condition = Condition::MustNotExist;
        last.answer = write(last.key, last.value, last.sequence, options);
      } else if (kind < 8) {
        last.opcode = Opcode::Remove;
        last.answer = remove(last.key, last.sequence, options);
      } else {
        last.opcode = Opcode::Increment;
        last.answer = increment(last.key, 3, last.sequence, options);
      }
      note(last);
    }
  }
  void note(const LastCall& call) {
    if (call.answer.status != Status::Ok) return;
    if (call.opcode == Opcode::Remove) {
      model.erase(call.key);
      return;
    }
    ASSERT_GT(call.answer.version, highest[call.key]) << "versions went back";
    highest[call.key] = call.answer.version;
    model[call.key] = {call.answer.version, call.opcode == Opcode::Increment
                                                ? integerBytes(static_cast<uint64_t>(call.answer.counter))
                                                : call.value};
  }
  /// Another server lived, and its log is longer than the memory of those that recover it, by far. Much of it is dead.
  void liveLong() {
    SimServer::Options large;
    large.log.memory_bytes *= 8;
    const size_t dead = world.addServer(large);
    ASSERT_EQ(take(2, 0, kLast, 1, dead), Status::Ok);
    for (int round = 0; round < 70; ++round) {
      for (uint64_t number = 0; number < 10; ++number) {
        put(number, uniqueValueBytes(++value_number, 5000), dead);
      }
    }
    uint64_t bytes_total = 0;
    for (const auto& [id, bytes] : copyLog(world.servers[dead]->master())) {
      log[1'000'000 - id] = bytes;
      bytes_total += bytes.size();
    }
    ASSERT_GT(bytes_total, 3 * log::LogConfig::forTest().memory_bytes);
  }
  void die() {
    log = copyLog(world.servers[kDead]->master());
    world.network.partition("server1", "server2");
  }

  // ---- the recovery

  control::RecoverTabletsRequest request() {
    control::RecoverTabletsRequest ask;
    ask.set_dead(world.addresses[kDead].id);
    for (const auto& backup : backups) {
      control::ReplicaHolder& holder = *ask.add_holders();
      holder.set_id(backup->process.identity.id);
      holder.add_locators(backup->process.locator().toString());
    }
    for (const auto& [id, bytes] : log) {
      control::RecoverySegment& segment = *ask.add_segments();
      segment.set_segment(id);
      for (uint32_t i = 0; i < backups.size(); ++i) {
        segment.add_holders(i);
        // The length of the backup's replica, as the backup would answer to the fence.
        const auto found = backups[i]->segments.find(id);
        const size_t length = found != backups[i]->segments.end() ? found->second.size() : 0;
        segment.add_replicas()->set_length_bytes(static_cast<uint32_t>(length));
      }
    }
    return ask;
  }
  void addTablet(control::RecoverTabletsRequest& ask, uint64_t id, KeyHash first, KeyHash last, uint64_t epoch,
                 uint64_t first_segment = 1) {
    control::Tablet& tablet = *ask.add_tablets();
    tablet = tabletOf(id, first, last, epoch);
    control::LogRef& other = *tablet.add_logs();
    other.set_server(world.addresses[kDead].id + 1000);
    other.set_first_segment(1'000'000);
    control::LogRef& ref = *tablet.add_logs();
    ref.set_server(world.addresses[kDead].id);
    ref.set_first_segment(first_segment);
  }
  /// The whole table as tablet 5.
  control::RecoverTabletsRequest wholeTable(uint64_t epoch) {
    control::RecoverTabletsRequest ask = request();
    addTablet(ask, 5, 0, kLast, epoch);
    return ask;
  }
  Status recover(const control::RecoverTabletsRequest& ask, size_t server = 1) {
    const Status status = world.command(Opcode::RecoverTablets, ask, server)->outcome();
    for (const control::Tablet& tablet : ask.tablets()) {
      if (status == Status::Ok) noteFetched(tablet, server);
    }
    return status;
  }
  /// Recovers the whole table under this epoch. How that ended.
  Status recoverAll(uint64_t epoch) {
    EXPECT_EQ(recover(wholeTable(epoch)), Status::Ok);
    return static_cast<Status>(pullEnd(5, 1).status());
  }

  // ---- what must be so afterwards; the key's tablet may be anywhere

  void expectModel(uint64_t epoch, const std::function<size_t(KeyHash)>& serverOf) {
    for (const uint64_t number : keys) {
      const std::string key = keyBytes(number);
      const size_t server = serverOf(hashKey(TableId(kTable), asBytes(key)));
      const Answer found = read(key, epoch, server);
      const auto expected = model.find(key);
      if (expected == model.end()) {
        ASSERT_EQ(found.status, Status::NotFound) << key << " came back";
        continue;
      }
      ASSERT_EQ(found.status, Status::Ok) << key << " is lost";
      ASSERT_EQ(found.version, expected->second.version) << key;
      ASSERT_EQ(found.value, expected->second.value) << key;
    }
  }
  void expectModel(uint64_t epoch, size_t server = 1) {
    expectModel(epoch, [server](KeyHash) { return server; });
  }
  void expectDuplicatesAreAnswered(uint64_t epoch, const std::function<size_t(KeyHash)>& serverOf) {
    for (const auto& [client, last] : last_calls) {
      const size_t server = serverOf(hashKey(TableId(kTable), asBytes(last.key)));
      const WriteOptions options{.client = client, .epoch = epoch, .server = server};
      const uint64_t answered = stats(server).duplicates_answered.load();
      Answer again;
      if (last.opcode == Opcode::Increment) {
        again = increment(last.key, 3, last.sequence, options);
      } else {
        again = mutate(last.opcode, last.key, last.opcode == Opcode::Write ? last.value : "", last.sequence, options);
      }
      EXPECT_EQ(again.status, last.answer.status);
      EXPECT_EQ(again.version, last.answer.version);
      EXPECT_EQ(again.counter, last.answer.counter);
      EXPECT_EQ(stats(server).duplicates_answered.load(), answered + 1);
    }
  }
  /// The recovered server's own log says the same: it may be the next that dies.
  void expectOwnLogSaysTheSame(size_t server) {
    runtime::Random order(7);
    const std::vector<HistoryKey> all(keys.begin(), keys.end());
    for (const std::string& failure : checkReplay(world.servers[server]->master(), all, order)) {
      ADD_FAILURE() << failure;
    }
  }

  std::deque<std::unique_ptr<ScriptedBackup>> backups;
  SegmentBytes log;
  std::set<uint64_t> keys;
  std::map<std::string, Object> model;
  std::map<std::string, Version> highest;
  std::map<uint64_t, uint64_t> sequences;
  std::map<uint64_t, LastCall> last_calls;
  uint64_t value_number = 0;
};

}  // namespace ramcore::sim::raw
