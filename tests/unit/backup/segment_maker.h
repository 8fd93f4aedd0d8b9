#pragma once

#include <string>
#include <vector>

#include "log/format/certificate.h"
#include "log/format/entry_writer.h"
#include "log/format/log_reader.h"

namespace ramcore::backup {

/// The bytes of a segment as a master replicates them, group by group, and certificates for them.
class SegmentMaker {
 public:
  SegmentMaker(ClusterId cluster, ServerId master, SegmentId segment)
      : cluster_(cluster), master_(master), id_(segment) {
    const log::SegmentHeaderPayload header{
        .cluster = cluster, .server = master, .segment = segment, .format = log::kSegmentFormat, .reserved = 0};
    const ByteSpan payload = bytesOf(header);
    add({.type = log::EntryType::SegmentHeader, .table = {}, .version = 0, .key = {}, .payload = {&payload, 1}});
  }

  /// Makes it a head. Before anything else is added.
  void addDigest(SegmentId previous, const std::vector<SegmentId>& members) {
    const log::LogDigestPayload digest{
        .previous_head = previous, .count = static_cast<uint32_t>(members.size()), .reserved = 0};
    const std::array<ByteSpan, 2> payload = {bytesOf(digest), std::as_bytes(std::span(members))};
    add({.type = log::EntryType::LogDigest, .table = {}, .version = 0, .key = {}, .payload = payload});
  }
  void addSafeVersion(Version version) {
    const log::SafeVersionPayload safe{.version = version, .expiry_clock_ms = 0};
    const ByteSpan payload = bytesOf(safe);
    add({.type = log::EntryType::SafeVersion, .table = {}, .version = 0, .key = {}, .payload = {&payload, 1}});
  }
  void addObject(TableId table, std::string_view key, std::string_view value, bool group_continues = false) {
    const ByteSpan payload = asBytes(value);
    add({.type = log::EntryType::Object,
         .table = table,
         .version = ++version_,
         .key = asBytes(key),
         .payload = {&payload, 1}},
        group_continues);
  }
  void addTombstone(TableId table, std::string_view key) {
    add({.type = log::EntryType::Tombstone,
         .table = table,
         .version = ++version_,
         .key = asBytes(key),
         .payload = {},
         .dead = log::EntryRef::fromOffset(log::EntryRef::kFirstBytes)});
  }
  void addResult(TableId table, KeyHash hash) {
    const log::ResultRecordPayload record{.client = ClientId(1),
                                          .sequence = Sequence(1),
                                          .acknowledged = {},
                                          .key_hash = hash,
                                          .opcode = 17,
                                          .status = 0,
                                          .reserved = 0};
    const ByteSpan payload = bytesOf(record);
    add({.type = log::EntryType::ResultRecord, .table = table, .version = 0, .key = {}, .payload = {&payload, 1}});
  }

  SegmentId id() const { return id_; }
  uint32_t length() const { return static_cast<uint32_t>(bytes_.size()); }
  /// Offsets behind each group.
  const std::vector<uint32_t>& groupEnds() const { return group_ends_; }
  ByteSpan bytes(uint32_t from, uint32_t to) const { return ByteSpan(bytes_).subspan(from, to - from); }
  log::Certificate certificate(uint32_t length, uint64_t epoch, bool closed) const {
    log::SegmentReader reader(bytes(0, length));
    while (!reader.nextGroup().empty()) {
    }
    return {cluster_, master_, id_, epoch, length, reader.headersCrc(), closed};
  }

 private:
  void add(const log::EntryInput& entry, bool group_continues = false) {
    const size_t at = bytes_.size();
    bytes_.resize(at + entry.alignedBytes());
    log::writeEntry(bytes_.data() + at, entry, group_continues, id_);
    if (!group_continues) group_ends_.push_back(length());
  }

  const ClusterId cluster_;
  const ServerId master_;
  const SegmentId id_;
  Version version_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<uint32_t> group_ends_;
};

}  // namespace ramcore::backup
