#pragma once

#include <compare>
#include <cstdint>

namespace ramcore {

/// An integer with a meaning of its own, so that two ids in a row in a signature cannot be swapped. Same bytes as the
/// integer: it may stand in wire structs. Value 0 means "none" for every kind; the coordinator never hands it out.
template <typename Tag, typename Rep>
struct Id {
  using Raw = Rep;
  Rep value = 0;

  constexpr Id() = default;
  constexpr explicit Id(Rep raw) : value(raw) {}
  constexpr auto operator<=>(const Id&) const = default;
  /// False for "none".
  constexpr explicit operator bool() const { return value != 0; }
};

using ClusterId = Id<struct ClusterIdTag, uint64_t>;      ///< drawn at random when a cluster's first coordinator starts
using ServerId = Id<struct ServerIdTag, uint64_t>;        ///< one incarnation of a server process; never reused
using ClientId = Id<struct ClientIdTag, uint64_t>;        ///< one lease of a client library; never reused
using TableId = Id<struct TableIdTag, uint32_t>;          ///< never reused, also after a drop
using TabletId = Id<struct TabletIdTag, uint64_t>;        ///< never reused; a split gives both halves new ids
using TabletEpoch = Id<struct TabletEpochTag, uint64_t>;  ///< grows with every change of owner or range
using SegmentId = Id<struct SegmentIdTag, uint64_t>;      ///< a segment of one log; a later head has a higher id
using Sequence = Id<struct SequenceTag, uint64_t>;        ///< numbers a client's mutating calls, from 1
using KeyHash = uint64_t;                                 ///< XXH3-64 of table id and key; see base/hash.h
using Version = uint64_t;                                 ///< version of an object; 0 = does not exist; < 2^56

/// Largest version that fits an entry's header.
inline constexpr Version kVersionMax = (uint64_t{1} << 56) - 1;

/// A point in one server's log: the bytes of `segment` before `offset_bytes`. Ordered as the log is.
struct LogPosition {
  SegmentId segment;
  uint32_t offset_bytes = 0;
  uint32_t reserved = 0;

  constexpr auto operator<=>(const LogPosition&) const = default;
};

/// A closed range [first, last] of key hashes; closed, so that the whole space is expressible.
struct HashRange {
  KeyHash first = 0;
  KeyHash last = ~uint64_t{0};

  constexpr bool contains(KeyHash hash) const { return hash >= first && hash <= last; }
  constexpr bool operator==(const HashRange&) const = default;
};

}  // namespace ramcore
