#pragma once

#include <array>

#include "wire/message_header.h"

namespace ramcore::wire {

/// Master -> backup: the bytes [offset, offset + data_bytes) of a segment's replica, and the certificate for everything
/// up to there. Request: struct, then data. Response: struct.
///
/// The first write of a replica (or of one that replaces an older epoch of it here) has Open and offset 0. Each other
/// one continues where the last ended: a gap is refused (BadRequest); what lies below the length that is there is a
/// repetition, answered and ignored, apart from its certificate if that is newer. A replica without any certificate
/// does not exist for a recovery: a replacement gets its first one with its last byte.
struct WriteReplica {
  static constexpr Opcode kOpcode = Opcode::WriteReplica;
  enum Flags : uint8_t {
    kOpen = 1,       ///< makes the replica: takes a frame, or takes over the one of an older epoch
    kHead = 2,       ///< with kOpen: leaves what is kept for survivors and side logs to them, as a head does
    kCertified = 4,  ///< `certificate` counts
    /// Answer when everything so far, certificate included, survives a power loss. `flushed_bytes` then is what is
    /// certified under the request's epoch: up to this write, or also what came after it but before the flush began.
    kFlush = 8,
    kReserve = 16,  ///< with kHead: a small head, for which frames are kept apart: removals go on where writes do not
  };
  static constexpr uint8_t kFlagsAll = 31;
  struct Request {
    RequestHeader header;
    ServerId master;  ///< the sender; what its session has proved
    SegmentId segment;
    uint64_t replica_epoch;
    uint32_t offset_bytes;
    uint32_t data_bytes;
    uint8_t flags;
    uint8_t reserved[7] = {};
    std::array<std::byte, 56> certificate;  ///< log::CertificateBytes; zero if not certified
  };
  struct Response {
    ResponseHeader header;
    uint32_t length_bytes;   ///< that the replica has now
    uint32_t flushed_bytes;  ///< of them, that survive a power loss together with their certificate; see kFlush
  };
};
static_assert(Fixed<WriteReplica::Request> && sizeof(WriteReplica::Request) == 112);
static_assert(Fixed<WriteReplica::Response> && sizeof(WriteReplica::Response) == 16);

/// Master -> backup: no recovery can ask for the segment any more. Ok also if there is no replica of it. Response:
/// header.
struct FreeReplica {
  static constexpr Opcode kOpcode = Opcode::FreeReplica;
  struct Request {
    RequestHeader header;
    ServerId master;
    SegmentId segment;
  };
};
static_assert(Fixed<FreeReplica::Request> && sizeof(FreeReplica::Request) == 32);

/// Which replica of a segment a backup means: what its certificate says. Once its master is fenced it stays the same,
/// or is lost. A closed one is all of the segment, whatever its length: what is copied after a compaction is shorter.
struct ReplicaVersion {
  uint64_t epoch = 0;
  uint32_t length_bytes = 0;
  uint8_t closed = 0;
  uint8_t reserved[3] = {};

  bool operator==(const ReplicaVersion&) const = default;
};
static_assert(Fixed<ReplicaVersion> && sizeof(ReplicaVersion) == 16);

/// Recovery master -> backup: entries of a dead master's segment that belong to some hash ranges. Request: struct, then
/// `range_count` times Range. Response: struct, then `entry_bytes` bytes: whole log entries one after the other, each
/// at a multiple of 8: objects and tombstones by the hash of their keys, result records by the hash they name. In the
/// order of the segment; groups are not kept together.
///
/// NotFound: the replica that is asked for is not here any more: what the server has of the segment is another one,
/// which may miss the end. Whoever asks next what it has, with FenceServer, is told anew. RetryLater: the server is not
/// fenced here yet.
struct ReadReplica {
  static constexpr Opcode kOpcode = Opcode::ReadReplica;
  static constexpr uint32_t kRangesMax = 1024;
  struct Range {
    TableId table;
    uint32_t reserved = 0;
    HashRange hashes;
    SegmentId first_segment;  ///< entries of the range in earlier segments are of an earlier ownership: left out
  };
  struct Request {
    RequestHeader header;
    ServerId master;
    SegmentId segment;
    ReplicaVersion replica;
    uint32_t offset_bytes;    ///< where to go on: `next_offset_bytes` of the last answer, first 0
    uint32_t response_bytes;  ///< aim; one answer may be longer by one entry
    uint32_t range_count;
    uint32_t reserved = 0;
  };
  struct Response {
    ResponseHeader header;
    uint32_t next_offset_bytes;  ///< the length of the replica when nothing is left
    uint32_t entry_bytes;
    uint32_t entry_count;
    uint8_t done;  ///< 1: nothing is left
    uint8_t reserved[3] = {};
    Version safe_version;  ///< the highest of the SafeVersion entries in the part that was looked through; or 0
  };
};
static_assert(Fixed<ReadReplica::Range> && sizeof(ReadReplica::Range) == 32);
static_assert(Fixed<ReadReplica::Request> && sizeof(ReadReplica::Request) == 64);
static_assert(Fixed<ReadReplica::Response> && sizeof(ReadReplica::Response) == 32);

/// Master -> backup: bytes of the sender's own segment, as a closed replica has them. Response: struct, then
/// `data_bytes` bytes from the offset on: as many as were asked for, or up to the end of the replica.
///
/// NotFound: there is no valid replica of it here. RetryLater: it is not closed here yet. BadRequest: it ends before
/// the offset.
struct FetchReplica {
  static constexpr Opcode kOpcode = Opcode::FetchReplica;
  /// More than the largest entry; what is asked for beyond is left out.
  static constexpr uint32_t kBytesMax = 2u << 20;
  struct Request {
    RequestHeader header;
    ServerId master;  ///< the sender; what its session has proved
    SegmentId segment;
    uint32_t offset_bytes;
    uint32_t data_bytes;  ///< at least 1
  };
  struct Response {
    ResponseHeader header;
    uint32_t length_bytes;  ///< of the replica
    uint32_t data_bytes;
  };
};
static_assert(Fixed<FetchReplica::Request> && sizeof(FetchReplica::Request) == 40);
static_assert(Fixed<FetchReplica::Response> && sizeof(FetchReplica::Response) == 16);

}  // namespace ramcore::wire
