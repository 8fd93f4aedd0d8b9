#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/rcnic/analysis/sample.h"

namespace ramcore::rcnic {

/// One record, or another entry of a gather list. A READ writes to it.
struct Piece {
  std::byte* address = nullptr;
  uint32_t bytes = 0;
};

struct Transmission {
  Operation operation = Operation::Send;
  Mode mode = Mode::ZeroCopy;
  bool is_signalled = true;  ///< its completion is asked for, and stands for all before it
  std::span<const Piece> pieces;
};

/// What a probe can do; shapes beyond it are not measured.
struct ProbeTraits {
  Subject subject;
  std::vector<Operation> operations;
  uint32_t pieces_max = 1;
  uint32_t inline_bytes_max = 0;
  uint32_t message_bytes_max = 0;
  uint32_t outstanding_max = 0;
  bool has_selective_signals = false;  ///< only transmissions that ask for a completion get one
};

/// Sends to a receiver on the same machine, over one transport. What is measured is the sending thread: it posts, looks
/// for completions, and never sleeps.
///
/// Thread: one, from open() to the destructor. The receiver has a thread or a process of its own.
class Probe {
 public:
  virtual ~Probe() = default;
  virtual const ProbeTraits& traits() const = 0;
  /// From now on what is sent is in this memory. Only while nothing is outstanding. The memory is borrowed until the
  /// next call, or until the end of the probe. Failure: NoSpace: the limit of locked memory; IoError.
  virtual Outcome<bool> useMemory(std::span<std::byte> memory) = 0;
  /// Hands a transmission to the transport. False: no room; reap() and try again.
  /// Failure: the connection is broken.
  virtual Outcome<bool> post(const Transmission& transmission) = 0;
  /// Takes completions; returns how many transmissions are done that were not done before.
  /// Failure: the connection is broken.
  virtual Outcome<uint32_t> reap() = 0;
  /// Transmissions that are not done.
  virtual uint32_t outstanding() const = 0;
  /// Cycles spent in copying records together since the probe was opened.
  virtual uint64_t copyCycles() const = 0;
};

}  // namespace ramcore::rcnic
