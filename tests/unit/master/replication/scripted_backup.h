#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "log/format/certificate.h"
#include "unit/rpc/rpc_fixture.h"
#include "wire/replica_messages.h"

namespace ramcore::master {

/// A backup that keeps what it is sent, and answers as the test tells it to. It checks what any backup relies on.
class ScriptedBackup {
 public:
  using Ask = wire::WriteReplica;
  enum class Mode : uint8_t {
    Answer,
    Hold,    ///< carries it out, and answers when release() is called, or never
    Refuse,  ///< answers `refusal`
    Lie,     ///< says that it has less than it was sent
  };
  struct Write {
    SegmentId segment;
    uint64_t epoch = 0;
    uint32_t offset = 0;
    uint32_t bytes = 0;
    uint8_t flags = 0;
    bool is_flush_call = false;  ///< flushed because a request waits, not because a segment or an epoch begins or ends
    bool has(Ask::Flags flag) const { return (flags & flag) != 0; }
  };
  struct Kept {
    std::vector<std::byte> bytes;
    uint64_t epoch = 0;
    std::optional<log::Certificate> certificate;
    std::optional<log::Certificate> flushed;  // the newest certificate that came with a flush
    uint32_t flushedBytes() const { return flushed ? flushed->length_bytes : 0; }
  };

  ScriptedBackup(rpc::RpcProcess& where, uint64_t number) : process(where), id(number) {
    const rpc::OpcodeRules rules{.roles = rpc::allow({transport::Role::Server}), .dispatch_only = true};
    process.dispatch().services().add<&ScriptedBackup::write>(wire::Opcode::WriteReplica, *this, rules);
    process.dispatch().services().add<&ScriptedBackup::free>(wire::Opcode::FreeReplica, *this, rules);
    process.listen();
  }

  void write(rpc::Request request) {
    const auto ask = loadAs<Ask::Request>(request.head().data());
    writes.push_back({ask.segment, ask.replica_epoch, ask.offset_bytes, ask.data_bytes, ask.flags, isFlushCall(ask)});
    if (mode == Mode::Refuse && concerns(ask.segment)) return request.reply(refusal);
    if (is_full && isHeadOfWrites(ask)) return request.reply(Status::NoSpace);
    if (refused_writes > 0) {
      --refused_writes;
      return request.reply(Status::RetryLater);
    }
    if (isBehindGap(ask)) {
      ++gaps;
      return request.reply(Status::BadRequest);
    }
    if (isStale(ask)) {
      ++stale;
      return request.reply(Status::StaleEpoch);
    }
    std::vector<std::byte> data;
    const auto add = [&data](ByteSpan bytes) { data.insert(data.end(), bytes.begin(), bytes.end()); };
    add(request.head().subspan(sizeof(ask)));
    for (const ByteSpan& span : request.message().tail()) add(span);
    ASSERT_EQ(data.size(), ask.data_bytes);
    store(ask, data);
    const Kept& replica = kept[ask.segment];
    Ask::Response response{.header = {.status = Status::Ok},
                           .length_bytes = static_cast<uint32_t>(replica.bytes.size()),
                           .flushed_bytes = replica.flushedBytes()};
    if (mode == Mode::Lie && concerns(ask.segment)) --response.length_bytes;
    if (writes.back().is_flush_call && flush_mode != Mode::Answer) {
      if (flush_mode == Mode::Refuse) return request.reply(refusal);
      if (flush_mode == Mode::Lie) response.flushed_bytes = flush_lie;
      if (flush_mode == Mode::Lie) return request.replyWith(response);
      held.emplace_back(std::make_unique<rpc::Request>(std::move(request)), response);
      return;
    }
    if (mode != Mode::Hold || !concerns(ask.segment)) return request.replyWith(response);
    held.emplace_back(std::make_unique<rpc::Request>(std::move(request)), response);
  }
  void free(rpc::Request request) {
    const auto ask = loadAs<wire::FreeReplica::Request>(request.head().data());
    freed.push_back(ask.segment);
    kept.erase(ask.segment);
    request.reply(frees_refused-- > 0 ? Status::RetryLater : Status::Ok);
  }
  /// Answers everything that is held.
  void release() {
    process.onDispatch([this] {
      for (auto& [request, response] : std::exchange(held, {})) request->replyWith(response);
    });
  }
  std::set<SegmentId> heldSegments() const {
    std::set<SegmentId> segments;
    for (const auto& [request, response] : held) {
      segments.insert(loadAs<Ask::Request>(request->head().data()).segment);
    }
    return segments;
  }
  /// Whether a recovery would find the first `bytes` of the segment here, under `epoch` or a later one.
  bool holds(SegmentId segment, uint32_t bytes, uint64_t epoch = 1) const {
    const auto found = kept.find(segment);
    if (found == kept.end() || !found->second.certificate) return false;
    const log::Certificate& certificate = *found->second.certificate;
    return certificate.replica_epoch >= epoch && certificate.length_bytes >= bytes &&
           log::verifyCertificate(certificate, found->second.bytes);
  }
  bool hasClosed(SegmentId segment) const {
    const auto found = kept.find(segment);
    return found != kept.end() && found->second.certificate && found->second.certificate->closed &&
           holds(segment, found->second.certificate->length_bytes);
  }

  rpc::RpcProcess& process;
  const uint64_t id;
  Mode mode = Mode::Answer;
  Mode flush_mode = Mode::Answer;  // for flush calls
  uint32_t flush_lie = 0;
  Status refusal = Status::NoSpace;
  SegmentId only;        // the segment that `mode` is for; none: all segments
  SegmentId spared;      // a segment that `mode` is not for
  bool is_full = false;  // no storage frame for heads that are not small
  int frees_refused = 0;
  int refused_writes = 0;  // the next ones come too early
  uint64_t gaps = 0;       // writes behind such ones, refused as any backup does
  bool expects_gaps = false;
  uint64_t stale = 0;  // writes of an earlier epoch than the replica's, refused as any backup does
  bool expects_stale = false;
  std::map<SegmentId, Kept> kept;
  std::vector<Write> writes;
  std::vector<SegmentId> freed;
  std::vector<std::pair<std::unique_ptr<rpc::Request>, Ask::Response>> held;

 private:
  bool isBehindGap(const Ask::Request& ask) const {
    const auto found = kept.find(ask.segment);
    return found != kept.end() && ask.offset_bytes > found->second.bytes.size();
  }
  bool isStale(const Ask::Request& ask) const {
    const auto found = kept.find(ask.segment);
    return found != kept.end() && ask.replica_epoch < found->second.epoch;
  }
  bool isFlushCall(const Ask::Request& ask) const {
    const auto found = kept.find(ask.segment);
    if ((ask.flags & Ask::kFlush) == 0 || found == kept.end() || found->second.epoch != ask.replica_epoch) return false;
    if (!found->second.certificate) return false;
    log::Certificate certificate;
    return log::decodeCertificate(ask.certificate, certificate) != Status::Ok || !certificate.closed;
  }
  static bool isHeadOfWrites(const Ask::Request& ask) {
    return (ask.flags & (Ask::kOpen | Ask::kHead | Ask::kReserve)) == (Ask::kOpen | Ask::kHead);
  }
  bool concerns(SegmentId segment) const { return segment != spared && (!only || only == segment); }
  void store(const Ask::Request& ask, const std::vector<std::byte>& data) {
    const bool opens = (ask.flags & Ask::kOpen) != 0;
    Kept& replica = kept[ask.segment];
    if (opens && ask.replica_epoch > replica.epoch) replica = {};
    ASSERT_TRUE(opens || replica.epoch != 0) << "a write to a replica that nobody opened";
    ASSERT_TRUE(opens || ask.replica_epoch == replica.epoch || (ask.flags & Ask::kCertified) != 0)
        << "a new epoch without a certificate for what is there";
    replica.epoch = ask.replica_epoch;
    replica.bytes.resize(std::max(replica.bytes.size(), size_t{ask.offset_bytes} + data.size()));
    std::copy(data.begin(), data.end(), replica.bytes.begin() + ask.offset_bytes);
    if (ask.flags == Ask::kFlush) replica.flushed = replica.certificate;
    if ((ask.flags & Ask::kCertified) == 0) return;
    log::Certificate certificate;
    ASSERT_EQ(log::decodeCertificate(ask.certificate, certificate), Status::Ok);
    ASSERT_EQ(certificate.replica_epoch, ask.replica_epoch);
    ASSERT_EQ(certificate.length_bytes, replica.bytes.size()) << "a certificate for less than there is";
    ASSERT_TRUE(log::verifyCertificate(certificate, replica.bytes));
    replica.certificate = certificate;
    if ((ask.flags & Ask::kFlush) != 0) replica.flushed = certificate;
  }
};

}  // namespace ramcore::master
