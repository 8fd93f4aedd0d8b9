#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace ramcore::log {

/// The free memory of a log: runs of seglets, neighbours joined.
///
/// A run of at least a *block* (room for the largest entry) takes any entry. A shorter run is a *piece*, which only
/// segments of small entries can use. Blocks and pieces are counted apart, because plenty of pieces is no room for a
/// large entry.
///
/// Thread: one at a time (the pool's lock). Every call is O(log n) in the number of runs.
class FreeRuns {
 public:
  struct Run {
    uint64_t begin = 0;
    uint64_t bytes = 0;
  };

  /// @param block_bytes  a multiple of the seglet size
  explicit FreeRuns(uint64_t block_bytes) : block_bytes_(block_bytes) {}

  /// Gives memory back. It overlaps nothing that is free already (checked).
  void put(Run run);

  /// Memory from a run that is a block or longer: the shortest such run that has `bytes_max`, else the longest.
  /// The rest of that run is nothing, or a block or longer. Therefore less than `bytes_max` may be taken; and a run
  /// that is too short for two blocks may be taken whole, although it is longer than `bytes_max`.
  /// @param bytes_max  at least a block, else nothing is taken; a multiple of the seglet size
  std::optional<Run> takeBlocks(uint64_t bytes_max);

  /// Memory from the longest piece, at most `bytes_max` (> 0, a multiple of the seglet size).
  std::optional<Run> takePiece(uint64_t bytes_max);

  /// The bytes of the `count` longest pieces together. O(count).
  uint64_t longestPiecesBytes(size_t count) const;

  uint64_t blockRunBytes() const { return block_run_bytes_; }  ///< in runs of a block or longer
  uint64_t pieceBytes() const { return piece_bytes_; }         ///< in shorter ones

 private:
  void add(Run run);
  void remove(Run run);
  uint64_t& counterOf(uint64_t bytes) { return bytes >= block_bytes_ ? block_run_bytes_ : piece_bytes_; }

  const uint64_t block_bytes_;
  std::map<uint64_t, uint64_t> by_begin_;             ///< begin -> bytes
  std::set<std::pair<uint64_t, uint64_t>> by_bytes_;  ///< (bytes, begin)
  uint64_t block_run_bytes_ = 0;
  uint64_t piece_bytes_ = 0;
};

}  // namespace ramcore::log
