#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/cluster/master_world.h"

namespace ramcore::sim::raw {

namespace control = wire::control;
using runtime::kNanosPerMilli;
using runtime::kNanosPerSecond;
using wire::Condition;
using wire::Opcode;

constexpr uint32_t kTable = 3;
constexpr KeyHash kLast = ~uint64_t{0};

inline std::vector<std::byte> join(std::initializer_list<ByteSpan> parts) {
  std::vector<std::byte> out;
  for (const ByteSpan& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

/// Keys of 32 bytes whose hashes are all the same, for each `family` another one: the first 8 bytes cancel what the
/// hash multiplies the next 8 with.
inline std::string collidingKey(uint64_t number, char family = 'k') {
  const uint64_t cancelling = 0xbe4ba423396cfeb8 + kTable;
  std::string key(32, family);
  std::memcpy(key.data(), &cancelling, 8);
  std::memcpy(key.data() + 8, &number, 8);
  return key;
}

struct Answer {
  Status status = Status::Internal;
  Version version = 0;
  int64_t counter = 0;
  std::string value = {};
};

struct WriteOptions {
  uint64_t client = 1;
  uint64_t acknowledged = 0;
  uint64_t epoch = 1;
  Condition condition = Condition::None;
  Version condition_version = 0;
  size_t server = 0;
};

class MasterServiceTest : public ::testing::Test {
 protected:
  MasterServiceTest() {
    world.addServer();
    EXPECT_EQ(take(1, 0, kLast, 1), Status::Ok);
  }

  // ---- commands of the coordinator
  control::Tablet tabletOf(uint64_t id, KeyHash first, KeyHash last, uint64_t epoch) {
    control::Tablet tablet;
    tablet.set_id(id);
    tablet.set_table(kTable);
    tablet.set_first_hash(first);
    tablet.set_last_hash(last);
    tablet.set_epoch(epoch);
    return tablet;
  }
  Status take(uint64_t id, KeyHash first, KeyHash last, uint64_t epoch, size_t server = 0, bool empty = true) {
    control::TakeTabletRequest ask;
    *ask.mutable_tablet() = tabletOf(id, first, last, epoch);
    ask.set_created_empty(empty);
    return world.command(Opcode::TakeTablet, ask, server)->outcome();
  }
  Status drop(uint64_t id, uint64_t epoch, size_t server = 0) {
    control::DropTabletRequest ask;
    ask.set_tablet(id);
    ask.set_epoch(epoch);
    return world.command(Opcode::DropTablet, ask, server)->outcome();
  }
  Status freeze(uint64_t id, uint64_t epoch, size_t server = 0) {
    control::FreezeTabletRequest ask;
    ask.set_tablet(id);
    ask.set_epoch(epoch);
    return world.command(Opcode::FreezeTablet, ask, server)->outcome();
  }
  Status unfreeze(uint64_t id, uint64_t epoch, uint64_t new_epoch, size_t server = 0) {
    control::UnfreezeTabletRequest ask;
    ask.set_tablet(id);
    ask.set_epoch(epoch);
    ask.set_new_epoch(new_epoch);
    return world.command(Opcode::UnfreezeTablet, ask, server)->outcome();
  }
  Status pull(uint64_t id, KeyHash first, KeyHash last, uint64_t source_epoch, uint64_t epoch, size_t to, size_t from) {
    control::PullTabletRequest ask;
    *ask.mutable_tablet() = tabletOf(id, first, last, epoch);
    ask.set_source_epoch(source_epoch);
    ask.set_source(world.addresses[from].id);
    ask.add_source_locators(world.addresses[from].locators.front().toString());
    return beginPull(ask, to);
  }
  Status beginPull(const control::PullTabletRequest& ask, size_t to) {
    const Status status = world.command(Opcode::PullTablet, ask, to)->outcome();
    if (status == Status::Ok) noteFetched(ask.tablet(), to);
    return status;
  }
  /// From now on the progress of the tablet on that server is asked for under this epoch.
  void noteFetched(const control::Tablet& tablet, size_t server) {
    fetched[{tablet.id(), server}] = std::max(fetched[{tablet.id(), server}], tablet.epoch());
  }
  /// The progress of a recovery, or of a pull that has failed, when it is over.
  control::PullProgressResponse pullEnd(uint64_t id, size_t server) {
    return pullProgress(id, server, control::PULL_PHASE_UNKNOWN);
  }
  /// The progress of a pull when it has come as far as this, or has failed.
  control::PullProgressResponse pullProgress(uint64_t id, size_t server, control::PullPhase phase) {
    control::PullProgressResponse progress;
    const auto isThere = [&] {
      return progress.done() || (phase != control::PULL_PHASE_UNKNOWN && progress.phase() >= phase);
    };
    // For longer than an intake is patient.
    for (int i = 0; i < 15'000 && !isThere(); ++i) {
      const Status status = progressNow(id, server, progress);
      if (status != Status::Ok) {
        progress.set_status(static_cast<uint32_t>(status));
        return progress;
      }
      world.runFor(kNanosPerMilli);
    }
    EXPECT_TRUE(isThere());
    return progress;
  }
  Status progressNow(uint64_t id, size_t server, control::PullProgressResponse& progress) {
    control::PullProgressRequest ask;
    ask.set_tablet(id);
    ask.set_epoch(fetched[{id, server}]);
    const auto call = world.command(Opcode::PullProgress, ask, server);
    if (call->outcome() == Status::Ok) EXPECT_TRUE(wire::parseControl(asBytes(call->text()), progress));
    return call->outcome();
  }
  /// A server whose replicas take their time, and can be made to lack places (SimReplicator::lackPlaces).
  size_t addReplicatedServer() {
    SimServer::Options replicated;
    replicated.replication.at_once = false;
    return world.addServer(replicated);
  }
  Status lend(uint64_t id, uint64_t epoch, size_t server = 0) {
    control::LendTabletRequest ask;
    ask.set_tablet(id);
    ask.set_epoch(epoch);
    return world.command(Opcode::LendTablet, ask, server)->outcome();
  }
  /// The ceiling that a freeze answers with; 0 if it was refused.
  uint64_t freezeForCeiling(uint64_t id, uint64_t epoch, size_t server) {
    control::FreezeTabletRequest ask;
    ask.set_tablet(id);
    ask.set_epoch(epoch);
    const auto call = world.command(Opcode::FreezeTablet, ask, server);
    control::FreezeTabletResponse answer;
    if (call->outcome() != Status::Ok || !wire::parseControl(asBytes(call->text()), answer)) return 0;
    return answer.version_ceiling();
  }
  /// Repeats the command until it is done or refused.
  Status adopt(uint64_t id, uint64_t epoch, uint64_t version_ceiling, size_t server) {
    control::AdoptTabletRequest ask;
    ask.set_tablet(id);
    ask.set_epoch(epoch);
    ask.set_version_ceiling(version_ceiling);
    Status status = Status::RetryLater;
    for (int i = 0; i < 15'000 && status == Status::RetryLater; ++i) {
      status = world.command(Opcode::AdoptTablet, ask, server)->outcome();
      world.runFor(kNanosPerMilli);
    }
    return status;
  }
  Status takeArriving(uint64_t id, KeyHash first, KeyHash last, uint64_t epoch, size_t server) {
    control::TakeTabletRequest ask;
    *ask.mutable_tablet() = tabletOf(id, first, last, epoch);
    ask.set_arriving(true);
    return world.command(Opcode::TakeTablet, ask, server)->outcome();
  }
  /// Gets everything ready for the hand-over of a tablet to the server `to`, and freezes the source.
  void handOver(uint64_t id, KeyHash first, KeyHash last, uint64_t source_epoch, uint64_t epoch, size_t to,
                size_t from) {
    ASSERT_EQ(pull(id, first, last, source_epoch, epoch, to, from), Status::Ok);
    ASSERT_EQ(pullProgress(id, to, control::PULL_PREPARED).phase(), control::PULL_PREPARED);
    const uint64_t ceiling = freezeForCeiling(id, source_epoch, from);
    ASSERT_NE(ceiling, 0u);
    ASSERT_EQ(adopt(id, epoch, ceiling, to), Status::Ok);
  }
  /// Moves a tablet to the server `to`, step by step.
  void moveAll(uint64_t id, KeyHash first, KeyHash last, uint64_t source_epoch, uint64_t epoch, size_t to,
               size_t from) {
    ASSERT_NO_FATAL_FAILURE(handOver(id, first, last, source_epoch, epoch, to, from));
    ASSERT_EQ(lend(id, source_epoch, from), Status::Ok);
    ASSERT_EQ(takeArriving(id, first, last, epoch, to), Status::Ok);
    ASSERT_EQ(pullProgress(id, to, control::PULL_JOINED).phase(), control::PULL_JOINED);
    ASSERT_EQ(take(id, first, last, epoch, to, false), Status::Ok);
    ASSERT_EQ(drop(id, source_epoch, from), Status::Ok);
  }

  // ---- calls of the client
  wire::RequestHeader header(Opcode opcode, size_t server = 0) {
    return {.opcode = opcode, .target = ServerId(world.addresses[server].id)};
  }
  wire::Read::Request readRequest(std::string_view key, uint64_t epoch = 1, size_t server = 0) {
    return {.header = header(Opcode::Read, server),
            .epoch = TabletEpoch(epoch),
            .table = TableId(kTable),
            .key_bytes = static_cast<uint16_t>(key.size())};
  }
  wire::Write::Request writeRequest(Opcode opcode, std::string_view key, std::string_view value, uint64_t sequence,
                                    const WriteOptions& options = {}) {
    return {.header = header(opcode, options.server),
            .identity = {ClientId(options.client), Sequence(sequence), Sequence(options.acknowledged)},
            .epoch = TabletEpoch(options.epoch),
            .condition_version = options.condition_version,
            .table = TableId(kTable),
            .value_bytes = static_cast<uint32_t>(value.size()),
            .key_bytes = static_cast<uint16_t>(key.size()),
            .condition = options.condition};
  }
  wire::Increment::Request incrementRequest(std::string_view key, int64_t delta, uint64_t sequence,
                                            const WriteOptions& options = {}) {
    return {.header = header(Opcode::Increment, options.server),
            .identity = {ClientId(options.client), Sequence(sequence), Sequence(options.acknowledged)},
            .epoch = TabletEpoch(options.epoch),
            .condition_version = options.condition_version,
            .delta = delta,
            .table = TableId(kTable),
            .key_bytes = static_cast<uint16_t>(key.size()),
            .condition = options.condition};
  }
  static std::string bytesOfAnswer(const NotedCall& call) {
    std::string bytes(asText(call.response.head()));
    for (const ByteSpan& span : call.response.tail()) bytes += asText(span);
    return bytes;
  }
  template <typename Response>
  static bool decodeAnswer(const NotedCall& call, Response& out) {
    return wire::decode(asBytes(bytesOfAnswer(call)), out);
  }
  Answer read(std::string_view key, uint64_t epoch = 1, size_t server = 0) {
    const auto call = world.send(join({bytesOf(readRequest(key, epoch, server)), asBytes(key)}), server);
    Answer answer{.status = call->outcome()};
    wire::Read::Response response{};
    if (decodeAnswer(*call, response)) {
      answer.version = response.version;
      answer.value = bytesOfAnswer(*call).substr(sizeof(response));
      EXPECT_EQ(answer.value.size(), response.value_bytes);
    }
    return answer;
  }
  Answer mutate(Opcode opcode, std::string_view key, std::string_view value, uint64_t sequence,
                const WriteOptions& options = {}) {
    const auto request = writeRequest(opcode, key, value, sequence, options);
    const size_t contiguous = sizeof(request) + key.size();
    const auto bytes = join({bytesOf(request), asBytes(key), asBytes(value)});
    const auto call = world.send(world.client, bytes, contiguous, options.server);
    Answer answer{.status = call->outcome()};
    wire::Write::Response response{};
    if (decodeAnswer(*call, response)) answer.version = response.version;
    return answer;
  }
  Answer write(std::string_view key, std::string_view value, uint64_t sequence, const WriteOptions& options = {}) {
    return mutate(Opcode::Write, key, value, sequence, options);
  }
  Answer remove(std::string_view key, uint64_t sequence, const WriteOptions& options = {}) {
    return mutate(Opcode::Remove, key, "", sequence, options);
  }
  Answer increment(std::string_view key, int64_t delta, uint64_t sequence, const WriteOptions& options = {}) {
    const auto call =
        world.send(join({bytesOf(incrementRequest(key, delta, sequence, options)), asBytes(key)}), options.server);
    Answer answer{.status = call->outcome()};
    wire::Increment::Response response{};
    if (decodeAnswer(*call, response)) {
      answer.version = response.version;
      answer.counter = response.value;
    }
    return answer;
  }
  const master::MasterService::Stats& stats(size_t server = 0) {
    return world.servers[server]->master().service()->stats();
  }

  MasterWorld world{11};
  std::map<std::pair<uint64_t, size_t>, uint64_t> fetched;  // epochs, by tablet and server
};

}  // namespace ramcore::sim::raw
