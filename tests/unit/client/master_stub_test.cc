// Answers that a broken or hostile server may give.
#include "client/master_stub.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "client/tablet_decoding.h"
#include "runtime/random.h"
#include "wire/control.h"

namespace ramcore::client {
namespace {

using Bytes = std::vector<std::byte>;

void append(Bytes& bytes, ByteSpan more) { bytes.insert(bytes.end(), more.begin(), more.end()); }

/// A received message whose bytes lie in several pieces, each an allocation of its own so that AddressSanitizer sees a
/// read beyond its end.
struct Received {
  Received(const Bytes& bytes, runtime::Random* random, size_t head_bytes_min = 8) {
    const size_t head_bytes =
        random == nullptr ? bytes.size() : std::min<size_t>(bytes.size(), head_bytes_min + random->below(40));
    size_t at = 0;
    for (size_t size = head_bytes;; size = 1 + random->below(50)) {
      size = std::min(size, bytes.size() - at);
      pieces.emplace_back(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                          bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
      at += size;
      if (at == bytes.size()) break;
    }
    for (size_t i = 1; i < pieces.size(); ++i) tail.emplace_back(pieces[i]);
  }
  transport::RxMessage message() const { return transport::RxMessage(pieces.front(), tail, nullptr, 0); }

  std::vector<Bytes> pieces;
  std::vector<ByteSpan> tail;
};

Bytes readAnswer(std::string_view value) {
  Bytes bytes;
  append(bytes,
         bytesOf(wire::Read::Response{
             .header = {.status = Status::Ok}, .version = 9, .value_bytes = static_cast<uint32_t>(value.size())}));
  append(bytes, asBytes(value));
  return bytes;
}

// The length of the head of an answer with `count` parts, which the sender keeps in one piece.
size_t multiReadHeadBytes(size_t count) {
  return sizeof(wire::MultiRead::Response) + count * sizeof(wire::MultiRead::ResponsePart);
}

// An answer with these values. The bytes of every `apart`-th value stand behind those of the others; 0: none do.
Bytes multiReadAnswer(const std::vector<std::string>& values, size_t apart = 0) {
  const auto isApart = [apart](size_t i) { return apart != 0 && i % apart == 0; };
  Bytes bytes;
  append(bytes, bytesOf(wire::MultiRead::Response{.header = {.status = Status::Ok},
                                                  .count = static_cast<uint32_t>(values.size())}));
  for (size_t i = 0; i < values.size(); ++i) {
    append(bytes, bytesOf(wire::MultiRead::ResponsePart{.version = 3,
                                                        .value_bytes = static_cast<uint32_t>(values[i].size()),
                                                        .status = Status::Ok,
                                                        .is_apart = static_cast<uint16_t>(isApart(i) ? 1 : 0)}));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!isApart(i)) append(bytes, asBytes(values[i]));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (isApart(i)) append(bytes, asBytes(values[i]));
  }
  return bytes;
}

Bytes scanAnswer(TableId table, std::vector<std::string> keys, uint8_t done, KeyHash next, KeyHash last) {
  std::sort(keys.begin(), keys.end(), [table](const std::string& a, const std::string& b) {
    return hashKey(table, asBytes(a)) < hashKey(table, asBytes(b));
  });
  Bytes bytes;
  wire::Scan::Response header{};
  header.count = static_cast<uint32_t>(keys.size());
  header.range_done = done;
  header.next_cursor = next;
  header.range_last = last;
  append(bytes, bytesOf(header));
  for (const std::string& key : keys) {
    append(bytes,
           bytesOf(wire::Scan::Part{.version = 1, .value_bytes = 3, .key_bytes = static_cast<uint16_t>(key.size())}));
    append(bytes, asBytes(key));
    append(bytes, asBytes("abc"));
    bytes.resize(alignUp(bytes.size(), 8));
  }
  return bytes;
}

std::vector<MultiPart> partsOf(size_t count) {
  std::vector<MultiPart> parts(count);
  for (uint32_t i = 0; i < count; ++i) parts[i].item = i;
  return parts;
}

TEST(MasterStub, ReadAnswersInAnyNumberOfPieces) {
  runtime::Random random(3);
  const std::string value(300, 'v');
  for (int i = 0; i < 200; ++i) {
    const Received received(readAnswer(value), &random);
    PointResult result = decodePoint(wire::Opcode::Read, received.message());
    ASSERT_EQ(result.status, Status::Ok);
    std::string out = "before";
    result.takeValue(out);
    EXPECT_EQ(out, value);
    std::array<std::byte, 10> buffer{};
    result.copyValue(buffer);
    EXPECT_EQ(asText(buffer), std::string(10, 'v'));
  }
}

TEST(MasterStub, CutOrLengthenedAnswersAreCorrupt) {
  const Bytes whole = readAnswer("value");
  for (size_t size = 0; size < whole.size(); ++size) {
    const Received received(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)), nullptr);
    EXPECT_EQ(decodePoint(wire::Opcode::Read, received.message()).status, Status::Corrupt) << size;
  }
  Bytes longer = whole;
  longer.push_back(std::byte{1});
  EXPECT_EQ(decodePoint(wire::Opcode::Read, Received(longer, nullptr).message()).status, Status::Corrupt);
}

TEST(MasterStub, StatusesThatDoNotExistAreCorrupt) {
  Bytes bytes;
  append(bytes, bytesOf(wire::ResponseHeader{.status = static_cast<Status>(777)}));
  EXPECT_EQ(decodePoint(wire::Opcode::Write, Received(bytes, nullptr).message()).status, Status::Corrupt);
  bytes.clear();
  append(bytes, bytesOf(wire::ResponseHeader{.status = Status::RetryLater, .retry_after_us = 5}));
  const PointResult result = decodePoint(wire::Opcode::Write, Received(bytes, nullptr).message());
  EXPECT_EQ(result.status, Status::RetryLater);
  EXPECT_EQ(result.retry_after_us, 5u);
}

TEST(MasterStub, AnOkWithoutItsStructIsCorrupt) {
  Bytes bytes;
  append(bytes, bytesOf(wire::ResponseHeader{.status = Status::Ok}));
  for (const wire::Opcode kind : {wire::Opcode::Read, wire::Opcode::Write, wire::Opcode::Increment}) {
    EXPECT_EQ(decodePoint(kind, Received(bytes, nullptr).message()).status, Status::Corrupt);
  }
}

TEST(MasterStub, MultiReadAnswersInAnyNumberOfPieces) {
  runtime::Random random(5);
  const std::vector<std::string> values = {"", "a", std::string(8, 'b'), std::string(1000, 'c'), "end"};
  for (int i = 0; i < 200; ++i) {
    std::vector<ReadItem> items(values.size());
    const Received received(multiReadAnswer(values, static_cast<size_t>(i) % 4), &random,
                            multiReadHeadBytes(values.size()));
    ASSERT_TRUE(decodeMultiRead(received.message(), partsOf(values.size()), items));
    for (size_t k = 0; k < values.size(); ++k) EXPECT_EQ(items[k].value, values[k]);
  }
}

TEST(MasterStub, MultiReadAnswersOfAnotherCountOrLengthAreRefused) {
  const Bytes whole = multiReadAnswer({"one", "two"});
  std::vector<ReadItem> items(3);
  EXPECT_FALSE(decodeMultiRead(Received(whole, nullptr).message(), partsOf(3), items));
  EXPECT_FALSE(decodeMultiRead(Received(whole, nullptr).message(), partsOf(1), items));
  for (size_t size = 8; size < whole.size(); ++size) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(decodeMultiRead(Received(cut, nullptr).message(), partsOf(2), items)) << size;
  }
}

TEST(MasterStub, MultiReadAnswersWithoutTheirPartsInOnePieceAreRefused) {
  runtime::Random random(6);
  const Received received(multiReadAnswer({"one", "two", std::string(100, 'v')}), &random, 8);
  std::vector<ReadItem> items(3);
  ASSERT_LT(received.message().head().size(), multiReadHeadBytes(3));
  EXPECT_FALSE(decodeMultiRead(received.message(), partsOf(3), items));
}

TEST(MasterStub, MultiReadAnswersWithAPlaceThatDoesNotExistAreRefused) {
  Bytes bytes = multiReadAnswer({"one", "two"}, 2);
  std::vector<ReadItem> items(2);
  ASSERT_TRUE(decodeMultiRead(Received(bytes, nullptr).message(), partsOf(2), items));
  bytes[multiReadHeadBytes(1) - 2] = std::byte{2};
  EXPECT_FALSE(decodeMultiRead(Received(bytes, nullptr).message(), partsOf(2), items));
}

TEST(MasterStub, MultiReadAnswersWithReservedBytesThatAreNotZeroAreRefused) {
  const Bytes whole = multiReadAnswer({"one", "two"});
  std::vector<ReadItem> items(2);
  ASSERT_TRUE(decodeMultiRead(Received(whole, nullptr).message(), partsOf(2), items));
  Bytes bytes = whole;
  bytes[offsetof(wire::MultiRead::Response, reserved)] = std::byte{1};
  EXPECT_FALSE(decodeMultiRead(Received(bytes, nullptr).message(), partsOf(2), items));
}

TEST(MasterStub, ScanAnswersMoveForwardAndStayInTheirTablet) {
  const TableId table(4);
  const std::vector<std::string> keys = {"a", "b", "c", "d"};
  constexpr KeyHash kLast = ~uint64_t{0};
  std::vector<Object> objects;
  ScanAnswer answer;
  runtime::Random random(9);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(
        decodeScan(Received(scanAnswer(table, keys, 1, 0, kLast), &random).message(), table, 0, objects, answer));
    EXPECT_TRUE(answer.is_end);
    EXPECT_EQ(objects.size(), keys.size());
  }
  const auto refuses = [&](const Bytes& bytes, KeyHash cursor) {
    return !decodeScan(Received(bytes, nullptr).message(), table, cursor, objects, answer);
  };
  EXPECT_TRUE(refuses(scanAnswer(table, {}, 0, 50, kLast), 50)) << "no progress";
  EXPECT_TRUE(refuses(scanAnswer(table, {}, 0, 49, kLast), 50)) << "backwards";
  EXPECT_TRUE(refuses(scanAnswer(table, {}, 1, 0, 49), 50)) << "a tablet that ends before the cursor";
  EXPECT_TRUE(refuses(scanAnswer(table, {}, 0, 90, 80), 50)) << "beyond the tablet";
  EXPECT_TRUE(refuses(scanAnswer(table, {}, 2, 90, kLast), 50)) << "neither done nor not";
  EXPECT_TRUE(refuses(scanAnswer(table, keys, 1, 0, kLast), kLast - 1)) << "keys before the cursor";
  EXPECT_TRUE(refuses(scanAnswer(TableId(5), keys, 1, 0, 1), 0)) << "keys beyond the tablet";
  const Bytes whole = scanAnswer(table, keys, 1, 0, kLast);
  for (size_t size = 8; size < whole.size(); ++size) {
    EXPECT_TRUE(refuses(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)), 0)) << size;
  }
}

TEST(MasterStub, ChangedBytesNeverReadBeyondTheMessage) {
  runtime::Random random(11);
  const TableId table(4);
  const std::vector<Bytes> seeds = {readAnswer("value"), multiReadAnswer({"one", "two", ""}),
                                    scanAnswer(table, {"a", "b"}, 1, 0, ~uint64_t{0})};
  std::vector<Object> objects;
  ScanAnswer answer;
  std::vector<ReadItem> reads(3);
  std::vector<MutateItem> mutations(3);
  uint64_t accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes = seeds[random.below(seeds.size())];
    for (uint64_t k = random.below(4); k > 0; --k) bytes[random.below(bytes.size())] = std::byte(random.below(256));
    if (random.chance(0.3)) bytes.resize(8 + random.below(bytes.size()));
    const Received received(bytes, &random);
    for (const wire::Opcode kind : {wire::Opcode::Read, wire::Opcode::Write, wire::Opcode::Increment}) {
      const PointResult result = decodePoint(kind, received.message());
      std::string value;
      if (kind == wire::Opcode::Read && result.status == Status::Ok) {
        result.takeValue(value);
        ++accepted;
      }
    }
    accepted += decodeMultiRead(received.message(), partsOf(3), reads) ? 1 : 0;
    accepted += decodeMultiMutate(received.message(), partsOf(3), mutations) ? 1 : 0;
    accepted += decodeScan(received.message(), table, 0, objects, answer) ? 1 : 0;
  }
  EXPECT_GT(accepted, 1000u);
}

TEST(MasterStub, LimitsAreCheckedBeforeAnythingIsSent) {
  EXPECT_EQ(checkLimits(1, 0), Status::Ok);
  EXPECT_EQ(checkLimits(65535, 1024 * 1024), Status::Ok);
  EXPECT_EQ(checkLimits(0, 0), Status::BadRequest);
  EXPECT_EQ(checkLimits(65536, 0), Status::TooLarge);
  EXPECT_EQ(checkLimits(1, 1024 * 1024 + 1), Status::TooLarge);
}

class TableMaps : public ::testing::Test {
 protected:
  void SetUp() override {
    answer.add_tables()->set_id(7);
    answer.mutable_tables(0)->set_name("t");
    for (const uint64_t id : {1, 2}) {
      auto& server = *answer.add_servers();
      server.set_id(id);
      server.add_locators("sim://server" + std::to_string(id));
      auto& tablet = *answer.add_tablets();
      tablet.set_id(id);
      tablet.set_table(7);
      tablet.set_first_hash(id == 1 ? 100 : 0);
      tablet.set_last_hash(id == 1 ? 200 : 99);
      tablet.set_state(wire::control::TABLET_NORMAL);
      tablet.set_owner(id);
    }
  }
  bool decodes() { return decodeTableMaps(answer.tables(), answer.tablets(), answer.servers(), maps); }
  wire::control::GetTabletsResponse answer;
  std::vector<TableMap> maps;
};

TEST_F(TableMaps, AreSortedAndKnowTheirOwners) {
  ASSERT_TRUE(decodes());
  ASSERT_EQ(maps.size(), 1u);
  EXPECT_EQ(maps[0].tablets[0].range.first, 0u);
  EXPECT_EQ(maps[0].owners.size(), 2u);
}
TEST_F(TableMaps, OverlapsAreRefused) {
  answer.mutable_tablets(1)->set_last_hash(100);
  EXPECT_FALSE(decodes());
}
TEST_F(TableMaps, BackwardRangesAreRefused) {
  answer.mutable_tablets(0)->set_last_hash(99);
  EXPECT_FALSE(decodes());
}
TEST_F(TableMaps, TabletsOfNoTableAreRefused) {
  answer.mutable_tablets(0)->set_table(8);
  EXPECT_FALSE(decodes());
}
TEST_F(TableMaps, OwnersThatAreNoServerAreRefusedUnlessTheTabletIsUnavailable) {
  answer.mutable_tablets(0)->set_owner(9);
  EXPECT_FALSE(decodes());
  answer.mutable_tablets(0)->set_state(wire::control::TABLET_UNAVAILABLE);
  EXPECT_TRUE(decodes());
}
TEST_F(TableMaps, LocatorsThatCannotBeParsedAreRefused) {
  answer.mutable_servers(0)->set_locators(0, "no locator");
  EXPECT_FALSE(decodes());
}
TEST_F(TableMaps, EqualIdsAreRefused) {
  *answer.add_servers() = answer.servers(0);
  EXPECT_FALSE(decodes());
}

}  // namespace
}  // namespace ramcore::client
