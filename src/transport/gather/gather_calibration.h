#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "transport/gather/gather_policy.h"

namespace ramcore::transport {

/// Thresholds of one transport, or of one device of it. A value that is empty changes nothing.
struct GatherSection {
  std::string transport;                          ///< "verbs", "dpdk", "shm" or "tcp"
  std::string device;                             ///< "mlx5_0"; empty: every device of the transport
  std::optional<uint32_t> copy_below_bytes = {};  ///< chunks, or values of an answer, shorter than this are copied
  std::optional<uint32_t> inline_bytes_max = {};
  std::optional<uint32_t> entries_max = {};

  bool operator==(const GatherSection&) const = default;
};

/// What `rcnic calibrate` has measured on this machine: from which size on it pays to let hardware fetch bytes from
/// where they are. Empty: nothing was measured, and every transport keeps its defaults.
///
/// As text: sections `[TRANSPORT]` and `[TRANSPORT:DEVICE]`, each with lines `key = number`; lines that begin with #
/// are comments. See docs/rcnic.md.
class GatherCalibration {
 public:
  static constexpr uint32_t kCopyBelowBytesMost = 16 * 1024;  ///< copies go into a head, which has room for more
  static constexpr uint32_t kInlineBytesMost = 4096;
  static constexpr uint32_t kEntriesMost = TxBuffer::kChunkCountMax + 1;
  static constexpr size_t kTextBytesMax = 64 * 1024;

  /// @param name  of the file, for messages
  /// Failure: BadConfig for anything that is no such text, in one line: "name:line: cause; remedy".
  static Outcome<GatherCalibration> parse(std::string_view text, const std::string& name);
  /// The calibration as text, from which parse() makes the same again.
  std::string text() const;

  const std::vector<GatherSection>& sections() const { return sections_; }
  /// Replaces the section of the same transport and device. Its values are in range (checked).
  void set(GatherSection section);
  /// The limits of a device: values of its own section, or else of its transport's section, or else of `defaults`.
  GatherLimits settle(std::string_view transport, std::string_view device, GatherLimits defaults) const;
  /// Whether there is a section for the transport or for the device.
  bool knows(std::string_view transport, std::string_view device) const;

 private:
  std::vector<GatherSection> sections_;
};

}  // namespace ramcore::transport
