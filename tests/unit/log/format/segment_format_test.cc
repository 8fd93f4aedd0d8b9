#include "log/format/segment_format.h"

#include <gtest/gtest.h>

#include "log/format/entry_writer.h"

namespace ramcore::log {
namespace {

std::string hex(ByteSpan bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte b : bytes) {
    text += kDigits[static_cast<uint8_t>(b) >> 4];
    text += kDigits[static_cast<uint8_t>(b) & 15];
  }
  return text;
}

std::string encode(const EntryInput& input, bool continues, SegmentId named = {}) {
  std::vector<std::byte> bytes(input.alignedBytes(), std::byte{0xee});
  writeEntry(bytes.data(), input, continues, named);
  EntryView view;
  EXPECT_EQ(decodeEntry(bytes, view), DecodeError::None);
  return hex(bytes);
}

TEST(SegmentFormat, ObjectBytes) {
  const ByteSpan payload = asBytes("value");
  EntryInput input;
  input.table = TableId(0x01020304);
  input.version = 0x11121314151617;
  input.key = asBytes("key");
  input.payload = std::span(&payload, 1);
  EXPECT_EQ(encode(input, false),
            "01"              // type
            "00"              // state
            "0300"            // key bytes
            "050000"          // payload bytes
            "04030201"        // table
            "1caf2cac"        // crc
            "17161514131211"  // version
            "6b6579"          // "key"
            "76616c7565"      // "value"
            "0000");
}

TEST(SegmentFormat, ObjectWithExpiryInsideAGroup) {
  const ByteSpan payload = asBytes("value");
  EntryInput input;
  input.version = 1;
  input.key = asBytes("key");
  input.payload = std::span(&payload, 1);
  input.expiry_s = 0xa1a2a3a4;
  EXPECT_EQ(encode(input, true),
            "a1"  // object, has expiry, group continues
            "00"
            "0300"
            "050000"
            "00000000"
            "9061fcfb"
            "01000000000000"
            "6b6579"
            "76616c7565"
            "a4a3a2a1"  // expiry
            "000000000000");
}

TEST(SegmentFormat, TombstoneBytes) {
  EntryInput input;
  input.type = EntryType::Tombstone;
  input.version = 5;
  input.key = asBytes("key");
  input.dead = EntryRef::fromOffset(64);
  EXPECT_EQ(encode(input, false, SegmentId(0x1a1b1c1d1e)),
            "42"  // tombstone, names a segment
            "00"
            "0300"
            "000000"
            "00000000"
            "fad46b20"
            "05000000000000"
            "1e1d1c1b1a"  // segment
            "6b6579"
            "0000");
}

TEST(SegmentFormat, ObjectThatTakesThePlaceOfAnother) {
  const ByteSpan payload = asBytes("value");
  EntryInput input;
  input.table = TableId(1);
  input.version = 7;
  input.key = asBytes("key");
  input.payload = std::span(&payload, 1);
  input.expiry_s = 0xa1a2a3a4;
  input.dead = EntryRef::fromOffset(64);
  EXPECT_EQ(encode(input, false, SegmentId(0x0c)),
            "61"  // object, has expiry, names a segment
            "00"
            "0300"
            "050000"
            "01000000"
            "456bf2af"
            "07000000000000"
            "0c00000000"  // segment
            "6b6579"
            "76616c7565"
            "a4a3a2a1"
            "00");
}

TEST(SegmentFormat, SizesThatDocumentsState) {
  EXPECT_EQ(alignedEntryBytes(30, 100, false), 152u);                        // object
  EXPECT_EQ(alignedEntryBytes(30, 100, false, true), 160u);                  // object that takes another's place
  EXPECT_EQ(alignedTombstoneBytes(30), 64u);                                 // its tombstone
  EXPECT_EQ(alignedEntryBytes(0, sizeof(ResultRecordPayload), false), 64u);  // its result record
  EXPECT_EQ(alignedEntryBytes(0, sizeof(SegmentHeaderPayload), false), 56u);
  EXPECT_EQ(alignedEntryBytes(0, sizeof(SafeVersionPayload), false), 40u);
}

TEST(SegmentFormat, LargestLengthsAreRead) {
  std::vector<std::byte> key(kKeyBytesMax, std::byte{'k'});
  std::vector<std::byte> value(1u << 20, std::byte{'v'});
  const ByteSpan payload = value;
  EntryInput input;
  input.version = kVersionMax;
  input.key = key;
  input.payload = std::span(&payload, 1);
  std::vector<std::byte> bytes(input.alignedBytes());
  writeEntry(bytes.data(), input, false, {});
  EntryView view;
  ASSERT_EQ(decodeEntry(bytes, view), DecodeError::None);
  EXPECT_EQ(view.keyBytes(), kKeyBytesMax);
  EXPECT_EQ(view.payloadBytes(), 1u << 20);
  EXPECT_EQ(view.version(), kVersionMax);
  EXPECT_EQ(view.alignedBytes(), bytes.size());
}

TEST(SegmentFormat, EveryFlippedBitIsSeenExceptInTheStateByte) {
  const ByteSpan payload = asBytes("a value of some bytes");
  EntryInput input;
  input.version = 77;
  input.key = asBytes("some key");
  input.payload = std::span(&payload, 1);
  std::vector<std::byte> bytes(input.alignedBytes());
  writeEntry(bytes.data(), input, false, {});
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[i] ^= static_cast<std::byte>(1 << bit);
      EntryView view;
      const DecodeError error = decodeEntry(bytes, view);
      EXPECT_EQ(error == DecodeError::None, i == offsetof(EntryHeader, state)) << "byte " << i << " bit " << bit;
      bytes[i] ^= static_cast<std::byte>(1 << bit);
    }
  }
}

TEST(SegmentFormat, FormsThatATypeCannotHaveAreRefused) {
  const auto errorOf = [](EntryType type, std::string_view key, std::string_view value, uint32_t expiry_s,
                          SegmentId named = {}, bool names_none = false) {
    const ByteSpan payload = asBytes(value);
    EntryInput input;
    input.type = type;
    input.key = asBytes(key);
    input.payload = std::span(&payload, 1);
    input.expiry_s = expiry_s;
    if (named || names_none) input.dead = EntryRef::fromOffset(64);
    std::vector<std::byte> bytes(input.alignedBytes());
    writeEntry(bytes.data(), input, false, named);
    EntryView view;
    return decodeEntry(bytes, view);
  };
  EXPECT_EQ(errorOf(EntryType::Object, "k", "", 0), DecodeError::None);
  EXPECT_EQ(errorOf(EntryType::Object, "", "v", 0), DecodeError::BadLength);
  EXPECT_EQ(errorOf(EntryType::Tombstone, "k", "", 0), DecodeError::BadLength);  // of what?
  EXPECT_EQ(errorOf(EntryType::Tombstone, "k", "", 0, SegmentId(1)), DecodeError::None);
  EXPECT_EQ(errorOf(EntryType::Tombstone, "", "", 0, SegmentId(1)), DecodeError::BadLength);
  EXPECT_EQ(errorOf(EntryType::Tombstone, "k", "short", 0, SegmentId(1)), DecodeError::BadLength);
  EXPECT_EQ(errorOf(EntryType::Tombstone, "k", "", 9, SegmentId(1)), DecodeError::BadLength);
  EXPECT_EQ(errorOf(EntryType::Object, "k", "v", 9, SegmentId(1)), DecodeError::None);
  EXPECT_EQ(errorOf(EntryType::Object, "k", "v", 0, SegmentId(0), true), DecodeError::BadLength);
  EXPECT_EQ(errorOf(EntryType::ResultRecord, "", std::string(48, 'x'), 0, SegmentId(1)), DecodeError::BadType);
  EXPECT_EQ(errorOf(EntryType::SegmentHeader, "", "x", 0), DecodeError::BadLength);
  EXPECT_EQ(errorOf(EntryType::LogDigest, "", std::string(16, '\x01'), 0), DecodeError::BadLength);
  EXPECT_EQ(errorOf(EntryType::LogDigest, "", std::string(16, '\0'), 0), DecodeError::None);
  EXPECT_EQ(errorOf(EntryType::SafeVersion, "", std::string(15, 'x'), 0), DecodeError::BadLength);
  EXPECT_EQ(errorOf(EntryType::ResultRecord, "", std::string(39, 'x'), 0), DecodeError::BadLength);
  EXPECT_EQ(errorOf(static_cast<EntryType>(7), "k", "v", 0), DecodeError::BadType);
  EXPECT_EQ(errorOf(static_cast<EntryType>(0), "k", "v", 0), DecodeError::BadType);
}

TEST(SegmentFormat, CopyThatNamesNoSegmentIsOtherwiseTheSame) {
  for (const bool names : {false, true}) {
    const ByteSpan payload = asBytes("some value");
    EntryInput input;
    input.table = TableId(3);
    input.version = 4;
    input.key = asBytes("some key");
    input.payload = std::span(&payload, 1);
    input.expiry_s = 5;
    if (names) input.dead = EntryRef::fromOffset(64);
    std::vector<std::byte> bytes(input.alignedBytes());
    writeEntry(bytes.data(), input, true, SegmentId(99));
    const EntryView entry(bytes.data());
    std::vector<std::byte> copy(entry.copyBytes({.name = false, .result = true}), std::byte{0xee});
    copyEntry(copy.data(), entry, {.name = false, .result = true});
    input.dead = {};
    std::vector<std::byte> wanted(input.alignedBytes());
    writeEntry(wanted.data(), input, false, {});
    EXPECT_EQ(hex(copy), hex(wanted));
  }
}

TEST(SegmentFormat, TombstoneOfEverythingBeforeAnObject) {
  const ByteSpan payload = asBytes("v");
  EntryInput input;
  input.table = TableId(3);
  input.version = 9;
  input.key = asBytes("some key");
  input.payload = std::span(&payload, 1);
  input.dead = EntryRef::fromOffset(64);
  std::vector<std::byte> bytes(input.alignedBytes());
  writeEntry(bytes.data(), input, true, SegmentId(99));
  std::vector<std::byte> tombstone(alignedTombstoneBytes(8), std::byte{0xee});
  ASSERT_LE(tombstone.size(), bytes.size());
  writeTombstoneBefore(tombstone.data(), EntryView(bytes.data()));
  EntryView view;
  ASSERT_EQ(decodeEntry(tombstone, view), DecodeError::None);
  EXPECT_EQ(view.type(), EntryType::Tombstone);
  EXPECT_EQ(view.table(), TableId(3));
  EXPECT_EQ(view.version(), 8u);
  EXPECT_EQ(asText(view.key()), "some key");
  EXPECT_EQ(view.namedSegment(), SegmentId(99));
  EXPECT_FALSE(view.groupContinues());
}

TEST(SegmentFormat, CopyIsAGroupOfItsOwn) {
  const ByteSpan payload = asBytes("v");
  EntryInput input;
  input.version = 3;
  input.key = asBytes("k");
  input.payload = std::span(&payload, 1);
  std::vector<std::byte> bytes(input.alignedBytes());
  writeEntry(bytes.data(), input, true, {});
  bytes[1] = std::byte{2};  // superseded
  std::vector<std::byte> copy(bytes.size());
  copyEntry(copy.data(), EntryView(bytes.data()));
  EntryView view;
  ASSERT_EQ(decodeEntry(copy, view), DecodeError::None);
  EXPECT_FALSE(view.groupContinues());
  EXPECT_EQ(view.state(), EntryState::Pending);
  EXPECT_EQ(asText(view.payload()), "v");
}

}  // namespace
}  // namespace ramcore::log
