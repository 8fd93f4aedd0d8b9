#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/hash.h"
#include "log/format/log_reader.h"
#include "sim/cluster/master_world.h"
#include "wire/replica_messages.h"

namespace ramcore::sim {

using SegmentBytes = std::map<uint64_t, std::vector<std::byte>>;

/// The segments that the newest digest of a server lists: what a recovery of it would replay.
inline SegmentBytes copyLog(const master::Master& master) {
  SegmentBytes segments;
  const log::SegmentPool& pool = master.log()->pool();
  const auto bytesOfSegment = [&](SegmentId id) {
    const log::Segment* const segment = pool.find(id);
    RC_CHECK(segment != nullptr);
    std::vector<std::byte> bytes(segment->committedBytes());
    segment->copyOut(0, segment->committedBytes(), bytes.data());
    return bytes;
  };
  const std::vector<std::byte> head = bytesOfSegment(master.log()->headId());
  log::SegmentPreamble preamble;
  RC_CHECK(log::readPreamble(head, preamble) == Status::Ok && preamble.has_digest);
  for (uint32_t i = 0; i < preamble.digest.payload.count; ++i) {
    segments[preamble.digest.at(i).value] = bytesOfSegment(preamble.digest.at(i));
  }
  return segments;
}

/// A backup that has replicas of a dead server's segments and reads them out, in pages that end anywhere; or does what
/// the test wants instead.
class ScriptedBackup {
 public:
  struct Page {
    wire::ReadReplica::Response header{.header = {.status = Status::Ok},
                                       .next_offset_bytes = 0,
                                       .entry_bytes = 0,
                                       .entry_count = 0,
                                       .done = 1,
                                       .safe_version = 0};
    std::vector<std::byte> entries;
  };

  ScriptedBackup(MasterWorld& world, uint64_t id, uint64_t seed)
      : process(world.scheduler, world.log, world.network, "backup" + std::to_string(id),
                {.role = transport::Role::Server, .id = id, .cluster_name = "sim"}),
        random_(seed) {
    process.dispatch().services().add<&ScriptedBackup::answer>(
        wire::Opcode::ReadReplica, *this,
        {.roles = rpc::allow({transport::Role::Server}), .request_bytes_min = sizeof(wire::ReadReplica::Request)});
    process.listen();
  }

  RpcProcess process;
  SegmentBytes segments;
  uint32_t page_bytes_max = 4000;
  int requests = 0;
  /// Asked first: anything but Ok is the answer.
  std::function<Status(const wire::ReadReplica::Request&)> refuse;
  /// May change an answer before it goes out.
  std::function<void(const wire::ReadReplica::Request&, Page&)> twist;

 private:
  void answer(rpc::Request request) {
    ++requests;
    const auto ask = loadAs<wire::ReadReplica::Request>(request.head().data());
    std::vector<wire::ReadReplica::Range> ranges(ask.range_count);
    RC_CHECK(request.message().messageBytes() == sizeof(ask) + ranges.size() * sizeof(ranges[0]));
    if (!ranges.empty()) {
      std::memcpy(ranges.data(), request.head().data() + sizeof(ask), ranges.size() * sizeof(ranges[0]));
    }
    const Status refused = refuse ? refuse(ask) : Status::Ok;
    if (refused != Status::Ok) return request.reply(refused);
    const auto found = segments.find(ask.segment.value);
    if (found == segments.end()) return request.reply(Status::NotFound);

    Page page;
    fill(page, found->second, ask, ranges);
    page.header.entry_bytes = static_cast<uint32_t>(page.entries.size());
    if (twist) twist(ask, page);
    transport::TxMessage response = request.allocate(static_cast<uint32_t>(sizeof(page.header) + page.entries.size()));
    response.appendHead(page.header);
    response.appendHead(ByteSpan(page.entries));
    request.reply(std::move(response));
  }

  void fill(Page& page, ByteSpan bytes, const wire::ReadReplica::Request& ask,
            const std::vector<wire::ReadReplica::Range>& ranges) {
    const uint64_t bytes_wanted = 1 + random_.below(std::min(page_bytes_max, ask.response_bytes));
    size_t at = ask.offset_bytes;
    while (at < bytes.size() && page.entries.size() < bytes_wanted) {
      log::EntryView entry;
      RC_CHECK(log::decodeEntry(bytes.subspan(at), entry) == log::DecodeError::None);
      if (entry.type() == log::EntryType::SafeVersion) {
        page.header.safe_version =
            std::max(page.header.safe_version, entry.payloadAs<log::SafeVersionPayload>().version);
      }
      if (isWanted(entry, ask.segment, ranges)) {
        page.entries.insert(page.entries.end(), entry.address(), entry.address() + entry.alignedBytes());
        ++page.header.entry_count;
      }
      at += entry.alignedBytes();
    }
    page.header.next_offset_bytes = static_cast<uint32_t>(at);
    page.header.done = at >= bytes.size() ? 1 : 0;
  }

  static bool isWanted(const log::EntryView& entry, SegmentId segment,
                       const std::vector<wire::ReadReplica::Range>& ranges) {
    KeyHash hash = 0;
    switch (entry.type()) {
      case log::EntryType::Object:
      case log::EntryType::Tombstone:
        hash = hashKey(entry.table(), entry.key());
        break;
      case log::EntryType::ResultRecord:
        hash = entry.payloadAs<log::ResultRecordPayload>().key_hash;
        break;
      default:
        return false;
    }
    for (const wire::ReadReplica::Range& range : ranges) {
      if (range.table == entry.table() && range.hashes.contains(hash) && segment >= range.first_segment) return true;
    }
    return false;
  }

  runtime::Random random_;
};

}  // namespace ramcore::sim
