#pragma once

#include "wire/message_header.h"

namespace ramcore::wire {

/// Limits of the data model; a part of the format.
inline constexpr uint32_t kKeyBytesMax = 65535;
inline constexpr uint32_t kValueBytesMax = 1024 * 1024;
/// Limit of the parts of one multi-operation.
inline constexpr uint32_t kMultiCountMax = 4096;

/// What must hold for a mutation to be carried out.
enum class Condition : uint8_t {
  None = 0,
  MustExist = 1,          ///< else NotFound
  MustNotExist = 2,       ///< else ObjectExists
  VersionEquals = 3,      ///< else WrongVersion (NotFound if there is no object and the version is not 0)
  VersionNotGreater = 4,  ///< the present version must be <= the given one, else WrongVersion; absent counts as 0
};
/// False for a byte from the network that is no condition.
constexpr bool isKnown(Condition condition) { return condition <= Condition::VersionNotGreater; }

/// Stands behind the header of an answer WrongServer to a request for one key, if the server has handed the tablet
/// over: who owns it now, as far as that server was told. A hint: the owner itself decides whether it answers.
struct MovedTo {
  TabletEpoch epoch;  ///< under which the owner holds it
  ServerId owner;
  HashRange range;  ///< of the tablet

  constexpr bool isValid() const { return epoch.value != 0 && owner.value != 0 && range.first <= range.last; }
};
static_assert(Message<MovedTo> && sizeof(MovedTo) == 32);

/// Reads one object. Request: struct, key. Response: struct, value. NotFound has the struct without a value.
struct Read {
  static constexpr Opcode kOpcode = Opcode::Read;
  struct Request {
    RequestHeader header;
    TabletEpoch epoch;
    TableId table;
    uint16_t key_bytes;
    uint16_t reserved = 0;

    constexpr bool isValid() const { return header.isValid() && reserved == 0; }
  };
  struct Response {
    ResponseHeader header;
    Version version;
    uint32_t value_bytes;
    uint32_t reserved = 0;

    constexpr bool isValid() const { return header.isValid() && reserved == 0; }
  };
};
static_assert(Message<Read::Request> && sizeof(Read::Request) == 32);
static_assert(Message<Read::Response> && sizeof(Read::Response) == 24);

/// Creates or replaces one object. Request: struct, key, value. Response: struct; `version` is the new one, or the
/// present one when the condition failed.
struct Write {
  static constexpr Opcode kOpcode = Opcode::Write;
  struct Request {
    RequestHeader header;
    CallIdentity identity;
    TabletEpoch epoch;
    Version condition_version;
    TableId table;
    uint32_t value_bytes;
    uint16_t key_bytes;
    Condition condition;
    uint8_t reserved8 = 0;
    uint32_t reserved32 = 0;

    constexpr bool isValid() const {
      return header.isValid() && isKnown(condition) && reserved8 == 0 && reserved32 == 0;
    }
  };
  struct Response {
    ResponseHeader header;
    Version version;

    constexpr bool isValid() const { return header.isValid(); }
  };
};
static_assert(Message<Write::Request> && sizeof(Write::Request) == 72);
static_assert(Message<Write::Response> && sizeof(Write::Response) == 16);

/// Removes one object. Request: as Write, with value_bytes 0. Response: as Write; `version` is that of the object that
/// was removed. Ok also if there was none (version 0), unless the condition asks for one.
struct Remove {
  static constexpr Opcode kOpcode = Opcode::Remove;
  using Request = Write::Request;
  using Response = Write::Response;
};

/// Adds to an 8-byte little-endian integer; an absent object counts as 0. Wraps around. Request: struct, key.
struct Increment {
  static constexpr Opcode kOpcode = Opcode::Increment;
  struct Request {
    RequestHeader header;
    CallIdentity identity;
    TabletEpoch epoch;
    Version condition_version;
    int64_t delta;
    TableId table;
    uint16_t key_bytes;
    Condition condition;
    uint8_t reserved = 0;

    constexpr bool isValid() const { return header.isValid() && isKnown(condition) && reserved == 0; }
  };
  struct Response {
    ResponseHeader header;
    Version version;
    int64_t value;  ///< after the addition

    constexpr bool isValid() const { return header.isValid(); }
  };
};
static_assert(Message<Increment::Request> && sizeof(Increment::Request) == 72);
static_assert(Message<Increment::Response> && sizeof(Increment::Response) == 24);

/// Reads many objects. Request: struct, then `count` times: part, key, padding to 8. Response: struct and as many
/// parts, all in its contiguous head; then the values, one behind the other, in the order of the parts: first those
/// that are not apart (copied together), then those that are (sent from where they stand in the log). An answer that
/// would grow too long ends early: the rest of the parts say RetryLater.
struct MultiRead {
  static constexpr Opcode kOpcode = Opcode::MultiRead;
  struct Request {
    RequestHeader header;
    uint32_t count;
    uint32_t reserved = 0;

    constexpr bool isValid() const { return header.isValid() && reserved == 0; }
  };
  struct RequestPart {
    TabletEpoch epoch;
    TableId table;
    uint16_t key_bytes;
    uint16_t reserved = 0;

    constexpr bool isValid() const { return reserved == 0; }
  };
  struct Response {
    ResponseHeader header;
    uint32_t count;
    uint32_t reserved = 0;

    constexpr bool isValid() const { return header.isValid() && reserved == 0; }
  };
  struct ResponsePart {
    Version version;
    uint32_t value_bytes;
    Status status;
    uint16_t is_apart = 0;  ///< 1: the value stands behind all that are not apart

    constexpr bool isValid() const { return is_apart <= 1; }
  };
};
static_assert(Message<MultiRead::Request> && sizeof(MultiRead::Request) == 24);
static_assert(Message<MultiRead::RequestPart> && sizeof(MultiRead::RequestPart) == 16);
static_assert(Message<MultiRead::Response> && sizeof(MultiRead::Response) == 16);
static_assert(Message<MultiRead::ResponsePart> && sizeof(MultiRead::ResponsePart) == 16);

/// Writes and removes many objects; each part is a call of its own, the whole is not atomic. Request: struct, then
/// `count` times: part, key, value, padding to 8. Response: struct, then as many parts.
struct MultiMutate {
  static constexpr Opcode kOpcode = Opcode::MultiMutate;
  enum class Kind : uint8_t { Write = 0, Remove = 1 };
  struct Request {
    RequestHeader header;
    ClientId client;
    Sequence acknowledged;
    uint32_t count;
    uint32_t reserved = 0;

    constexpr bool isValid() const { return header.isValid() && reserved == 0; }
  };
  struct RequestPart {
    Sequence sequence;
    TabletEpoch epoch;
    Version condition_version;
    TableId table;
    uint32_t value_bytes;
    uint16_t key_bytes;
    Kind kind;
    Condition condition;
    uint32_t reserved = 0;

    constexpr bool isValid() const { return kind <= Kind::Remove && isKnown(condition) && reserved == 0; }
  };
  struct Response {
    ResponseHeader header;
    uint32_t count;
    uint32_t reserved = 0;

    constexpr bool isValid() const { return header.isValid() && reserved == 0; }
  };
  struct ResponsePart {
    Version version;
    Status status;
    uint16_t reserved16 = 0;
    uint32_t reserved32 = 0;

    constexpr bool isValid() const { return reserved16 == 0 && reserved32 == 0; }
  };
};
static_assert(Message<MultiMutate::Request> && sizeof(MultiMutate::Request) == 40);
static_assert(Message<MultiMutate::RequestPart> && sizeof(MultiMutate::RequestPart) == 40);
static_assert(Message<MultiMutate::Response> && sizeof(MultiMutate::Response) == 16);
static_assert(Message<MultiMutate::ResponsePart> && sizeof(MultiMutate::ResponsePart) == 16);

/// Enumerates the objects of a tablet in key-hash order. Request: struct. Response: struct, then `count` times: part,
/// key, value, padding to 8. Objects with the same key hash are never split over two answers.
struct Scan {
  static constexpr Opcode kOpcode = Opcode::Scan;
  struct Request {
    RequestHeader header;
    TabletEpoch epoch;
    KeyHash cursor;  ///< first key hash wanted; decides the tablet
    TableId table;
    uint32_t response_bytes;  ///< intended length of the answer; it may be longer by the objects of one key hash

    constexpr bool isValid() const { return header.isValid(); }
  };
  struct Response {
    ResponseHeader header;
    KeyHash next_cursor;  ///< where to go on, if not `range_done`
    uint32_t count;
    uint8_t range_done;  ///< 1: nothing is left up to `range_last`; go on at range_last + 1
    uint8_t reserved8 = 0;
    uint16_t reserved16 = 0;
    KeyHash range_last;  ///< last key hash of the tablet that answered

    constexpr bool isValid() const { return header.isValid() && range_done <= 1 && reserved8 == 0 && reserved16 == 0; }
  };
  struct Part {
    Version version;
    uint32_t value_bytes;
    uint16_t key_bytes;
    uint16_t reserved = 0;

    constexpr bool isValid() const { return reserved == 0; }
  };
};
static_assert(Message<Scan::Request> && sizeof(Scan::Request) == 40);
static_assert(Message<Scan::Response> && sizeof(Scan::Response) == 32);
static_assert(Message<Scan::Part> && sizeof(Scan::Part) == 16);

/// Asks whether a process answers: any process does, with nothing but the header.
struct Ping {
  static constexpr Opcode kOpcode = Opcode::Ping;
  struct Request {
    RequestHeader header;
  };
  struct Response {
    ResponseHeader header;
  };
};

}  // namespace ramcore::wire
