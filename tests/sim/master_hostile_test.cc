/// Requests that no honest client sends: each is refused, and the server goes on as if nothing had been.

#include <gtest/gtest.h>

#include "sim/master_fixture.h"

namespace ramcore::sim::raw {
namespace {

struct Hostile {
  std::string name;
  std::vector<std::byte> bytes;
  Status expected = Status::BadRequest;
};

class MasterHostileTest : public MasterServiceTest {
 protected:
  MasterHostileTest() { EXPECT_EQ(write("key", "value", ++sequence_).status, Status::Ok); }

  template <typename Request>
  void add(const std::string& name, const Request& request, std::string_view rest,
           Status expected = Status::BadRequest) {
    cases_.push_back({name, join({bytesOf(request), asBytes(rest)}), expected});
  }
  /// Sends every case, and looks after each whether the server is unharmed.
  void runAll() {
    for (const Hostile& one : cases_) {
      for (const size_t contiguous : {size_t{0}, std::min<size_t>(one.bytes.size(), 72)}) {
        const auto call = world.send(world.client, one.bytes, contiguous);
        EXPECT_EQ(name(call->outcome()), name(one.expected)) << one.name << ", contiguous " << contiguous;
      }
      const Answer unharmed = read("key");
      ASSERT_EQ(unharmed.status, Status::Ok) << one.name;
      ASSERT_EQ(unharmed.value, "value") << one.name;
    }
    EXPECT_EQ(read("k").status, Status::NotFound) << "nothing was written";
    EXPECT_EQ(increment("counter", 1, ++sequence_).counter, 1);
  }

  uint64_t sequence_ = 0;
  std::vector<Hostile> cases_;
};

TEST_F(MasterHostileTest, Reads) {
  auto request = readRequest("k");
  add("no key behind the struct", request, "");
  add("more than the key", request, "kk");
  request.key_bytes = 0;
  add("no key", request, "");
  request.key_bytes = 65535;
  add("a key that is not there", request, "k");
  request = readRequest("k");
  request.reserved = 1;
  add("reserved bits", request, "k");
  cases_.push_back({"half a struct", std::vector<std::byte>(20), Status::BadRequest});
  storeAs(cases_.back().bytes.data(), header(Opcode::Read));
  runAll();
}

TEST_F(MasterHostileTest, WritesAndRemoves) {
  auto request = writeRequest(Opcode::Write, "k", "v", 100);
  add("value too short", request, "k");
  add("value too long", request, "kvv");
  add("nothing behind the struct", request, "");
  request.value_bytes = ~uint32_t{0};
  add("a value of 4 GB", request, "kv");
  request.value_bytes = wire::kValueBytesMax + 1;
  add("a value over the limit that is there", request, "k" + std::string(wire::kValueBytesMax + 1, 'v'),
      Status::TooLarge);
  request = writeRequest(Opcode::Write, "k", "v", 100);
  request.key_bytes = 0;
  add("no key", request, "v");
  request.key_bytes = 65535;
  request.value_bytes = 0;
  add("key longer than the message", request, "kv");
  request = writeRequest(Opcode::Write, "k", "v", 100);
  request.reserved8 = 1;
  add("reserved byte", request, "kv");
  request = writeRequest(Opcode::Write, "k", "v", 100);
  request.reserved32 = 0x80000000;
  add("reserved word", request, "kv");
  request = writeRequest(Opcode::Write, "k", "v", 100);
  request.condition = static_cast<Condition>(5);
  add("unknown condition", request, "kv");
  request = writeRequest(Opcode::Write, "k", "v", 0);
  add("sequence 0", request, "kv");
  request = writeRequest(Opcode::Write, "k", "v", 100, {.client = 0});
  add("client 0", request, "kv");
  request = writeRequest(Opcode::Remove, "k", "v", 100);
  add("a remove with a value", request, "kv");
  request = writeRequest(Opcode::Remove, "k", "", 100);
  request.key_bytes = 2;
  add("a remove with half a key", request, "k");
  runAll();
}

TEST_F(MasterHostileTest, Increments) {
  auto request = incrementRequest("k", 1, 100);
  add("no key behind the struct", request, "");
  add("more than the key", request, "kk");
  request.reserved = 7;
  add("reserved byte", request, "k");
  request = incrementRequest("k", 1, 100);
  request.key_bytes = 0;
  add("no key", request, "");
  request = incrementRequest("k", 1, 100);
  request.condition = static_cast<Condition>(255);
  add("unknown condition", request, "k");
  request = incrementRequest("k", 1, 0);
  add("sequence 0", request, "k");
  runAll();
}

TEST_F(MasterHostileTest, MultiReads) {
  wire::MultiRead::Request request{.header = header(Opcode::MultiRead), .count = 0};
  const wire::MultiRead::RequestPart part{.epoch = TabletEpoch(1), .table = TableId(kTable), .key_bytes = 8};
  const std::string good = std::string(asText(bytesOf(part))) + "kkkkkkkk";
  add("no parts", request, "");
  request.count = wire::kMultiCountMax + 1;
  add("too many parts", request, good);
  request.count = ~uint32_t{0};
  add("4 G parts", request, good);
  request.count = wire::kMultiCountMax;
  add("parts that are not there", request, good);
  request.count = 2;
  add("one part of two", request, good);
  request.count = 1;
  add("one part too many", request, good + good);
  add("half a part", request, good.substr(0, 10));
  add("bytes behind the last part", request, good + "12345678");
  request.reserved = 1;
  add("reserved bits", request, good);
  request.reserved = 0;
  auto bad = part;
  bad.key_bytes = 0;
  add("a part without a key", request, std::string(asText(bytesOf(bad))) + "kkkkkkkk");
  bad = part;
  bad.key_bytes = 65535;
  add("a key that is not there", request, std::string(asText(bytesOf(bad))) + "kkkkkkkk");
  bad = part;
  bad.key_bytes = 9;
  add("a key without its padding", request, std::string(asText(bytesOf(bad))) + "kkkkkkkkk");
  bad = part;
  bad.reserved = 1;
  add("reserved bits in a part", request, std::string(asText(bytesOf(bad))) + "kkkkkkkk");
  runAll();
}

TEST_F(MasterHostileTest, MultiMutations) {
  using Multi = wire::MultiMutate;
  const Multi::Request whole{
      .header = header(Opcode::MultiMutate), .client = ClientId(1), .acknowledged = Sequence(0), .count = 1};
  const Multi::RequestPart part{.sequence = Sequence(100),
                                .epoch = TabletEpoch(1),
                                .condition_version = 0,
                                .table = TableId(kTable),
                                .value_bytes = 4,
                                .key_bytes = 4,
                                .kind = Multi::Kind::Write,
                                .condition = Condition::None};
  const auto body = [](const Multi::RequestPart& one) { return std::string(asText(bytesOf(one))) + "kkkkvvvv"; };
  auto request = whole;
  request.count = 0;
  add("no parts", request, "");
  request.count = wire::kMultiCountMax + 1;
  add("too many parts", request, body(part));
  request.count = wire::kMultiCountMax;
  add("parts that are not there", request, body(part));
  request = whole;
  request.client = ClientId(0);
  add("client 0", request, body(part));
  request = whole;
  request.reserved = 9;
  add("reserved bits", request, body(part));
  add("bytes behind the last part", whole, body(part) + "12345678");
  add("half a part", whole, body(part).substr(0, 40));
  auto bad = part;
  bad.key_bytes = 0;
  bad.value_bytes = 8;
  add("a part without a key", whole, body(bad));
  bad = part;
  bad.value_bytes = ~uint32_t{0};
  add("a value of 4 GB", whole, body(bad));
  bad = part;
  bad.value_bytes = 5;
  add("a value without its padding", whole, body(bad));
  bad = part;
  bad.kind = static_cast<Multi::Kind>(2);
  add("unknown kind", whole, body(bad));
  bad = part;
  bad.condition = static_cast<Condition>(77);
  add("unknown condition", whole, body(bad));
  bad = part;
  bad.sequence = Sequence(0);
  add("sequence 0", whole, body(bad));
  bad = part;
  bad.reserved = 1;
  add("reserved bits in a part", whole, body(bad));
  bad = part;
  bad.kind = Multi::Kind::Remove;
  add("a remove with a value", whole, body(bad));
  // The first part is fine, the second is not: nothing happens.
  request = whole;
  request.count = 2;
  bad = part;
  bad.key_bytes = 0;
  auto fine = part;
  fine.key_bytes = 1;
  fine.value_bytes = 7;
  add("a bad part behind a good one", request, body(fine) + body(bad));
  runAll();
}

TEST_F(MasterHostileTest, Scans) {
  wire::Scan::Request request{.header = header(Opcode::Scan),
                              .epoch = TabletEpoch(1),
                              .cursor = 0,
                              .table = TableId(kTable),
                              .response_bytes = 1000};
  add("bytes behind the struct", request, "x");
  cases_.push_back({"half a struct", std::vector<std::byte>(39), Status::BadRequest});
  storeAs(cases_.back().bytes.data(), header(Opcode::Scan));
  runAll();
  // Greedy ones are served, to a bound.
  request.response_bytes = ~uint32_t{0};
  request.cursor = kLast;
  EXPECT_EQ(world.send(join({bytesOf(request)}))->outcome(), Status::Ok);
}

TEST_F(MasterHostileTest, RolesThatMayNot) {
  // Clients give no orders, and do not take part in moves.
  for (const Opcode opcode :
       {Opcode::TakeTablet, Opcode::DropTablet, Opcode::SplitTablet, Opcode::FreezeTablet, Opcode::UnfreezeTablet,
        Opcode::PullTablet, Opcode::PullProgress, Opcode::ServerState, Opcode::AdoptTablet, Opcode::LendTablet,
        Opcode::Pull, Opcode::PullHashes, Opcode::MeasureTablet, Opcode::ListClients, Opcode::PullResults,
        Opcode::Enlist, Opcode::CreateTable}) {
    cases_.push_back({std::string(wire::name(opcode)), join({bytesOf(header(opcode)), std::vector<std::byte>(40)})});
  }
  runAll();
}

TEST_F(MasterHostileTest, CommandsOfTheCoordinator) {
  for (const Opcode opcode :
       {Opcode::TakeTablet, Opcode::DropTablet, Opcode::SplitTablet, Opcode::FreezeTablet, Opcode::UnfreezeTablet,
        Opcode::PullTablet, Opcode::PullProgress, Opcode::ServerState, Opcode::AdoptTablet, Opcode::LendTablet}) {
    const auto garbage = join({bytesOf(header(opcode)), asBytes("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")});
    EXPECT_EQ(world.send(world.coordinator, garbage, 0)->outcome(), Status::BadRequest) << name(opcode);
  }
  EXPECT_EQ(take(0, 0, kLast, 1), Status::BadRequest) << "no id";
  EXPECT_EQ(take(5, 10, 9, 1), Status::BadRequest) << "a range that is backwards";
  EXPECT_EQ(take(5, 0, 10, 1), Status::BadRequest) << "overlaps what is here";
  EXPECT_EQ(take(5, 0, 10, 0), Status::BadRequest) << "no epoch";
  EXPECT_EQ(take(5, 0, kLast, 1, 0, false), Status::NotFound) << "never pulled";
  EXPECT_EQ(drop(0, 1), Status::BadRequest);
  EXPECT_EQ(freeze(5, 1), Status::NotFound);
  EXPECT_EQ(unfreeze(5, 1, 2), Status::NotFound);
  EXPECT_EQ(lend(5, 1), Status::NotFound);
  EXPECT_EQ(lend(1, 1), Status::StaleEpoch) << "not frozen";
  EXPECT_EQ(unfreeze(1, 1, 1), Status::BadRequest) << "not a new epoch";
  EXPECT_EQ(read("key").value, "value");
}

TEST_F(MasterHostileTest, AWholeThatWasSplitDoesNotComeBack) {
  control::SplitTabletRequest ask;
  ask.set_tablet(1);
  *ask.mutable_lower() = tabletOf(2, 0, kLast / 2, 2);
  *ask.mutable_upper() = tabletOf(3, kLast / 2 + 1, kLast, 2);
  ASSERT_EQ(world.command(Opcode::SplitTablet, ask)->outcome(), Status::Ok);
  ASSERT_EQ(drop(2, 2), Status::Ok);
  ASSERT_EQ(drop(3, 2), Status::Ok);
  EXPECT_EQ(take(1, 0, kLast, 1), Status::StaleEpoch) << "a command from before the split that comes late";
  EXPECT_EQ(read("key", 1).status, Status::WrongServer);
}

TEST_F(MasterHostileTest, PullsOfServersThatMakeNoSense) {
  const auto ask = [&](const wire::Pull::Request& request) {
    return world.send(world.other_server, join({bytesOf(request)}), 0)->outcome();
  };
  for (const Opcode opcode : {Opcode::Pull, Opcode::PullResults}) {
    wire::Pull::Request request{.header = header(opcode),
                                .tablet = TabletId(1),
                                .epoch = TabletEpoch(1),
                                .cursor = 0,
                                .last = 0,
                                .response_bytes = 1000};
    EXPECT_EQ(ask(request), Status::RetryLater) << "not frozen";
    request.epoch = TabletEpoch(2);
    EXPECT_EQ(ask(request), Status::StaleEpoch);
    request.tablet = TabletId(9);
    EXPECT_EQ(ask(request), Status::WrongServer);
    request.reserved = 1;
    EXPECT_EQ(ask(request), Status::BadRequest);
    request.reserved = 0;
    request.cursor = 1;
    EXPECT_EQ(ask(request), Status::BadRequest) << "an end before the cursor";
  }
  control::SplitTabletRequest split;
  split.set_tablet(1);
  *split.mutable_lower() = tabletOf(2, 0, 999, 2);
  *split.mutable_upper() = tabletOf(3, 1000, kLast, 2);
  ASSERT_EQ(world.command(Opcode::SplitTablet, split)->outcome(), Status::Ok);
  ASSERT_EQ(freeze(2, 2), Status::Ok);
  wire::Pull::Request outside{.header = header(Opcode::Pull),
                              .tablet = TabletId(2),
                              .epoch = TabletEpoch(2),
                              .cursor = 1000,
                              .last = 1000,
                              .response_bytes = 1000};
  EXPECT_EQ(ask(outside), Status::RetryLater) << "not lent";
  ASSERT_EQ(lend(2, 2), Status::Ok);
  EXPECT_EQ(ask(outside), Status::BadRequest) << "a cursor outside of the tablet";
  outside.cursor = 999;
  EXPECT_EQ(ask(outside), Status::BadRequest) << "an end outside of the tablet";
  outside.last = 999;
  EXPECT_EQ(ask(outside), Status::Ok);
}

TEST_F(MasterHostileTest, PullsOfHashesThatMakeNoSense) {
  const auto ask = [&](uint32_t count, const std::vector<KeyHash>& hashes) {
    const wire::PullHashes::Request request{
        .header = header(Opcode::PullHashes), .tablet = TabletId(1), .epoch = TabletEpoch(1), .count = count};
    return world.send(world.other_server, join({bytesOf(request), std::as_bytes(std::span(hashes))}), 0)->outcome();
  };
  EXPECT_EQ(ask(1, {5}), Status::RetryLater) << "not lent";
  ASSERT_EQ(freeze(1, 1), Status::Ok);
  ASSERT_EQ(lend(1, 1), Status::Ok);
  EXPECT_EQ(ask(2, {5, 6}), Status::Ok);
  EXPECT_EQ(ask(2, {6, 5}), Status::BadRequest) << "not ascending";
  EXPECT_EQ(ask(2, {5, 5}), Status::BadRequest) << "twice";
  EXPECT_EQ(ask(3, {5, 6}), Status::BadRequest);
  EXPECT_EQ(ask(1, {5, 6}), Status::BadRequest);
  EXPECT_EQ(ask(0, {5}), Status::BadRequest);
  EXPECT_EQ(ask(65, std::vector<KeyHash>(65)), Status::BadRequest);
  EXPECT_EQ(ask(1'000'000, {5}), Status::BadRequest);
  const wire::PullHashes::Request of_client{
      .header = header(Opcode::PullHashes), .tablet = TabletId(1), .epoch = TabletEpoch(1), .count = 1};
  const KeyHash hash = 5;
  EXPECT_NE(world.send(join({bytesOf(of_client), bytesOf(hash)}))->outcome(), Status::Ok) << "from a client";
}

}  // namespace
}  // namespace ramcore::sim::raw
