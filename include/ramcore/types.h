#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ramcore/durability.h"
#include "ramcore/status.h"

namespace ramcore {

/// The longest key, in bytes. The shortest has 1 byte. Keys are bytes of any value.
inline constexpr size_t kKeyBytesLimit = 65535;
/// The longest value, in bytes. The shortest has none.
inline constexpr size_t kValueBytesLimit = 1024 * 1024;

/// Names a table, as `Client::createTable` and `Client::openTable` give it. Plain data, valid in every client of the
/// cluster until the table is dropped. Ids are never reused, so a Table of a dropped table gives NoSuchTable and never
/// means a new table of the same name.
struct Table {
  uint32_t id = 0;  ///< 0: none

  /// @return true if it names a table; false for a default-constructed one
  explicit operator bool() const { return id != 0; }
  bool operator==(const Table&) const = default;
};

/// One table, as `Client::listTables` gives it.
struct TableInfo {
  Table table;
  std::string name;
  Durability durability = Durability::Buffered;
};

/// What a table is to be like, for `Client::createTable`. The durability stays for good.
struct TableOptions {
  /// Into how many tablets (ranges of key hashes) the key space is cut, at most 1,024. They are spread over the
  /// servers. 0: one per server.
  uint32_t tablet_count = 0;
  /// What every answer about the table waits for.
  Durability durability = Durability::Buffered;
};

/// What must hold for a mutation to be carried out. The owner of the key checks it and carries the mutation out in one
/// step, so that no other mutation of the key comes in between. If it does not hold, nothing is changed: the status of
/// the mutation says why, and its version is the present one (0: there is no object). Versions of a key only grow, also
/// across a remove and a new write; every object has a version of at least 1. The default is no condition.
class Condition {
 public:
  enum class Kind : uint8_t { None = 0, MustExist = 1, MustNotExist = 2, VersionEquals = 3, VersionNotGreater = 4 };

  constexpr Condition() = default;
  /// The object exists. Otherwise the mutation ends with NotFound.
  static constexpr Condition mustExist() { return {Kind::MustExist, 0}; }
  /// The object does not exist. Otherwise the mutation ends with ObjectExists.
  static constexpr Condition mustNotExist() { return {Kind::MustNotExist, 0}; }
  /// The object has this version; 0 means that it does not exist. Otherwise the mutation ends with WrongVersion, or
  /// with NotFound if there is no object.
  /// @param version  as a read or a mutation gave it
  static constexpr Condition versionEquals(uint64_t version) { return {Kind::VersionEquals, version}; }
  /// The object has this version or a lower one, or does not exist. Otherwise the mutation ends with WrongVersion.
  static constexpr Condition versionNotGreater(uint64_t version) { return {Kind::VersionNotGreater, version}; }

  constexpr Kind kind() const { return kind_; }
  constexpr uint64_t version() const { return version_; }

 private:
  constexpr Condition(Kind kind, uint64_t version) : kind_(kind), version_(version) {}

  Kind kind_ = Kind::None;
  uint64_t version_ = 0;
};

/// Settings of one call.
struct CallOptions {
  /// How long the call may take, retries included; none: ClientOptions::default_timeout. It is kept to some tens of
  /// microseconds while a thread polls, and to some milliseconds while it sleeps. With 0 or less a call on one object
  /// sends nothing and ends with DeadlineExceeded.
  std::optional<std::chrono::nanoseconds> timeout;
  /// Used by write(), remove() and increment(), and by the functions that start them; all others ignore it.
  Condition condition;
};

/// What a read gives: a copy of the value, which the program owns, and the version of the object.
struct ReadResult {
  std::string value;
  uint64_t version = 0;
};

/// What a read into a buffer of the program gives.
struct ReadSize {
  size_t value_bytes = 0;  ///< of the whole value; what does not fit into the buffer is cut off
  uint64_t version = 0;
};

/// The outcome of a mutation.
struct [[nodiscard]] MutateResult {
  Status status = Status::Ok;
  /// With Ok: the new version (write, increment), or the version of the removed object (remove; 0: there was none).
  /// With a failed condition or TypeMismatch: the present version. Otherwise 0.
  uint64_t version = 0;
  int64_t value = 0;  ///< of an increment with Ok: the sum

  /// @return true if the status is Ok
  bool ok() const { return status == Status::Ok; }
  explicit operator bool() const { return ok(); }
};

/// One item of a multi-read: the question, and after the call its answer. The memory of `value` is used again if the
/// item is.
struct ReadItem {
  Table table;
  std::string_view key;  ///< borrowed: its bytes stay in place and unchanged until the call is over

  Status status = Status::Ok;  ///< of this item alone
  uint64_t version = 0;        ///< with Ok
  std::string value = {};      ///< with Ok; otherwise it means nothing
};

/// One item of a multi-mutation: what is asked for, and after the call its outcome.
struct MutateItem {
  enum class Kind : uint8_t { Write, Remove };

  Kind kind = Kind::Write;
  Table table;
  std::string_view key;    ///< borrowed, as `value` is: the bytes stay in place and unchanged until the call is over
  std::string_view value;  ///< of a write; ignored by a remove
  Condition condition;     ///< of this item

  Status status = Status::Ok;  ///< of this item alone
  uint64_t version = 0;        ///< as in MutateResult
};

/// One object of an enumeration. It belongs to the Scan; `Scan::next` says how long it is valid.
struct Object {
  std::string key;
  std::string value;
  uint64_t version = 0;
};

}  // namespace ramcore
