#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "wire/master_messages.h"
#include "wire/message_header.h"

namespace ramcore::wire {
namespace {

// Anything but 13 is valid.
struct Numbered {
  uint64_t number = 0;
  constexpr bool isValid() const { return number != 13; }
};

std::vector<std::byte> zeros(size_t bytes) { return std::vector<std::byte>(bytes); }

TEST(Cursor, WalksStructsBytesAndPadding) {
  std::vector<std::byte> bytes(24);
  storeAs<uint64_t>(bytes.data(), 7);
  std::memcpy(bytes.data() + 8, "key", 3);
  storeAs<uint64_t>(bytes.data() + 16, 9);
  Cursor cursor{ByteSpan(bytes)};
  Numbered numbered;
  ByteSpan key;
  EXPECT_TRUE(cursor.take(numbered));
  EXPECT_EQ(numbered.number, 7u);
  EXPECT_TRUE(cursor.takeBytes(3, key));
  EXPECT_EQ(asText(key), "key");
  EXPECT_TRUE(cursor.takePadding(3));
  EXPECT_FALSE(cursor.atEnd());
  EXPECT_TRUE(cursor.take(numbered));
  EXPECT_EQ(numbered.number, 9u);
  EXPECT_TRUE(cursor.atEnd());
  EXPECT_TRUE(cursor.takeBytes(0, key));
  EXPECT_TRUE(cursor.atEnd());
}

TEST(Cursor, TakesNothingBehindTheEnd) {
  const auto bytes = zeros(15);
  Cursor cursor{ByteSpan(bytes)};
  RequestHeader header{.opcode = Opcode::Ping, .target = ServerId(5)};
  EXPECT_FALSE(cursor.take(header));
  EXPECT_EQ(header.target, ServerId(5)) << "what was not taken is not touched";
  EXPECT_FALSE(cursor.atEnd());
}

TEST(Cursor, AMessageThatIsNotValidIsAFailure) {
  std::vector<std::byte> bytes(24);
  storeAs<uint64_t>(bytes.data(), 12);
  storeAs<uint64_t>(bytes.data() + 8, 13);
  Cursor cursor{ByteSpan(bytes)};
  Numbered numbered;
  EXPECT_TRUE(cursor.take(numbered));
  EXPECT_FALSE(cursor.take(numbered));
  EXPECT_FALSE(cursor.take(numbered)) << "the walk has failed";
  EXPECT_FALSE(decode(ByteSpan(bytes).subspan(8), numbered));
  EXPECT_TRUE(decode(ByteSpan(bytes).subspan(16), numbered));
}

TEST(Cursor, AfterAFailureEverythingFails) {
  const auto bytes = zeros(16);
  Cursor cursor{ByteSpan(bytes)};
  ByteSpan out;
  EXPECT_FALSE(cursor.takeBytes(17, out));
  EXPECT_FALSE(cursor.takeBytes(1, out));
  EXPECT_FALSE(cursor.takeBytes(0, out));
  EXPECT_FALSE(cursor.takePadding(8));
  Numbered numbered;
  EXPECT_FALSE(cursor.take(numbered));
  EXPECT_FALSE(cursor.atEnd()) << "a walk that failed did not reach its end";
  EXPECT_TRUE(cursor.rest().empty());
}

TEST(Cursor, HugeCountsDoNotWrapAround) {
  const auto bytes = zeros(16);
  for (const size_t count :
       {std::numeric_limits<size_t>::max(), std::numeric_limits<size_t>::max() - 7, size_t{1} << 63, size_t{1} << 32}) {
    Cursor cursor{ByteSpan(bytes)};
    ByteSpan out;
    EXPECT_FALSE(cursor.takeBytes(count, out)) << count;
  }
}

TEST(Cursor, MissingPaddingFails) {
  const auto bytes = zeros(5);
  Cursor cursor{ByteSpan(bytes)};
  ByteSpan out;
  EXPECT_TRUE(cursor.takeBytes(5, out));
  EXPECT_FALSE(cursor.takePadding(5));
}

TEST(Cursor, EmptyInput) {
  Cursor cursor{ByteSpan{}};
  EXPECT_TRUE(cursor.atEnd());
  ByteSpan out;
  EXPECT_TRUE(cursor.takePadding(0));
  EXPECT_FALSE(cursor.takeBytes(1, out));
}

TEST(Decode, WantsTheWholeStructAndIgnoresWhatFollows) {
  Read::Request request{
      .header = {.opcode = Opcode::Read, .target = {}}, .epoch = {}, .table = TableId(3), .key_bytes = 1};
  std::vector<std::byte> bytes(sizeof(request) + 10);
  storeAs(bytes.data(), request);
  Read::Request out{};
  EXPECT_TRUE(decode(ByteSpan(bytes), out));
  EXPECT_EQ(out.table, TableId(3));
  EXPECT_TRUE(decode(ByteSpan(bytes).first(sizeof(request)), out));
  EXPECT_FALSE(decode(ByteSpan(bytes).first(sizeof(request) - 1), out));
  EXPECT_FALSE(decode(ByteSpan{}, out));
}

}  // namespace
}  // namespace ramcore::wire
