#pragma once

#include <span>

#include "log/format/entry_writer.h"
#include "log/memory/segment.h"

namespace ramcore::log {

/// Identifies a log. Every segment header and every certificate contains it.
struct LogIdentity {
  ClusterId cluster;
  ServerId server;
};

/// Writes the entries that segments of a log begin with: the header, and for a head the digest and the safe version.
///
/// Thread: any, for each segment its one writer.
class OwnEntries {
 public:
  /// `memory` outlives this object.
  OwnEntries(LogIdentity identity, const LogMemory& memory) : identity_(identity), memory_(memory) {}

  const LogIdentity& identity() const { return identity_; }
  void writeHeader(Segment& segment) const;
  /// Appends and commits one entry without a key. The segment has room for it (checked).
  void write(Segment& segment, EntryType type, std::span<const ByteSpan> payload) const;
  /// Copies the entries that the original begins with. So a replica that is made of the copy names its segment, and has
  /// the digest and the safe version of a head like any other replica of it. Nothing is committed.
  void copy(const Segment& original, Segment& copy) const;

 private:
  const LogIdentity identity_;
  const LogMemory& memory_;
};

}  // namespace ramcore::log
