/// A move by hand, command by command: what a coordinator makes two masters do, also when its commands come late,
/// twice, or not at all.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "sim/master_fixture.h"

namespace ramcore::sim::raw {
namespace {

class MasterMoveTest : public MasterServiceTest {
 protected:
  /// The objects that a scan of the table lists.
  size_t scanAll(uint64_t epoch, size_t server) {
    size_t count = 0;
    wire::Scan::Request ask{.header = header(Opcode::Scan, server),
                            .epoch = TabletEpoch(epoch),
                            .cursor = 0,
                            .table = TableId(kTable),
                            .response_bytes = 4'000};
    for (;;) {
      const auto call = world.send(join({bytesOf(ask)}), server);
      wire::Scan::Response answer{};
      const bool is_sound = call->outcome() == Status::Ok && wire::decode(call->response.head(), answer);
      EXPECT_TRUE(is_sound) << name(call->outcome());
      if (!is_sound) return count;
      count += answer.count;
      if (answer.range_done != 0) return count;
      EXPECT_GT(answer.next_cursor, ask.cursor);
      ask.cursor = answer.next_cursor;
    }
  }

  MasterMoveTest() { world.addServer(); }

  static std::string keyOf(int i) { return "key" + std::to_string(i); }
  void fill(int count) {
    for (int i = 0; i < count; ++i) {
      const Answer written = write(keyOf(i), "value" + std::to_string(i), ++sequence);
      ASSERT_EQ(written.status, Status::Ok);
      versions[keyOf(i)] = written.version;
    }
  }
  /// Moves tablet 1 from server 0 with epoch 1 to server 1 with epoch 2.
  void move() { ASSERT_NO_FATAL_FAILURE(moveAll(1, 0, kLast, 1, 2, 1, 0)); }
  WriteOptions there(uint64_t epoch = 2) { return {.epoch = epoch, .server = 1}; }

  uint64_t sequence = 0;
  std::map<std::string, Version> versions;
};

TEST_F(MasterMoveTest, EverythingArrivesOnce) {
  fill(300);
  const Version removed_version = write("gone", "x", ++sequence).version + 5;
  for (int i = 0; i < 5; ++i) ASSERT_EQ(write("gone", "x", ++sequence).status, Status::Ok);
  ASSERT_EQ(remove("gone", ++sequence).version, removed_version);
  move();
  for (const auto& [key, version] : versions) {
    const Answer found = read(key, 2, 1);
    EXPECT_EQ(found.status, Status::Ok) << key;
    EXPECT_EQ(found.version, version);
    EXPECT_EQ(found.value, "value" + key.substr(3));
  }
  EXPECT_EQ(read("gone", 2, 1).status, Status::NotFound);
  EXPECT_GT(write("gone", "y", ++sequence, there()).version, removed_version) << "also of what is not there any more";
  EXPECT_GT(write(keyOf(0), "y", ++sequence, there()).version, versions[keyOf(0)]);
  EXPECT_EQ(read(keyOf(0), 1, 0).status, Status::WrongServer);
  EXPECT_EQ(world.servers[0]->master().index().entryCount(), 0u) << "the old owner forgets it";
}

TEST_F(MasterMoveTest, AFrozenTabletIsReadAndNotChanged) {
  fill(3);
  ASSERT_EQ(freeze(1, 1), Status::Ok);
  EXPECT_EQ(freeze(1, 1), Status::Ok) << "repeated";
  EXPECT_EQ(freeze(1, 2), Status::StaleEpoch);
  EXPECT_EQ(read(keyOf(0)).status, Status::Ok);
  EXPECT_EQ(write(keyOf(0), "y", ++sequence).status, Status::RetryLater);
  EXPECT_EQ(remove(keyOf(0), ++sequence).status, Status::RetryLater);
  EXPECT_EQ(increment("counter", 1, ++sequence).status, Status::RetryLater);
}

// A client that was told to try again would come later than the hand-over, and meanwhile ask the coordinator for
// nothing.
TEST_F(MasterMoveTest, MutationsWaitForTheHandOver) {
  fill(3);
  const auto waits = [&] { return world.servers[0]->master().service()->stats().waits_for_hand_over.load(); };
  const auto begin = [&] {
    const std::string key = keyOf(0);
    const auto request = writeRequest(Opcode::Write, key, "y", ++sequence);
    return world.start(world.client, join({bytesOf(request), asBytes(key), asBytes(std::string_view("y"))}),
                       sizeof(request) + key.size());
  };
  ASSERT_EQ(freeze(1, 1), Status::Ok);
  EXPECT_EQ(waits(), 0u);
  const int64_t begun_ns = world.scheduler.nowNs();
  const auto too_long = begin();
  ASSERT_TRUE(world.runUntil([&] { return too_long->ended != 0; }));
  EXPECT_EQ(too_long->outcome(), Status::RetryLater);
  EXPECT_GE(world.scheduler.nowNs() - begun_ns, master::RoomQueue::kWaitNs / 2) << "but nobody waits for ever";
  EXPECT_GT(waits(), 0u);
  const auto first = begin();
  const auto second = begin();
  world.runFor(5 * kNanosPerMilli);
  EXPECT_TRUE(first->ended == 0 && second->ended == 0);
  ASSERT_EQ(lend(1, 1), Status::Ok);
  ASSERT_TRUE(world.runUntil([&] { return first->ended != 0 && second->ended != 0; }));
  EXPECT_EQ(first->outcome(), Status::WrongServer);
  EXPECT_EQ(second->outcome(), Status::WrongServer);
  EXPECT_LT(world.scheduler.nowNs() - begun_ns, 2 * master::RoomQueue::kWaitNs) << "told at once";
}

TEST_F(MasterMoveTest, MutationsGoOnWhenTheHandOverIsGivenUp) {
  fill(3);
  ASSERT_EQ(freeze(1, 1), Status::Ok);
  const std::string key = keyOf(0);
  const auto request = writeRequest(Opcode::Write, key, "y", ++sequence);
  const auto call = world.start(world.client, join({bytesOf(request), asBytes(key), asBytes(std::string_view("y"))}),
                                sizeof(request) + key.size());
  world.runFor(5 * kNanosPerMilli);
  EXPECT_EQ(call->ended, 0u);
  ASSERT_EQ(unfreeze(1, 1, 2), Status::Ok);
  ASSERT_TRUE(world.runUntil([&] { return call->ended != 0; }));
  EXPECT_EQ(call->outcome(), Status::StaleEpoch) << "the client learns of the new epoch, and sends it again";
  EXPECT_EQ(write(key, "y", sequence, {.epoch = 2}).status, Status::Ok);
}

TEST_F(MasterMoveTest, NobodyIsAnsweredByTheNewOwnerBeforeItIsTaken) {
  fill(50);
  ASSERT_NO_FATAL_FAILURE(handOver(1, 0, kLast, 1, 2, 1, 0));
  EXPECT_EQ(read(keyOf(0), 2, 1).status, Status::RetryLater);
  EXPECT_EQ(write(keyOf(0), "y", ++sequence, there()).status, Status::RetryLater);
  EXPECT_EQ(takeArriving(1, 0, kLast, 3, 1), Status::StaleEpoch) << "not prepared under this epoch";
  EXPECT_EQ(take(1, 0, kLast, 2, 1, false), Status::RetryLater) << "nothing has arrived";
  ASSERT_EQ(lend(1, 1), Status::Ok);
  EXPECT_EQ(takeArriving(1, 0, kLast, 2, 1), Status::Ok);
  EXPECT_EQ(takeArriving(1, 0, kLast, 2, 1), Status::Ok) << "repeated";
  EXPECT_EQ(read(keyOf(0), 2, 1).status, Status::Ok);
  EXPECT_EQ(read("none", 2, 1).status, Status::NotFound);
  EXPECT_EQ(write(keyOf(0), "y", ++sequence, there()).status, Status::Ok);
}

TEST_F(MasterMoveTest, ClientsAreToldWhoOwnsALentTablet) {
  fill(3);
  ASSERT_EQ(freeze(1, 1), Status::Ok);
  control::LendTabletRequest ask;
  ask.set_tablet(1);
  ask.set_epoch(1);
  ask.set_owner(world.addresses[1].id);
  ask.set_owner_epoch(2);
  ASSERT_EQ(world.command(Opcode::LendTablet, ask)->outcome(), Status::Ok);
  const std::string key = keyOf(0);
  const auto write = writeRequest(Opcode::Write, key, "y", ++sequence);
  const auto increment = incrementRequest(key, 1, ++sequence);
  for (const auto& bytes : {join({bytesOf(readRequest(key, 1, 0)), asBytes(key)}),
                            join({bytesOf(write), asBytes(key), asBytes(std::string_view("y"))}),
                            join({bytesOf(increment), asBytes(key)})}) {
    const auto call = world.send(bytes);
    EXPECT_EQ(call->outcome(), Status::WrongServer);
    const std::string answer = bytesOfAnswer(*call);
    wire::MovedTo moved{};
    ASSERT_EQ(answer.size(), sizeof(wire::ResponseHeader) + sizeof(moved));
    ASSERT_TRUE(wire::decode(asBytes(answer).subspan(sizeof(wire::ResponseHeader)), moved));
    EXPECT_EQ(moved.owner.value, world.addresses[1].id);
    EXPECT_EQ(moved.epoch, TabletEpoch(2));
    EXPECT_EQ(moved.range, (HashRange{0, kLast}));
  }
  ASSERT_EQ(drop(1, 1, 0), Status::Ok);
  const auto call = world.send(join({bytesOf(readRequest(key, 1, 0)), asBytes(key)}));
  EXPECT_EQ(call->outcome(), Status::WrongServer);
  EXPECT_EQ(bytesOfAnswer(*call).size(), sizeof(wire::ResponseHeader)) << "nothing is known any more";
}

TEST_F(MasterMoveTest, ALentTabletIsNeitherReadNorChangedNorGivenUp) {
  fill(30);
  ASSERT_NO_FATAL_FAILURE(handOver(1, 0, kLast, 1, 2, 1, 0));
  EXPECT_EQ(read(keyOf(0)).status, Status::Ok) << "it is read until it is lent";
  EXPECT_EQ(lend(1, 2), Status::StaleEpoch);
  EXPECT_EQ(lend(2, 1), Status::NotFound);
  ASSERT_EQ(lend(1, 1), Status::Ok);
  ASSERT_EQ(lend(1, 1), Status::Ok) << "repeated";
  EXPECT_EQ(read(keyOf(0)).status, Status::WrongServer);
  EXPECT_EQ(write(keyOf(0), "y", ++sequence).status, Status::WrongServer);
  // Late copies of earlier commands.
  EXPECT_EQ(freeze(1, 1), Status::StaleEpoch);
  EXPECT_EQ(unfreeze(1, 1, 3), Status::StaleEpoch);
  EXPECT_EQ(world.servers[0]->master().index().entryCount(), 30u) << "the contents stay";
}

TEST_F(MasterMoveTest, EveryCallIsAnsweredWhileTheContentsArrive) {
  fill(400);
  ASSERT_EQ(remove(keyOf(5), ++sequence).status, Status::Ok);
  ASSERT_NO_FATAL_FAILURE(handOver(1, 0, kLast, 1, 2, 1, 0));
  ASSERT_EQ(lend(1, 1), Status::Ok);
  ASSERT_EQ(takeArriving(1, 0, kLast, 2, 1), Status::Ok);
  // Piece by piece, each of them before its turn.
  EXPECT_EQ(scanAll(2, 1), 399u);
  EXPECT_EQ(read(keyOf(1), 2, 1).version, versions[keyOf(1)]);
  EXPECT_EQ(read(keyOf(5), 2, 1).status, Status::NotFound);
  EXPECT_EQ(read("none", 2, 1).status, Status::NotFound);
  WriteOptions must_exist = there();
  must_exist.condition = Condition::MustExist;
  EXPECT_EQ(write(keyOf(5), "y", ++sequence, must_exist).status, Status::NotFound);
  EXPECT_GT(write(keyOf(2), "y", ++sequence, there()).version, versions[keyOf(2)]);
  EXPECT_EQ(remove(keyOf(3), ++sequence, there()).version, versions[keyOf(3)]);
  EXPECT_EQ(increment("counter", 4, ++sequence, there()).counter, 4);
  ASSERT_EQ(pullProgress(1, 1, control::PULL_JOINED).phase(), control::PULL_JOINED);
  EXPECT_EQ(read(keyOf(2), 2, 1).value, "y");
  EXPECT_EQ(read(keyOf(3), 2, 1).status, Status::NotFound) << "what was removed does not come back";
  ASSERT_EQ(take(1, 0, kLast, 2, 1, false), Status::Ok);
  ASSERT_EQ(drop(1, 1, 0), Status::Ok);
  world.runFor(kNanosPerSecond);
  EXPECT_EQ(read(keyOf(3), 2, 1).status, Status::NotFound);
  EXPECT_EQ(read(keyOf(4), 2, 1).value, "value4");
  EXPECT_EQ(world.servers[1]->master().index().entryCount(), 399u) << "no tombstone is left in the index";
  EXPECT_EQ(world.servers[1]->master().tablets().list().front().arriving, nullptr);
}

TEST_F(MasterMoveTest, ADuplicateIsAnsweredByTheNewOwner) {
  ASSERT_EQ(increment("counter", 5, ++sequence).counter, 5);
  const uint64_t doubtful = sequence;
  const uint64_t refused = ++sequence;
  ASSERT_EQ(write("none", "x", refused, {.condition = Condition::MustExist}).status, Status::NotFound);
  move();
  const Answer again = increment("counter", 5, doubtful, there());
  EXPECT_EQ(again.status, Status::Ok);
  EXPECT_EQ(again.counter, 5);
  ASSERT_EQ(write("none", "y", ++sequence, there()).status, Status::Ok);
  WriteOptions must_exist = there();
  must_exist.condition = Condition::MustExist;
  EXPECT_EQ(write("none", "x", refused, must_exist).status, Status::NotFound);
  EXPECT_EQ(increment("counter", 0, ++sequence, there()).counter, 5);
  EXPECT_EQ(stats(1).duplicates_answered.load(), 2u);
}

TEST_F(MasterMoveTest, ClientsOfTheFormerOwnerAreConfirmedAllAtOnce) {
  constexpr uint64_t kClients = 1500;  // more than one question has room for
  for (uint64_t client = 1000; client < 1000 + kClients; ++client) {
    world.rules.valid_clients.insert(client);
    ASSERT_EQ(write(keyOf(static_cast<int>(client)), "x", 1, {.client = client}).status, Status::Ok);
  }
  const uint64_t lapsed = 1007;
  world.rules.valid_clients.erase(lapsed);
  const int checks = world.rules.checks;
  move();
  EXPECT_EQ(world.rules.checks, checks + 2);
  for (uint64_t client = 1000; client < 1000 + kClients; client += 7) {
    const Answer written = write("key", "y", 2, {.client = client, .epoch = 2, .server = 1});
    EXPECT_EQ(written.status, client == lapsed ? Status::LeaseExpired : Status::Ok) << client;
  }
  EXPECT_EQ(world.rules.checks, checks + 3) << "only that of the client whose lease is over";
}

TEST_F(MasterMoveTest, SlicesAreSmallWhileClientsCall) {
  control::TakeTabletRequest other;
  *other.mutable_tablet() = tabletOf(9, 0, kLast, 1);
  other.mutable_tablet()->set_table(kTable + 1);
  other.set_created_empty(true);
  ASSERT_EQ(world.command(Opcode::TakeTablet, other)->outcome(), Status::Ok);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(write(keyOf(i), std::string(1500, 'x'), ++sequence).status, Status::Ok);
  ASSERT_EQ(freeze(1, 1), Status::Ok);
  ASSERT_EQ(lend(1, 1), Status::Ok);
  const auto sliceBytes = [&] {
    const wire::Pull::Request ask{.header = header(Opcode::Pull),
                                  .tablet = TabletId(1),
                                  .epoch = TabletEpoch(1),
                                  .cursor = 0,
                                  .last = kLast,
                                  .response_bytes = 512 * 1024};
    const auto call = world.send(world.other_server, join({bytesOf(ask)}), 0);
    EXPECT_EQ(call->outcome(), Status::Ok);
    return bytesOfAnswer(*call).size();
  };
  // As much as is wanted, and the rest of a bucket of the index.
  EXPECT_LT(sliceBytes(), 24'000u) << "clients have just written";
  EXPECT_LT(sliceBytes(), 24'000u) << "and may write again";
  for (int i = 0; i < 20; ++i) static_cast<void>(sliceBytes());
  EXPECT_GT(sliceBytes(), 140'000u) << "everything";
  wire::Read::Request ask = readRequest("none");
  ask.table = TableId(kTable + 1);
  ASSERT_EQ(world.send(join({bytesOf(ask), asBytes(std::string_view("none"))}))->outcome(), Status::NotFound);
  EXPECT_LT(sliceBytes(), 24'000u) << "a client has read from another table";
}

TEST_F(MasterMoveTest, RecordsThatGoBetweenTwoSlicesMakeNoOthersBeSkipped) {
  // A second table on the same server, through which the client acknowledges.
  control::TakeTabletRequest other;
  *other.mutable_tablet() = tabletOf(9, 0, kLast, 1);
  other.mutable_tablet()->set_table(kTable + 1);
  other.set_created_empty(true);
  ASSERT_EQ(world.command(Opcode::TakeTablet, other)->outcome(), Status::Ok);
  for (uint64_t i = 1; i <= 40; ++i) ASSERT_EQ(increment(keyOf(static_cast<int>(i)), 1, i).counter, 1);
  ASSERT_EQ(freeze(1, 1), Status::Ok);
  wire::PullResults::Request request{.header = header(Opcode::PullResults),
                                     .tablet = TabletId(1),
                                     .epoch = TabletEpoch(1),
                                     .cursor = 0,
                                     .last = kLast,
                                     .response_bytes = 500};
  std::set<uint64_t> seen;
  bool done = false;
  int slices = 0;
  for (; slices < 100 && !done; ++slices) {
    const auto call = world.send(world.other_server, join({bytesOf(request)}), 0);
    ASSERT_EQ(call->outcome(), Status::Ok);
    const std::string bytes = bytesOfAnswer(*call);
    wire::Pull::Response response{};
    ASSERT_TRUE(wire::decode(asBytes(bytes), response));
    // At a multiple of 8, as the entries were.
    const std::vector<std::byte> entries = join({asBytes(bytes).subspan(sizeof(response))});
    ASSERT_EQ(entries.size(), response.entry_bytes);
    ByteSpan rest = entries;
    uint64_t before = 0;
    while (!rest.empty()) {
      log::EntryView entry;
      ASSERT_EQ(log::decodeEntry(rest, entry), log::DecodeError::None);
      const uint64_t call_sequence = entry.payloadAs<log::ResultRecordPayload>().sequence.value;
      EXPECT_GT(call_sequence, before) << "the calls of a client come in their order";
      before = call_sequence;
      seen.insert(call_sequence);
      rest = rest.subspan(entry.alignedBytes());
    }
    done = response.done == 1;
    if (!done) EXPECT_GT(response.next_cursor, request.cursor);
    request.cursor = response.next_cursor;
    if (slices == 1) {
      auto acknowledging = writeRequest(Opcode::Write, "k", "v", 41, {.acknowledged = 20});
      acknowledging.table = TableId(kTable + 1);
      ASSERT_EQ(world.send(join({bytesOf(acknowledging), asBytes("kv")}))->outcome(), Status::Ok);
    }
  }
  EXPECT_TRUE(done);
  EXPECT_GT(slices, 3);
  for (uint64_t sequence_wanted = 21; sequence_wanted <= 40; ++sequence_wanted) {
    EXPECT_TRUE(seen.contains(sequence_wanted)) << sequence_wanted;
  }
  EXPECT_LT(seen.size(), 40u) << "some were acknowledged in time";
  move();
  for (uint64_t i = 21; i <= 40; ++i) {
    EXPECT_EQ(increment(keyOf(static_cast<int>(i)), 1, i, there()).counter, 1) << "run twice";
  }
}

TEST_F(MasterMoveTest, GivingUpKeepsTheOldOwner) {
  fill(100);
  ASSERT_NO_FATAL_FAILURE(handOver(1, 0, kLast, 1, 2, 1, 0));
  ASSERT_EQ(drop(1, 2, 1), Status::Ok);
  ASSERT_EQ(unfreeze(1, 1, 3), Status::Ok);
  EXPECT_EQ(unfreeze(1, 1, 3), Status::Ok) << "repeated";
  EXPECT_EQ(unfreeze(1, 1, 4), Status::StaleEpoch);
  EXPECT_EQ(read(keyOf(0)).status, Status::StaleEpoch) << "clients learn of it";
  EXPECT_EQ(write(keyOf(0), "y", ++sequence, {.epoch = 3}).status, Status::Ok);
  EXPECT_EQ(read(keyOf(1), 3).value, "value1");
  // Late commands of the move that was given up.
  EXPECT_EQ(freeze(1, 1), Status::StaleEpoch);
  EXPECT_EQ(pull(1, 0, kLast, 1, 2, 1, 0), Status::StaleEpoch);
  EXPECT_EQ(take(1, 0, kLast, 2, 1, false), Status::StaleEpoch);
  EXPECT_EQ(take(1, 0, kLast, 2, 1, true), Status::StaleEpoch);
  EXPECT_EQ(takeArriving(1, 0, kLast, 2, 1), Status::StaleEpoch);
  EXPECT_EQ(lend(1, 1), Status::StaleEpoch);
  EXPECT_EQ(drop(1, 2, 1), Status::Ok);
  EXPECT_EQ(drop(1, 2, 0), Status::StaleEpoch) << "the old owner holds it under a newer epoch";
  EXPECT_EQ(read(keyOf(1), 3).status, Status::Ok);
  world.runFor(kNanosPerSecond);
  EXPECT_EQ(world.servers[1]->master().index().entryCount(), 0u) << "what was copied is gone";
  EXPECT_TRUE(world.servers[1]->master().tablets().list().empty());
  // The next attempt succeeds.
  ASSERT_NO_FATAL_FAILURE(moveAll(1, 0, kLast, 3, 4, 1, 0));
  EXPECT_EQ(read(keyOf(0), 4, 1).value, "y");
}

TEST_F(MasterMoveTest, APullUnderANewerEpochReplacesTheOlderOne) {
  fill(100);
  ASSERT_EQ(pull(1, 0, kLast, 1, 2, 1, 0), Status::Ok);
  EXPECT_EQ(pull(1, 0, kLast, 1, 2, 1, 0), Status::Ok) << "repeated: the same pull";
  world.runFor(kNanosPerMilli);
  ASSERT_NO_FATAL_FAILURE(handOver(1, 0, kLast, 1, 3, 1, 0));
  EXPECT_EQ(pull(1, 0, kLast, 1, 2, 1, 0), Status::StaleEpoch);
  EXPECT_EQ(takeArriving(1, 0, kLast, 2, 1), Status::StaleEpoch);
  ASSERT_EQ(lend(1, 1), Status::Ok);
  ASSERT_EQ(takeArriving(1, 0, kLast, 3, 1), Status::Ok);
  const auto end = pullProgress(1, 1, control::PULL_JOINED);
  EXPECT_EQ(end.objects(), 100u);
  ASSERT_EQ(take(1, 0, kLast, 3, 1, false), Status::Ok);
  EXPECT_EQ(read(keyOf(7), 3, 1).value, "value7");
  EXPECT_EQ(world.servers[1]->master().index().entryCount(), 100u);
}

TEST_F(MasterMoveTest, AwayAndBackBringsNothingOldBack) {
  fill(50);
  move();
  for (int i = 0; i < 25; ++i) ASSERT_EQ(remove(keyOf(i), ++sequence, there()).status, Status::Ok);
  ASSERT_NO_FATAL_FAILURE(moveAll(1, 0, kLast, 2, 3, 0, 1));
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(read(keyOf(i), 3).status, i < 25 ? Status::NotFound : Status::Ok) << i;
  }
}

TEST_F(MasterMoveTest, ASourceThatIsGoneEndsWhatIsNotHandedOver) {
  fill(20);
  ASSERT_EQ(pull(1, 0, kLast, 1, 2, 1, 0), Status::Ok);
  ASSERT_EQ(pullProgress(1, 1, control::PULL_PREPARED).phase(), control::PULL_PREPARED);
  const uint64_t ceiling = freezeForCeiling(1, 1, 0);
  world.network.partition("server1", "server2");
  EXPECT_NE(adopt(1, 2, ceiling, 1), Status::Ok);
  EXPECT_NE(pullEnd(1, 1).status(), 0u);
  EXPECT_NE(takeArriving(1, 0, kLast, 2, 1), Status::Ok);
  world.network.healAll();
  ASSERT_EQ(drop(1, 2, 1), Status::Ok);
  ASSERT_EQ(unfreeze(1, 1, 3), Status::Ok);
  EXPECT_EQ(read(keyOf(3), 3).status, Status::Ok);
}

TEST_F(MasterMoveTest, TabletLoadsTellsHowLargeTabletsAreAndWhoseCallsTheyGet) {
  fill(100);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(read(keyOf(7), 1).status, Status::Ok);
  const auto call = world.command(Opcode::TabletLoads, control::Empty());
  ASSERT_EQ(call->outcome(), Status::Ok);
  control::TabletLoadsResponse loads;
  ASSERT_TRUE(wire::parseControl(asBytes(call->text()), loads));
  EXPECT_EQ(loads.id(), world.addresses[0].id);
  ASSERT_EQ(loads.tablets_size(), 1);
  const control::TabletLoad& load = loads.tablets(0);
  EXPECT_EQ(load.tablet(), 1u);
  EXPECT_EQ(load.writes(), 100u);
  EXPECT_EQ(load.reads(), 1000u);
  EXPECT_EQ(load.objects(), 100u) << "few are counted";
  EXPECT_GT(load.bytes(), 100u * 30);
  EXPECT_LT(load.bytes(), 100u * 400);
  EXPECT_GT(load.called_size(), 50);
  EXPECT_EQ(load.hot_key(), keyOf(7));
}

TEST_F(MasterMoveTest, ServerStateTellsWhatIsHere) {
  fill(10);
  const auto call = world.command(Opcode::ServerState, control::Empty());
  ASSERT_EQ(call->outcome(), Status::Ok);
  control::ServerStateResponse state;
  ASSERT_TRUE(wire::parseControl(asBytes(call->text()), state));
  EXPECT_EQ(state.id(), world.addresses[0].id);
  EXPECT_EQ(state.objects(), 10u);
  EXPECT_GT(state.live_bytes(), 0u);
  ASSERT_EQ(state.transports_size(), 1);
  EXPECT_GT(state.transports(0).sessions(), 0u);
  EXPECT_EQ(state.transports(0).open_size(), 0);

  control::ServerStateRequest request;
  request.set_lists_sessions(true);
  const auto again = world.command(Opcode::ServerState, request);
  ASSERT_TRUE(wire::parseControl(asBytes(again->text()), state));
  EXPECT_EQ(state.transports(0).open_size(), static_cast<int>(state.transports(0).sessions()));
}

}  // namespace
}  // namespace ramcore::sim::raw
