#include "log/format/log_reader.h"

#include <gtest/gtest.h>

#include "log/format/entry_writer.h"

namespace ramcore::log {
namespace {

void put(std::vector<std::byte>& bytes, const std::string& key, const std::string& value, bool continues) {
  const ByteSpan payload = asBytes(value);
  EntryInput input;
  input.version = 1;
  input.key = asBytes(key);
  input.payload = std::span(&payload, 1);
  const size_t at = bytes.size();
  bytes.resize(at + input.alignedBytes());
  writeEntry(bytes.data() + at, input, continues, {});
}

/// Groups of 1, 3 and 2 entries, and the offsets behind them.
struct Sample {
  Sample() {
    put(bytes, "a", "1", false);
    ends.push_back(bytes.size());
    put(bytes, "b", "22", true);
    put(bytes, "c", "333", true);
    put(bytes, "d", "4444", false);
    ends.push_back(bytes.size());
    put(bytes, "e", std::string(70, '5'), true);
    put(bytes, "f", "", false);
    ends.push_back(bytes.size());
  }
  std::vector<std::byte> bytes;
  std::vector<size_t> ends;
};

size_t readAll(SegmentReader& reader) {
  size_t groups = 0;
  while (!reader.nextGroup().empty()) ++groups;
  return groups;
}

TEST(SegmentReader, ShowsGroups) {
  const Sample sample;
  SegmentReader reader(sample.bytes);
  EXPECT_EQ(reader.nextGroup().size(), 1u);
  const auto second = reader.nextGroup();
  ASSERT_EQ(second.size(), 3u);
  EXPECT_EQ(asText(second[2].payload()), "4444");
  EXPECT_EQ(reader.nextGroup().size(), 2u);
  EXPECT_TRUE(reader.nextGroup().empty());
  EXPECT_EQ(reader.end(), WalkEnd::Clean);
  EXPECT_EQ(reader.offset(), sample.bytes.size());
  EXPECT_EQ(reader.entryCount(), 6u);
}

TEST(SegmentReader, TruncationAtEveryByteShowsWholeGroupsOnly) {
  const Sample sample;
  for (size_t bytes = 0; bytes < sample.bytes.size(); ++bytes) {
    // A private copy of exactly that length, so that a sanitizer sees a read behind it.
    const std::vector<std::byte> prefix(sample.bytes.begin(), sample.bytes.begin() + static_cast<ptrdiff_t>(bytes));
    SegmentReader reader(prefix);
    const size_t groups = readAll(reader);
    size_t whole = 0;
    while (whole < sample.ends.size() && sample.ends[whole] <= bytes) ++whole;
    EXPECT_EQ(groups, whole) << bytes;
    const size_t valid = whole == 0 ? 0 : sample.ends[whole - 1];
    EXPECT_EQ(reader.offset(), valid);
    EXPECT_EQ(reader.end() == WalkEnd::Clean, valid == bytes) << bytes;
  }
}

TEST(SegmentReader, CorruptionAnywhereEndsTheWalkBeforeItsGroup) {
  Sample sample;
  std::vector<size_t> state_bytes;
  for (size_t at = 0; at < sample.bytes.size(); at += EntryView(sample.bytes.data() + at).alignedBytes()) {
    state_bytes.push_back(at + 1);
  }
  for (size_t i = 0; i < sample.bytes.size(); ++i) {
    if (std::find(state_bytes.begin(), state_bytes.end(), i) != state_bytes.end()) continue;
    sample.bytes[i] ^= std::byte{0x10};
    SegmentReader reader(sample.bytes);
    size_t untouched = 0;
    while (sample.ends[untouched] <= i) ++untouched;
    EXPECT_EQ(readAll(reader), untouched) << i;
    EXPECT_EQ(reader.end(), WalkEnd::BadEntry) << i;
    EXPECT_NE(reader.error(), DecodeError::None);
    sample.bytes[i] ^= std::byte{0x10};
  }
}

TEST(SegmentReader, GroupWithoutEndIsRefused) {
  std::vector<std::byte> bytes;
  for (uint32_t i = 0; i <= kGroupEntriesMax; ++i) put(bytes, "k", "v", true);
  SegmentReader reader(bytes);
  EXPECT_TRUE(reader.nextGroup().empty());
  EXPECT_EQ(reader.end(), WalkEnd::GroupTooLong);
  EXPECT_EQ(reader.offset(), 0u);
}

TEST(SegmentReader, StateBytesDoNotMatter) {
  Sample sample;
  SegmentReader clean(sample.bytes);
  readAll(clean);
  sample.bytes[1] = std::byte{3};
  SegmentReader reader(sample.bytes);
  EXPECT_EQ(readAll(reader), 3u);
  EXPECT_EQ(reader.headersCrc(), clean.headersCrc());
}

}  // namespace
}  // namespace ramcore::log
