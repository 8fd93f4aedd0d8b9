#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ramcore/durability.h"
#include "ramcore/status.h"

namespace ramcore {

/// Longest key, and longest value, in bytes.
inline constexpr size_t kKeyBytesLimit = 65535;
inline constexpr size_t kValueBytesLimit = 1024 * 1024;

/// A table, as `Client::openTable` gives it: plain data, valid in every client of the cluster until the table is
/// dropped. Ids are never reused.
struct Table {
  uint32_t id = 0;

  explicit operator bool() const { return id != 0; }
  bool operator==(const Table&) const = default;
};

struct TableInfo {
  Table table;
  std::string name;
  Durability durability = Durability::Buffered;
};

/// What a table is to be like, for good.
struct TableOptions {
  /// Into how many pieces the key space is cut, spread over the servers; 0: one per server.
  uint32_t tablet_count = 0;
  /// What every answer about it waits for.
  Durability durability = Durability::Buffered;
};

/// What must hold for a mutation to be carried out. If it does not, nothing is changed and the status says why; the
/// version in the result is the present one.
class Condition {
 public:
  enum class Kind : uint8_t { None = 0, MustExist = 1, MustNotExist = 2, VersionEquals = 3, VersionNotGreater = 4 };

  constexpr Condition() = default;
  /// Else NotFound.
  static constexpr Condition mustExist() { return {Kind::MustExist, 0}; }
  /// Else ObjectExists.
  static constexpr Condition mustNotExist() { return {Kind::MustNotExist, 0}; }
  /// Else WrongVersion; NotFound if there is no object and `version` is not 0.
  static constexpr Condition versionEquals(uint64_t version) { return {Kind::VersionEquals, version}; }
  /// The present version is `version` or lower (absent counts as 0), else WrongVersion.
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
  /// How long the call may take, retries included; none: ClientOptions::default_timeout.
  std::optional<std::chrono::nanoseconds> timeout;
  /// Of mutations.
  Condition condition;
};

struct ReadResult {
  std::string value;
  uint64_t version = 0;
};

/// A read into a buffer of the caller's.
struct ReadSize {
  size_t value_bytes = 0;  ///< of the whole value; what does not fit the buffer is cut off
  uint64_t version = 0;
};

/// What became of a mutation.
struct [[nodiscard]] MutateResult {
  Status status = Status::Ok;
  /// Ok: the new version (write, increment) or that of the removed object (0: there was none). A failed condition: the
  /// present version. Otherwise 0.
  uint64_t version = 0;
  int64_t value = 0;  ///< of an increment: after the addition

  bool ok() const { return status == Status::Ok; }
  explicit operator bool() const { return ok(); }
};

/// One part of a multi-read: what is asked, and after the call the answer. Reusing items reuses their memory.
struct ReadItem {
  Table table;
  std::string_view key;  ///< its bytes stay in place until the call is over

  Status status = Status::Ok;
  uint64_t version = 0;
  std::string value = {};
};

/// One part of a multi-mutation: what is asked, and after the call the answer.
struct MutateItem {
  enum class Kind : uint8_t { Write, Remove };

  Kind kind = Kind::Write;
  Table table;
  std::string_view key;    ///< as well as `value`: its bytes stay in place until the call is over
  std::string_view value;  ///< of a write
  Condition condition;

  Status status = Status::Ok;
  uint64_t version = 0;  ///< as in MutateResult
};

/// One object of an enumeration.
struct Object {
  std::string key;
  std::string value;
  uint64_t version = 0;
};

}  // namespace ramcore
