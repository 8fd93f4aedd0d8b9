#pragma once

#include "wire/message_header.h"

namespace ramcore::wire {

/// New owner -> former owner: one slice of a part of a lent tablet, in key-hash order. Request: struct. Response:
/// struct, then `entry_bytes` bytes: whole log entries (docs/formats.md) one after the other, each at a multiple of 8.
/// A tombstone with version 0 stands for a key whose object the former owner has lost. Of a tablet that is handed back
/// come only objects that were written there and, as tombstones with their versions, keys that were removed there.
struct Pull {
  static constexpr Opcode kOpcode = Opcode::Pull;
  struct Request {
    RequestHeader header;
    TabletId tablet;
    TabletEpoch epoch;
    KeyHash cursor;
    KeyHash last;             ///< of the part; not below the cursor
    uint32_t response_bytes;  ///< intended length of the answer; it may be longer by the objects of one key hash
    uint32_t reserved = 0;

    constexpr bool isValid() const { return header.isValid() && cursor <= last && reserved == 0; }
  };
  struct Response {
    ResponseHeader header;
    KeyHash next_cursor;
    uint32_t entry_bytes;
    uint32_t entry_count;
    uint8_t done;  ///< 1: nothing is left of the part
    uint8_t reserved[7] = {};

    constexpr bool isValid() const { return header.isValid() && done <= 1 && isZero(reserved); }
  };
};
static_assert(Message<Pull::Request> && sizeof(Pull::Request) == 56);
static_assert(Message<Pull::Response> && sizeof(Pull::Response) == 32);

/// New owner -> former owner: the objects of some key hashes of a lent tablet, all of each hash, or none if there are
/// none. Request: struct, then `count` hashes, ascending. Response: struct, then `entry_bytes` bytes as of Pull.
struct PullHashes {
  static constexpr Opcode kOpcode = Opcode::PullHashes;
  static constexpr uint32_t kHashesMax = 64;
  struct Request {
    RequestHeader header;
    TabletId tablet;
    TabletEpoch epoch;
    uint32_t count;  ///< 1 .. kHashesMax
    uint32_t reserved = 0;

    constexpr bool isValid() const { return header.isValid() && count != 0 && count <= kHashesMax && reserved == 0; }
  };
  struct Response {
    ResponseHeader header;
    uint32_t count;  ///< of the hashes that were asked for, these are answered: the first ones, at least one
    uint32_t entry_bytes;

    constexpr bool isValid() const { return header.isValid() && count <= kHashesMax; }
  };
};
static_assert(Message<PullHashes::Request> && sizeof(PullHashes::Request) == 40);
static_assert(Message<PullHashes::Response> && sizeof(PullHashes::Response) == 16);

/// New owner -> former owner: the result records of a frozen tablet whose clients may still repeat their calls. Request
/// and response are those of Pull. The records are in the order of the key hashes that they are for. Records of one
/// hash are never split over two answers.
struct PullResults {
  static constexpr Opcode kOpcode = Opcode::PullResults;
  using Request = Pull::Request;
  using Response = Pull::Response;
};

/// New owner -> owner, before the hand-over: how much room a part of a tablet takes in the new owner's log, and which
/// key hashes several keys have. Response: struct, then `crowded_count` key hashes. Objects are answered in the order
/// of their hashes, some thousands at a time, so that an answer costs little however large the tablet is.
struct MeasureTablet {
  static constexpr Opcode kOpcode = Opcode::MeasureTablet;
  /// What is asked about: objects; or all that is not objects, in one answer.
  enum class Part : uint32_t { Objects = 0, Rest = 1 };
  static constexpr uint32_t kCrowdedMax = 1024;
  static constexpr uint32_t kCrowdedAll = UINT32_MAX;
  struct Request {
    RequestHeader header;
    TabletId tablet;
    TabletEpoch epoch;
    KeyHash cursor;  ///< of objects: the first hash that is asked about
    Part part;
    uint32_t reserved = 0;

    constexpr bool isValid() const { return header.isValid() && part <= Part::Rest && reserved == 0; }
  };
  struct Response {
    ResponseHeader header;
    uint64_t object_bytes;     ///< of objects; of the rest: of the results of calls
    uint64_t large_bytes;      ///< the part in objects above LogConfig::smallEntryBytesMax()
    uint64_t tombstone_bytes;  ///< what their tombstones would take
    uint64_t appended_bytes;   ///< that the owner has appended to its log for all of its tablets, before it looked
    KeyHash next_cursor;       ///< of objects, unless done: the first hash that is not answered
    uint32_t crowded_count;    ///< of the key hashes that follow: those that several keys have, ascending; of the rest.
                               ///< kCrowdedAll: there are too many to name
    uint8_t done;              ///< 1: no object is left
    uint8_t reserved[3] = {};

    constexpr bool isValid() const {
      return header.isValid() && done <= 1 && isZero(reserved) &&
             (crowded_count <= kCrowdedMax || crowded_count == kCrowdedAll);
    }
  };
};
static_assert(Message<MeasureTablet::Request> && sizeof(MeasureTablet::Request) == 48);
static_assert(Message<MeasureTablet::Response> && sizeof(MeasureTablet::Response) == 56);

/// New owner -> owner, before the hand-over: the clients that the owner knows, so that their leases can be confirmed to
/// the new owner all at once, before their first calls come. Response: struct, then `count` client ids, ascending.
struct ListClients {
  static constexpr Opcode kOpcode = Opcode::ListClients;
  static constexpr uint32_t kClientsMax = 1024;
  struct Request {
    RequestHeader header;
    TabletId tablet;
    TabletEpoch epoch;
    ClientId after;  ///< only clients with higher ids are wanted

    constexpr bool isValid() const { return header.isValid(); }
  };
  struct Response {
    ResponseHeader header;
    uint32_t count;  ///< kClientsMax: there may be more
    uint32_t reserved = 0;

    constexpr bool isValid() const { return header.isValid() && count <= kClientsMax && reserved == 0; }
  };
};
static_assert(Message<ListClients::Request> && sizeof(ListClients::Request) == 40);
static_assert(Message<ListClients::Response> && sizeof(ListClients::Response) == 16);

}  // namespace ramcore::wire
