#pragma once

#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "ramcore/status.h"

namespace ramcore {

namespace detail {
/// Ends the process: `value()` was called on an error, or `error()` on a value.
[[noreturn]] void resultMisused();
}  // namespace detail

/// Why something could not be opened or configured. Only for calls that are rare; those of the request path give a
/// plain `Status`.
struct [[nodiscard]] Failure {
  Status status = Status::Internal;  ///< for the program
  std::string message;               ///< for a person: one line with cause and remedy

  bool operator==(Status other) const { return status == other; }
};

/// A value of type T, or the reason why there is none. `E` is `Status` on the request path and `Failure` where a person
/// reads the reason.
///
/// The Result owns the value. It can be moved, and copied if T can; copy assignment does not exist. Calling `value()`,
/// `*` or `->` on an error, or `error()` on a value, is a bug of the program and ends the process. Ask ok() or status()
/// before.
template <typename T, typename E = Status>
class [[nodiscard]] Result {
 public:
  Result(T value) : ok_(true) { new (&value_) T(std::move(value)); }   // NOLINT: implicit on purpose
  Result(E error) : ok_(false) { new (&error_) E(std::move(error)); }  // NOLINT: implicit on purpose
  Result(Result&& other) noexcept : ok_(other.ok_) { moveFrom(std::move(other)); }
  Result& operator=(Result&& other) noexcept {
    if (this != &other) {
      destroy();
      ok_ = other.ok_;
      moveFrom(std::move(other));
    }
    return *this;
  }
  Result(const Result& other)
    requires(std::is_copy_constructible_v<T>)
      : ok_(other.ok_) {
    if (ok_) {
      new (&value_) T(other.value_);
    } else {
      new (&error_) E(other.error_);
    }
  }
  Result& operator=(const Result&) = delete;
  ~Result() { destroy(); }

  /// @return true if there is a value
  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }

  /// @return the value, which lives as long as the Result; of an rvalue it may be moved out. Ends the process if there
  ///         is none
  T& value() & {
    if (!ok_) [[unlikely]]
      detail::resultMisused();
    return value_;
  }
  const T& value() const& {
    if (!ok_) [[unlikely]]
      detail::resultMisused();
    return value_;
  }
  T&& value() && {
    if (!ok_) [[unlikely]]
      detail::resultMisused();
    return std::move(value_);
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }

  /// @return the error, which lives as long as the Result; of an rvalue it may be moved out. Ends the process if there
  ///         is none
  const E& error() const& {
    if (ok_) [[unlikely]]
      detail::resultMisused();
    return error_;
  }
  E&& error() && {
    if (ok_) [[unlikely]]
      detail::resultMisused();
    return std::move(error_);
  }
  /// @return `Status::Ok` if there is a value, otherwise the status of the error
  Status status() const {
    if (ok_) return Status::Ok;
    if constexpr (std::is_same_v<E, Status>) {
      return error_;
    } else {
      return error_.status;
    }
  }

 private:
  void destroy() {
    if (ok_) {
      value_.~T();
    } else {
      error_.~E();
    }
  }
  void moveFrom(Result&& other) {
    if (ok_) {
      new (&value_) T(std::move(other.value_));
    } else {
      new (&error_) E(std::move(other.error_));
    }
  }

  union {
    T value_;
    E error_;
  };
  bool ok_;
};

/// The result of opening something: a value, or a Failure with a line for a person.
template <typename T>
using Outcome = Result<T, Failure>;

}  // namespace ramcore
