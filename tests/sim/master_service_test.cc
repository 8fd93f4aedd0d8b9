/// One or two masters under a coordinator of a few lines, asked byte by byte: what the data plane answers, to honest
/// and to hostile requests.

#include <gtest/gtest.h>

#include <map>

#include "sim/master_fixture.h"
#include "store/range_slice.h"

namespace ramcore::sim::raw {
namespace {

// ---- what it does

TEST_F(MasterServiceTest, WritesReadsAndRemoves) {
  EXPECT_EQ(read("key").status, Status::NotFound);
  const Answer written = write("key", "value", 1);
  EXPECT_EQ(written.status, Status::Ok);
  EXPECT_GT(written.version, 0u);
  EXPECT_EQ(read("key").value, "value");
  EXPECT_EQ(read("key").version, written.version);
  const Answer again = write("key", "", 2);
  EXPECT_GT(again.version, written.version);
  EXPECT_EQ(read("key").value, "");
  EXPECT_EQ(read("key").status, Status::Ok);
  EXPECT_EQ(remove("key", 3).version, again.version);
  EXPECT_EQ(read("key").status, Status::NotFound);
  EXPECT_EQ(remove("key", 4).status, Status::Ok);
  EXPECT_EQ(remove("key", 5).version, 0u);
  EXPECT_GT(write("key", "new", 6).version, again.version) << "versions never go back, also across a remove";
}

TEST_F(MasterServiceTest, LargeKeysAndValues) {
  const std::string key(1000, 'k');
  for (const size_t bytes : {size_t{4096}, size_t{4097}, size_t{5'000}}) {
    std::string value(bytes, 'v');
    value.back() = 'w';
    ASSERT_EQ(write(key, value, bytes).status, Status::Ok) << bytes;
    EXPECT_EQ(read(key).value, value) << bytes;
  }
}

TEST_F(MasterServiceTest, Conditions) {
  const auto with = [](Condition condition, Version version = 0) {
    return WriteOptions{.condition = condition, .condition_version = version};
  };
  uint64_t sequence = 0;
  EXPECT_EQ(write("key", "a", ++sequence, with(Condition::MustExist)).status, Status::NotFound);
  EXPECT_EQ(write("key", "a", ++sequence, with(Condition::VersionEquals, 5)).status, Status::NotFound);
  EXPECT_EQ(remove("key", ++sequence, with(Condition::MustExist)).status, Status::NotFound);
  EXPECT_EQ(read("key").status, Status::NotFound);
  const Version first = write("key", "a", ++sequence, with(Condition::MustNotExist)).version;
  const Answer exists = write("key", "b", ++sequence, with(Condition::MustNotExist));
  EXPECT_EQ(exists.status, Status::ObjectExists);
  EXPECT_EQ(exists.version, first) << "the present version";
  EXPECT_EQ(write("key", "b", ++sequence, with(Condition::VersionEquals, first + 1)).status, Status::WrongVersion);
  EXPECT_EQ(write("key", "b", ++sequence, with(Condition::VersionNotGreater, first - 1)).status, Status::WrongVersion);
  EXPECT_EQ(read("key").value, "a");
  EXPECT_EQ(write("key", "b", ++sequence, with(Condition::VersionEquals, first)).status, Status::Ok);
  EXPECT_EQ(write("key", "c", ++sequence, with(Condition::VersionNotGreater, first + 100)).status, Status::Ok);
  EXPECT_EQ(write("key", "d", ++sequence, with(Condition::MustExist)).status, Status::Ok);
  EXPECT_EQ(write("none", "x", ++sequence, with(Condition::VersionNotGreater, 0)).status, Status::Ok);
  EXPECT_EQ(write("zero", "x", ++sequence, with(Condition::VersionEquals, 0)).status, Status::Ok);
  EXPECT_EQ(remove("key", ++sequence, with(Condition::VersionEquals, first)).status, Status::WrongVersion);
  EXPECT_EQ(remove("key", ++sequence, with(Condition::MustExist)).status, Status::Ok);
}

TEST_F(MasterServiceTest, IncrementsAndWrapsAround) {
  EXPECT_EQ(increment("counter", 5, 1).counter, 5);
  EXPECT_EQ(increment("counter", -7, 2).counter, -2);
  EXPECT_EQ(increment("counter", INT64_MIN, 3).counter, INT64_MAX - 1);
  EXPECT_EQ(increment("counter", INT64_MAX, 4).counter, -3);
  ASSERT_EQ(write("text", "not a number", 5).status, Status::Ok);
  EXPECT_EQ(increment("text", 1, 6).status, Status::TypeMismatch);
  EXPECT_EQ(read("text").value, "not a number");
  const auto absent = increment("none", 1, 7, {.condition = Condition::MustExist});
  EXPECT_EQ(absent.status, Status::NotFound);
}

// ---- exactly once

TEST_F(MasterServiceTest, ARepeatedCallIsAnsweredAndNotRun) {
  const Answer first = increment("counter", 5, 1);
  const Answer again = increment("counter", 5, 1);
  EXPECT_EQ(again.status, Status::Ok);
  EXPECT_EQ(again.version, first.version);
  EXPECT_EQ(again.counter, 5);
  EXPECT_EQ(increment("counter", 0, 2).counter, 5);
  EXPECT_EQ(stats().duplicates_answered.load(), 1u);
  // Refusals are results too: the state has changed in between, the answer has not.
  const WriteOptions must_exist{.condition = Condition::MustExist};
  EXPECT_EQ(write("key", "a", 3, must_exist).status, Status::NotFound);
  ASSERT_EQ(write("key", "b", 4).status, Status::Ok);
  EXPECT_EQ(write("key", "a", 3, must_exist).status, Status::NotFound);
  EXPECT_EQ(read("key").value, "b");
  // A remove that found nothing.
  EXPECT_EQ(remove("other", 5).version, 0u);
  ASSERT_EQ(write("other", "x", 6).status, Status::Ok);
  EXPECT_EQ(remove("other", 5).version, 0u);
  EXPECT_EQ(read("other").value, "x");
}

TEST_F(MasterServiceTest, WhatWasAcknowledgedIsRefused) {
  ASSERT_EQ(write("key", "a", 1).status, Status::Ok);
  ASSERT_EQ(write("key", "b", 2, {.acknowledged = 1}).status, Status::Ok);
  EXPECT_EQ(write("key", "a", 1).status, Status::StaleSequence);
  EXPECT_EQ(write("key", "c", 2, {.acknowledged = 2}).status, Status::StaleSequence);
  EXPECT_EQ(read("key").value, "b");
}

TEST_F(MasterServiceTest, UnknownClientsAreConfirmedOnce) {
  EXPECT_EQ(world.rules.checks, 0);
  ASSERT_EQ(write("key", "a", 1).status, Status::Ok);
  ASSERT_EQ(write("key", "b", 2).status, Status::Ok);
  EXPECT_EQ(world.rules.checks, 1);
  ASSERT_EQ(increment("counter", 1, 1, {.client = 2}).status, Status::Ok);
  EXPECT_EQ(world.rules.checks, 2);
}

TEST_F(MasterServiceTest, ALapsedClientIsRefused) {
  EXPECT_EQ(write("key", "a", 1, {.client = 50}).status, Status::LeaseExpired);
  EXPECT_EQ(increment("key", 1, 2, {.client = 50}).status, Status::LeaseExpired);
  EXPECT_EQ(read("key").status, Status::NotFound);
}

TEST_F(MasterServiceTest, WithoutACoordinatorNewClientsHaveToWait) {
  world.network.partition("coordinator", "server1");
  EXPECT_EQ(write("key", "a", 1).status, Status::RetryLater);
  world.network.healAll();
  EXPECT_TRUE(world.runUntil([&] { return write("key", "a", 1).status == Status::Ok; }));
}

// ---- ownership and lease

TEST_F(MasterServiceTest, OnlyTheTabletsOwnEpochIsAnswered) {
  ASSERT_EQ(drop(1, 1), Status::Ok);
  ASSERT_EQ(take(2, 0, kLast, 5), Status::Ok);
  EXPECT_EQ(read("key", 4).status, Status::StaleEpoch);
  EXPECT_EQ(read("key", 6).status, Status::RetryLater);
  EXPECT_EQ(write("key", "a", 1, {.epoch = 4}).status, Status::StaleEpoch);
  EXPECT_EQ(write("key", "a", 1, {.epoch = 6}).status, Status::RetryLater);
  EXPECT_EQ(increment("key", 1, 1, {.epoch = 4}).status, Status::StaleEpoch);
  EXPECT_EQ(write("key", "a", 1, {.epoch = 5}).status, Status::Ok);
  EXPECT_EQ(stats().stale_epochs.load(), 3u);
  ASSERT_EQ(drop(2, 5), Status::Ok);
  EXPECT_EQ(read("key", 5).status, Status::WrongServer);
}

TEST_F(MasterServiceTest, ALeaseThatRanOutStopsAllAnswers) {
  ASSERT_EQ(write("key", "a", 1).status, Status::Ok);
  world.network.partition("coordinator", "server1");
  world.runFor(2 * kNanosPerSecond);
  EXPECT_EQ(read("key").status, Status::LeaseUnknown);
  EXPECT_EQ(write("key", "b", 2).status, Status::LeaseUnknown);
  EXPECT_EQ(increment("counter", 1, 3).status, Status::LeaseUnknown);
  EXPECT_EQ(stats().lease_refusals.load(), 3u);
  world.network.healAll();
  EXPECT_TRUE(world.runUntil([&] { return read("key").status == Status::Ok; }));
  EXPECT_EQ(read("key").value, "a");
}

TEST_F(MasterServiceTest, AVerdictEndsService) {
  ASSERT_EQ(write("key", "a", 1).status, Status::Ok);
  world.rules.fenced.insert(world.addresses[0].id);
  EXPECT_TRUE(world.runUntil([&] { return !world.servers[0]->rejected().empty(); }));
  EXPECT_EQ(read("key").status, Status::LeaseUnknown);
  EXPECT_EQ(write("key", "b", 2).status, Status::LeaseUnknown);
}

// ---- several at once

TEST_F(MasterServiceTest, MultiReadAnswersEachPart) {
  ASSERT_EQ(write("a", "first", 1).status, Status::Ok);
  ASSERT_EQ(write("b", "", 2).status, Status::Ok);
  for (const uint32_t count : {4u, 40u}) {
    std::vector<std::byte> bytes =
        join({bytesOf(wire::MultiRead::Request{.header = header(Opcode::MultiRead), .count = count})});
    const auto add = [&](std::string_view key, uint64_t epoch) {
      std::vector<std::byte> part = join(
          {bytesOf(wire::MultiRead::RequestPart{.epoch = TabletEpoch(epoch), .table = TableId(kTable), .key_bytes = 1}),
           asBytes(key)});
      part.resize(alignUp(part.size(), 8));
      bytes.insert(bytes.end(), part.begin(), part.end());
    };
    for (uint32_t i = 0; i < count / 4; ++i) {
      add("a", 1);
      add("e", 1);
      add("b", 1);
      add("a", 9);
    }
    const auto call = world.send(bytes);
    ASSERT_EQ(call->outcome(), Status::Ok);
    const std::string answer = bytesOfAnswer(*call);
    wire::Cursor cursor(asBytes(answer));
    wire::MultiRead::Response response{};
    ASSERT_TRUE(cursor.take(response));
    EXPECT_EQ(response.count, count);
    const Status expected[] = {Status::Ok, Status::NotFound, Status::Ok, Status::RetryLater};
    std::vector<wire::MultiRead::ResponsePart> answers(count);
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_TRUE(cursor.take(answers[i]));
      EXPECT_EQ(answers[i].status, expected[i % 4]) << i;
      EXPECT_EQ(answers[i].is_apart, 0);
    }
    for (uint32_t i = 0; i < count; ++i) {
      ByteSpan value;
      ASSERT_TRUE(cursor.takeBytes(answers[i].value_bytes, value));
      EXPECT_EQ(asText(value), i % 4 == 0 ? "first" : "");
    }
    EXPECT_TRUE(cursor.atEnd());
  }
}

// More values than one message borrows: the others are copied, in front of those.
TEST_F(MasterServiceTest, MultiReadSendsLongValuesFromWhereTheyStand) {
  constexpr uint32_t kCount = 40;
  const auto valueOf = [](uint32_t i) {
    return std::string(i % 3 == 0 ? 100 : 5000 + i, static_cast<char>('a' + i % 26));
  };
  auto bytes = join({bytesOf(wire::MultiRead::Request{.header = header(Opcode::MultiRead), .count = kCount})});
  for (uint32_t i = 0; i < kCount; ++i) {
    const std::string key = "k" + std::to_string(i);
    EXPECT_EQ(write(key, valueOf(i), i + 1).status, Status::Ok);
    auto part =
        join({bytesOf(wire::MultiRead::RequestPart{
                  .epoch = TabletEpoch(1), .table = TableId(kTable), .key_bytes = static_cast<uint16_t>(key.size())}),
              asBytes(key)});
    part.resize(alignUp(part.size(), 8));
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  const auto call = world.send(bytes);
  ASSERT_EQ(call->outcome(), Status::Ok);
  const std::string answer = bytesOfAnswer(*call);
  wire::Cursor cursor(asBytes(answer));
  wire::MultiRead::Response response{};
  ASSERT_TRUE(cursor.take(response));
  std::vector<wire::MultiRead::ResponsePart> parts(kCount);
  uint32_t apart_count = 0;
  for (wire::MultiRead::ResponsePart& part : parts) {
    ASSERT_TRUE(cursor.take(part));
    apart_count += part.is_apart;
  }
  EXPECT_EQ(apart_count, kCount - (kCount + 2) / 3);
  for (const uint16_t is_apart : {0, 1}) {
    for (uint32_t i = 0; i < kCount; ++i) {
      if (parts[i].is_apart != is_apart) continue;
      ByteSpan value;
      ASSERT_TRUE(cursor.takeBytes(parts[i].value_bytes, value));
      EXPECT_EQ(asText(value), valueOf(i)) << i;
    }
  }
  EXPECT_TRUE(cursor.atEnd());
}

std::vector<std::byte> mutatePart(uint64_t sequence, std::string_view key, std::string_view value,
                                  wire::MultiMutate::Kind kind, uint64_t epoch = 1) {
  auto part = join({bytesOf(wire::MultiMutate::RequestPart{.sequence = Sequence(sequence),
                                                           .epoch = TabletEpoch(epoch),
                                                           .condition_version = 0,
                                                           .table = TableId(kTable),
                                                           .value_bytes = static_cast<uint32_t>(value.size()),
                                                           .key_bytes = static_cast<uint16_t>(key.size()),
                                                           .kind = kind,
                                                           .condition = Condition::None}),
                    asBytes(key), asBytes(value)});
  part.resize(alignUp(part.size(), 8));
  return part;
}

TEST_F(MasterServiceTest, MultiMutateRunsEachPartOnce) {
  using Kind = wire::MultiMutate::Kind;
  const auto request =
      join({bytesOf(wire::MultiMutate::Request{
                .header = header(Opcode::MultiMutate), .client = ClientId(1), .acknowledged = Sequence(0), .count = 4}),
            mutatePart(1, "aaaaaaaa", "one", Kind::Write), mutatePart(2, "b", "two", Kind::Write),
            mutatePart(3, "aaaaaaaa", "", Kind::Remove), mutatePart(4, "c", "x", Kind::Write, 7)});
  std::string first;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto call = world.send(request);
    ASSERT_EQ(call->outcome(), Status::Ok);
    const std::string answer = bytesOfAnswer(*call);
    wire::Cursor cursor(asBytes(answer));
    wire::MultiMutate::Response response{};
    ASSERT_TRUE(cursor.take(response));
    const Status expected[] = {Status::Ok, Status::Ok, Status::Ok, Status::RetryLater};
    for (const Status status : expected) {
      wire::MultiMutate::ResponsePart part{};
      ASSERT_TRUE(cursor.take(part));
      EXPECT_EQ(part.status, status);
    }
    EXPECT_TRUE(cursor.atEnd());
    if (attempt == 0) first = answer;
    EXPECT_EQ(answer, first);
  }
  EXPECT_EQ(stats().duplicates_answered.load(), 3u);
  EXPECT_EQ(read("b").value, "two");
  EXPECT_EQ(read("aaaaaaaa").status, Status::NotFound);
}

// Only the coordinator can say that a lease is over, and the client would give up an identity that is valid.
TEST_F(MasterServiceTest, WithoutACoordinatorAMultiMutateOfANewClientHasToWait) {
  using Kind = wire::MultiMutate::Kind;
  const auto request =
      join({bytesOf(wire::MultiMutate::Request{
                .header = header(Opcode::MultiMutate), .client = ClientId(1), .acknowledged = Sequence(0), .count = 3}),
            mutatePart(1, "a", "one", Kind::Write), mutatePart(2, "b", "two", Kind::Write),
            mutatePart(3, "c", "three", Kind::Write)});
  const auto statuses = [&] {
    const auto call = world.send(request);
    EXPECT_EQ(call->outcome(), Status::Ok);
    const std::string answer = bytesOfAnswer(*call);
    wire::Cursor cursor(asBytes(answer));
    wire::MultiMutate::Response response{};
    EXPECT_TRUE(cursor.take(response));
    std::vector<Status> found;
    for (wire::MultiMutate::ResponsePart part{}; cursor.take(part);) found.push_back(part.status);
    return found;
  };
  world.network.partition("coordinator", "server1");
  EXPECT_EQ(statuses(), std::vector<Status>(3, Status::RetryLater));
  world.network.healAll();
  EXPECT_TRUE(world.runUntil([&] { return statuses() == std::vector<Status>(3, Status::Ok); }));
}

// ---- scans

struct Page {
  Status status;
  wire::Scan::Response header{};
  std::vector<std::string> keys = {};
};

class MasterScanTest : public MasterServiceTest {
 protected:
  Page page(KeyHash cursor, uint32_t response_bytes, uint64_t epoch = 1) {
    const wire::Scan::Request request{.header = header(Opcode::Scan),
                                      .epoch = TabletEpoch(epoch),
                                      .cursor = cursor,
                                      .table = TableId(kTable),
                                      .response_bytes = response_bytes};
    const auto call = world.send(join({bytesOf(request)}));
    Page out{.status = call->outcome()};
    if (out.status != Status::Ok) return out;
    const std::string bytes = bytesOfAnswer(*call);
    wire::Cursor at(asBytes(bytes));
    EXPECT_TRUE(at.take(out.header));
    for (uint32_t i = 0; i < out.header.count; ++i) {
      wire::Scan::Part part{};
      ByteSpan key;
      ByteSpan value;
      EXPECT_TRUE(at.take(part) && at.takeBytes(part.key_bytes, key) && at.takeBytes(part.value_bytes, value) &&
                  at.takePadding(size_t{part.key_bytes} + part.value_bytes));
      EXPECT_EQ(asText(value), "value of " + std::string(asText(key)));
      out.keys.emplace_back(asText(key));
    }
    EXPECT_TRUE(at.atEnd());
    return out;
  }
  void fill(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string key = "key" + std::to_string(i);
      ASSERT_EQ(write(key, "value of " + key, static_cast<uint64_t>(i + 1)).status, Status::Ok);
    }
  }
};

TEST_F(MasterScanTest, GivesEveryObjectOnceInOrderOfKeyHashes) {
  fill(150);
  for (const uint32_t response_bytes : {0u, 100u, 1000u, 1'000'000u}) {
    std::map<std::string, int> seen;
    KeyHash cursor = 0;
    KeyHash last = 0;
    for (int pages = 0; pages < 1000; ++pages) {
      const Page got = page(cursor, response_bytes);
      ASSERT_EQ(got.status, Status::Ok);
      for (const std::string& key : got.keys) {
        ++seen[key];
        const KeyHash hash = hashKey(TableId(kTable), asBytes(key));
        EXPECT_GE(hash, last);
        EXPECT_GE(hash, cursor);
        last = hash;
      }
      if (got.header.range_done == 1) break;
      ASSERT_GT(got.header.next_cursor, cursor) << "always forward";
      cursor = got.header.next_cursor;
    }
    EXPECT_EQ(seen.size(), 150u) << response_bytes;
    for (const auto& [key, count] : seen) EXPECT_EQ(count, 1) << key;
  }
}

TEST_F(MasterScanTest, KeysOfOneHashAreFewAndComeTogether) {
  constexpr uint64_t kMax = store::ObjectStore::kKeysPerHashMax;
  const KeyHash hash = hashKey(TableId(kTable), asBytes(collidingKey(1)));
  ASSERT_EQ(hashKey(TableId(kTable), asBytes(collidingKey(2))), hash);
  uint64_t sequence = 0;
  for (uint64_t i = 1; i <= kMax; ++i) {
    const std::string key = collidingKey(i);
    ASSERT_EQ(write(key, "value of " + key, ++sequence).status, Status::Ok);
  }
  EXPECT_EQ(write(collidingKey(kMax + 1), "", ++sequence).status, Status::TooLarge);
  EXPECT_EQ(increment(collidingKey(kMax + 1), 1, ++sequence).status, Status::TooLarge);
  EXPECT_EQ(remove(collidingKey(kMax + 1), ++sequence).status, Status::Ok);
  EXPECT_EQ(write(collidingKey(1), "value of " + collidingKey(1), ++sequence).status, Status::Ok) << "it is there";
  const Page all = page(0, 1);
  EXPECT_EQ(all.keys.size(), kMax) << "one hash is never cut";
  ASSERT_EQ(remove(collidingKey(1), ++sequence).status, Status::Ok);
  EXPECT_EQ(write(collidingKey(kMax + 1), "value of " + collidingKey(kMax + 1), ++sequence).status, Status::Ok);
}

TEST_F(MasterScanTest, ASliceNeverGrowsBeyondItsBound) {
  fill(150);
  master::Master& master = world.servers[0]->master();
  const auto size_of = [&](log::EntryRef ref) { return uint64_t{master.store().entry(ref).alignedBytes()}; };
  size_t objects = 0;
  std::optional<KeyHash> cursor = 0;
  while (cursor) {
    store::RangeSlice slice{.objects = {}, .lost = {}, .bytes = 100, .next = {}};
    ASSERT_EQ(slice.fill(master.store(), master.index(), TableId(kTable), {*cursor, kLast},
                         {.bytes_wanted = 1000, .bytes_max = 250}, size_of, [](log::EntryRef) {}),
              Status::Ok);
    EXPECT_LE(slice.bytes, 250u);
    objects += slice.objects.size();
    cursor = slice.next;
  }
  EXPECT_EQ(objects, 150u);
  store::RangeSlice slice;
  EXPECT_EQ(slice.fill(master.store(), master.index(), TableId(kTable), {0, kLast},
                       {.bytes_wanted = 10, .bytes_max = 20}, size_of, [](log::EntryRef) {}),
            Status::TooLarge);
}

TEST_F(MasterScanTest, GoesOnOverSplits) {
  fill(120);
  const Page first = page(0, 2000);
  ASSERT_EQ(first.status, Status::Ok);
  ASSERT_EQ(first.header.range_done, 0);
  const KeyHash middle = uint64_t{1} << 63;
  control::SplitTabletRequest ask;
  ask.set_tablet(1);
  *ask.mutable_lower() = tabletOf(2, 0, middle - 1, 2);
  *ask.mutable_upper() = tabletOf(3, middle, kLast, 2);
  ASSERT_EQ(world.command(Opcode::SplitTablet, ask)->outcome(), Status::Ok);
  EXPECT_EQ(world.command(Opcode::SplitTablet, ask)->outcome(), Status::Ok) << "repeated";
  EXPECT_EQ(page(first.header.next_cursor, 2000).status, Status::StaleEpoch);
  std::map<std::string, int> seen;
  for (const std::string& key : first.keys) ++seen[key];
  KeyHash cursor = first.header.next_cursor;
  bool crossed = false;
  for (int pages = 0; pages < 100; ++pages) {
    const Page got = page(cursor, 2000, 2);
    ASSERT_EQ(got.status, Status::Ok);
    for (const std::string& key : got.keys) ++seen[key];
    if (got.header.range_done == 0) {
      cursor = got.header.next_cursor;
      continue;
    }
    if (got.header.range_last == kLast) break;
    EXPECT_EQ(got.header.range_last, middle - 1);
    cursor = got.header.range_last + 1;
    crossed = true;
  }
  EXPECT_TRUE(crossed);
  EXPECT_EQ(seen.size(), 120u);
  for (const auto& [key, count] : seen) EXPECT_EQ(count, 1) << key;
}

TEST_F(MasterScanTest, OtherTablesAreNotShown) {
  fill(20);
  control::TakeTabletRequest ask;
  *ask.mutable_tablet() = tabletOf(9, 0, kLast, 1);
  ask.mutable_tablet()->set_table(kTable + 1);
  ask.set_created_empty(true);
  ASSERT_EQ(world.command(Opcode::TakeTablet, ask)->outcome(), Status::Ok);
  auto request = writeRequest(Opcode::Write, "foreign", "x", 500);
  request.table = TableId(kTable + 1);
  ASSERT_EQ(world.send(join({bytesOf(request), asBytes("foreign"), asBytes("x")}))->outcome(), Status::Ok);
  EXPECT_EQ(page(0, 1'000'000).keys.size(), 20u);
}

}  // namespace
}  // namespace ramcore::sim::raw
