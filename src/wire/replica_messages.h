#pragma once

#include <array>

#include "wire/message_header.h"

namespace ramcore::wire {

/// Master -> backup: the bytes [offset, offset + data_bytes) of a segment's replica, and the certificate for everything
/// up to there. Request: struct, then data. Response: struct.
///
/// The first write of a replica has kOpen and offset 0, also if the replica replaces one of an older epoch here. Each
/// later write continues where the last one ended. A write that would leave a gap is refused (BadRequest). Bytes below
/// the present length are a repetition: the write is answered, and they are ignored. A certificate that comes with them
/// is taken if it is newer. A replica without any certificate does not exist for a recovery; a replacement gets its
/// first certificate with its last byte.
struct WriteReplica {
  static constexpr Opcode kOpcode = Opcode::WriteReplica;
  enum Flags : uint8_t {
    kOpen = 1,       ///< creates the replica: takes a storage frame, or reuses that of an older epoch
    kHead = 2,       ///< with kOpen: leaves storage frames kept for survivors and side logs to them, as a log head does
    kCertified = 4,  ///< the request has a certificate in `certificate`
    /// Answer only when everything so far, certificate included, survives a power loss. `flushed_bytes` is then the
    /// length that is certified under the request's epoch: up to this write, or further if later writes came before the
    /// flush began.
    kFlush = 8,
    kReserve = 16,  ///< with kHead: a small head. Storage frames are kept for it: removals go on where writes do not
  };
  static constexpr uint8_t kFlagsAll = 31;
  struct Request {
    RequestHeader header;
    ServerId master;  ///< the sender, as its session has proved
    SegmentId segment;
    uint64_t replica_epoch;
    uint32_t offset_bytes;
    uint32_t data_bytes;
    uint8_t flags;
    uint8_t reserved[7] = {};
    std::array<std::byte, 56> certificate;  ///< log::CertificateBytes; zero if not certified

    constexpr bool isValid() const { return header.isValid() && (flags & ~kFlagsAll) == 0 && isZero(reserved); }
  };
  struct Response {
    ResponseHeader header;
    uint32_t length_bytes;   ///< the length of the replica now
    uint32_t flushed_bytes;  ///< bytes of it that survive a power loss together with their certificate; see kFlush

    constexpr bool isValid() const { return header.isValid(); }
  };
};
static_assert(Message<WriteReplica::Request> && sizeof(WriteReplica::Request) == 112);
static_assert(Message<WriteReplica::Response> && sizeof(WriteReplica::Response) == 16);

/// Master -> backup: frees the replica of a segment that no recovery can ask for any more. Ok also if there is no
/// replica of it. Response: header.
struct FreeReplica {
  static constexpr Opcode kOpcode = Opcode::FreeReplica;
  struct Request {
    RequestHeader header;
    ServerId master;
    SegmentId segment;

    constexpr bool isValid() const { return header.isValid(); }
  };
};
static_assert(Message<FreeReplica::Request> && sizeof(FreeReplica::Request) == 32);

/// Identifies a replica of a segment on a backup by what its certificate says. Once the replica's master is fenced
/// there, the replica stays the same or is lost. A closed replica is all of the segment, whatever its length: a replica
/// that is made after a compaction is shorter.
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
/// at a multiple of 8. Objects and tombstones belong to a range by the hash of their keys, result records by the hash
/// they name. The entries are in the order of the segment; entries of one group are not kept together.
///
/// NotFound: the replica that is asked for is not here any more. If the backup has another replica of the segment, that
/// one may lack the end. The next FenceServer gets a new list of the replicas. RetryLater: the master is not fenced
/// here yet.
struct ReadReplica {
  static constexpr Opcode kOpcode = Opcode::ReadReplica;
  static constexpr uint32_t kRangesMax = 1024;
  struct Range {
    TableId table;
    uint32_t reserved = 0;
    HashRange hashes;
    SegmentId first_segment;  ///< entries of the range in earlier segments are of an earlier ownership and are left out

    constexpr bool isValid() const { return reserved == 0 && hashes.first <= hashes.last; }
  };
  struct Request {
    RequestHeader header;
    ServerId master;
    SegmentId segment;
    ReplicaVersion replica;
    uint32_t offset_bytes;    ///< where to continue: `next_offset_bytes` of the last answer, at first 0
    uint32_t response_bytes;  ///< intended length of the answer; it may be longer by one entry
    uint32_t range_count;
    uint32_t reserved = 0;

    /// A `replica` that no certificate can name is like any other that is not here: NotFound.
    constexpr bool isValid() const { return header.isValid() && reserved == 0; }
  };
  struct Response {
    ResponseHeader header;
    uint32_t next_offset_bytes;  ///< the length of the replica when nothing is left
    uint32_t entry_bytes;
    uint32_t entry_count;
    uint8_t done;  ///< 1: nothing is left
    uint8_t reserved[3] = {};
    Version safe_version;  ///< the highest of the SafeVersion entries in the part that was looked through; or 0

    constexpr bool isValid() const { return header.isValid() && done <= 1 && isZero(reserved); }
  };
};
static_assert(Message<ReadReplica::Range> && sizeof(ReadReplica::Range) == 32);
static_assert(Message<ReadReplica::Request> && sizeof(ReadReplica::Request) == 64);
static_assert(Message<ReadReplica::Response> && sizeof(ReadReplica::Response) == 32);

/// Master -> backup: bytes of the sender's own segment, as a closed replica has them. Response: struct, then
/// `data_bytes` bytes from the offset on: as many as were asked for, or up to the end of the replica.
///
/// NotFound: there is no valid replica of it here. RetryLater: the replica is not closed here yet. BadRequest: the
/// replica has no byte at the offset.
struct FetchReplica {
  static constexpr Opcode kOpcode = Opcode::FetchReplica;
  /// Longest data of one answer, more than the largest entry. What is asked for beyond is left out.
  static constexpr uint32_t kBytesMax = 2u << 20;
  struct Request {
    RequestHeader header;
    ServerId master;  ///< the sender, as its session has proved
    SegmentId segment;
    uint32_t offset_bytes;
    uint32_t data_bytes;  ///< at least 1

    constexpr bool isValid() const { return header.isValid(); }
  };
  struct Response {
    ResponseHeader header;
    uint32_t length_bytes;  ///< length of the replica
    uint32_t data_bytes;

    constexpr bool isValid() const { return header.isValid(); }
  };
};
static_assert(Message<FetchReplica::Request> && sizeof(FetchReplica::Request) == 40);
static_assert(Message<FetchReplica::Response> && sizeof(FetchReplica::Response) == 16);

}  // namespace ramcore::wire
