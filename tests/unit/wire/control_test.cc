#include "wire/control.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ramcore::wire {
namespace {

control::GetTabletsResponse sample() {
  control::GetTabletsResponse message;
  auto& table = *message.add_tables();
  table.set_id(7);
  table.set_name("table");
  auto& tablet = *message.add_tablets();
  tablet.set_id(9);
  tablet.set_table(7);
  tablet.set_last_hash(~uint64_t{0});
  tablet.set_epoch(3);
  tablet.add_logs()->set_server(~uint64_t{0});
  return message;
}

std::vector<std::byte> bytesOfControl(const control::GetTabletsResponse& message) {
  std::vector<std::byte> bytes(controlBytes(message));
  storeControl(message, bytes.data());
  return bytes;
}

TEST(Control, ReadsWhatItStored) {
  const auto bytes = bytesOfControl(sample());
  control::GetTabletsResponse out;
  ASSERT_TRUE(parseControl(bytes, out));
  EXPECT_EQ(out.tables(0).name(), "table");
  EXPECT_EQ(out.tablets(0).last_hash(), ~uint64_t{0});
  EXPECT_EQ(out.tablets(0).logs(0).server(), ~uint64_t{0});
  EXPECT_EQ(bytesOfControl(out), bytes);
}

TEST(Control, TruncatedMessagesDoNotBecomeOtherOnes) {
  const auto bytes = bytesOfControl(sample());
  for (size_t length = 0; length < bytes.size(); ++length) {
    control::GetTabletsResponse out;
    if (!parseControl(ByteSpan(bytes).first(length), out)) continue;
    // A cut between two fields is a shorter message; nothing else may parse.
    EXPECT_TRUE(length == 0 || out.tablets_size() == 0) << length;
  }
}

TEST(Control, GarbageIsRefused) {
  control::GetTabletsResponse out;
  EXPECT_FALSE(parseControl(asBytes("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), out));
  // A length that reaches far behind the end.
  EXPECT_FALSE(parseControl(asBytes("\x0a\x7f"
                                    "abc"),
                            out));
}

TEST(Control, TextThatIsNotUtf8IsRefusedWithoutAWordOnStderr) {
  control::CreateTableRequest request;
  request.set_name("name");
  std::vector<std::byte> bytes(controlBytes(request));
  storeControl(request, bytes.data());
  bytes.back() = std::byte{0xff};
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(parseControl(bytes, request));
  request.set_name("\xff\xfe");
  bytes.resize(controlBytes(request));
  storeControl(request, bytes.data());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Control, OversizedMessagesAreNotEvenParsed) {
  const std::vector<std::byte> bytes(kControlBytesMax + 1);
  control::Empty out;
  EXPECT_FALSE(parseControl(bytes, out));
}

TEST(Control, GoldenBytesOfATablet) {
  control::Tablet tablet;
  tablet.set_id(1);
  tablet.set_first_hash(2);
  tablet.set_owner(3);
  std::string text;
  ASSERT_TRUE(tablet.SerializeToString(&text));
  const std::string expected(
      "\x08\x01"
      "\x19\x02\0\0\0\0\0\0\0"
      "\x39\x03\0\0\0\0\0\0\0",
      20);
  EXPECT_EQ(text, expected);
}

}  // namespace
}  // namespace ramcore::wire
