#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ramcore {

// A number that a process reports is declared once, with its name, its meaning and its unit, beside where it is
// counted. What reports numbers (metrics, JSON) goes through the declarations.

/// Counter: only grows while its process lives. Gauge: goes up and down.
enum class NumberKind : uint8_t { Counter, Gauge };

/// What a number counts. Flag: 1 for yes, 0 for no. Items: whatever the number is named after.
enum class NumberUnit : uint8_t { Items, Bytes, Seconds, Nanoseconds, Flag };

/// What a number is.
struct NumberMeaning {
  std::string_view metric;  ///< its name in metrics, with the unit; empty: metrics do not have it
  std::string_view help;    ///< for people
  NumberKind kind = NumberKind::Counter;
  NumberUnit unit = NumberUnit::Items;

  /// Whether the name in metrics says the kind and the unit: "_total" ends the names of counters alone, and "_bytes"
  /// and "_seconds" are in those of bytes and seconds alone.
  constexpr bool isNamedWell() const {
    if (metric.empty()) return true;
    const auto has = [this](std::string_view text) { return metric.find(text) != std::string_view::npos; };
    return metric.starts_with("ramcore_") && metric.ends_with("_total") == (kind == NumberKind::Counter) &&
           has("_bytes") == (unit == NumberUnit::Bytes) && has("_seconds") == (unit == NumberUnit::Seconds);
  }
};

/// The declaration of one number of an `Owner`.
template <typename Owner>
struct Number {
  NumberMeaning meaning;
  double (*read)(const Owner&);  ///< any thread
};

namespace number_detail {

template <typename Member>
struct MemberOf;
template <typename Owner, typename Value>
struct MemberOf<Value Owner::*> {
  using Class = Owner;
};

// Initializes one field: a number, or an atomic one. It stands in expressions that are only looked at.
struct AnyNumber {
  template <typename Value>
    requires std::is_arithmetic_v<Value>
  operator Value() const;
};

template <typename Struct, size_t... kFields>
constexpr bool takes(std::index_sequence<kFields...>) {
  return requires { Struct{{(static_cast<void>(kFields), AnyNumber{})}...}; };
}

}  // namespace number_detail

/// How many fields a struct of numbers has. Used to check, when the source is compiled, that each of them is declared.
template <typename Struct, size_t kCount = 0>
constexpr size_t fieldCount() {
  if constexpr (number_detail::takes<Struct>(std::make_index_sequence<kCount + 1>())) {
    return fieldCount<Struct, kCount + 1>();
  } else {
    return kCount;
  }
}

/// The class of a pointer to a member.
template <auto kMember>
using OwnerOf = typename number_detail::MemberOf<decltype(kMember)>::Class;

/// Reads a field that is a number, or an atomic one.
template <auto kMember>
constexpr auto readField(const OwnerOf<kMember>& owner) {
  if constexpr (requires { (owner.*kMember).load(std::memory_order_relaxed); }) {
    return (owner.*kMember).load(std::memory_order_relaxed);
  } else {
    return owner.*kMember;
  }
}

/// Declares what a field counts.
template <auto kMember>
constexpr Number<OwnerOf<kMember>> number(const NumberMeaning& meaning) {
  return {.meaning = meaning,
          .read = [](const OwnerOf<kMember>& owner) { return static_cast<double>(readField<kMember>(owner)); }};
}

/// Declares a field that is a counter, or a gauge.
template <auto kMember>
constexpr Number<OwnerOf<kMember>> counter(std::string_view metric, std::string_view help,
                                           NumberUnit unit = NumberUnit::Items) {
  return number<kMember>({.metric = metric, .help = help, .kind = NumberKind::Counter, .unit = unit});
}
template <auto kMember>
constexpr Number<OwnerOf<kMember>> gauge(std::string_view metric, std::string_view help,
                                         NumberUnit unit = NumberUnit::Items) {
  return number<kMember>({.metric = metric, .help = help, .kind = NumberKind::Gauge, .unit = unit});
}

/// Whether declarations are of different numbers, and each name says kind and unit.
template <typename Owner, size_t kCount>
constexpr bool areSound(const std::array<Number<Owner>, kCount>& numbers) {
  for (size_t i = 0; i < kCount; ++i) {
    if (numbers[i].meaning.metric.empty() || !numbers[i].meaning.isNamedWell()) return false;
    for (size_t j = 0; j < i; ++j) {
      if (numbers[i].read == numbers[j].read || numbers[i].meaning.metric == numbers[j].meaning.metric) return false;
    }
  }
  return true;
}

}  // namespace ramcore
