#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ramcore::rcnic {

enum class Operation : uint8_t { Send, Write, Read };
/// How the records of a transmission come together: the device gathers them from where they are; the processor copies
/// them into one transmit buffer first; they go inside the descriptor.
enum class Mode : uint8_t { ZeroCopy, CopyOut, Inline };
/// Where the records are: anywhere in the memory, or one behind the other.
enum class Layout : uint8_t { Scattered, Contiguous };

std::string_view nameOf(Operation operation);
std::string_view nameOf(Mode mode);
std::string_view nameOf(Layout layout);
std::optional<Operation> operationOf(std::string_view name);
std::optional<Mode> modeOf(std::string_view name);
std::optional<Layout> layoutOf(std::string_view name);

/// What was measured.
struct Subject {
  std::string transport;    ///< "verbs", "shm", ...
  std::string device;       ///< "mlx5_0"; empty where the transport has none
  bool is_software = true;  ///< no adapter: what it costs says nothing about adapters

  /// "verbs:mlx5_0", "tcp".
  std::string name() const { return device.empty() ? transport : transport + ":" + device; }
  auto operator<=>(const Subject&) const = default;
};

/// What all transmissions of a round are like.
struct Shape {
  Operation operation = Operation::Send;
  Mode mode = Mode::ZeroCopy;
  Layout layout = Layout::Scattered;
  uint32_t base_bytes = 0;  ///< one large piece in front of the records; 0: there is none
  uint32_t record_bytes = 0;
  uint32_t records = 0;        ///< of one transmission
  uint32_t signal_every = 16;  ///< one of this many transmissions asks for a completion
  uint32_t page_kb = 4;        ///< size of the pages that contain the records

  uint64_t bytes() const { return base_bytes + uint64_t{record_bytes} * records; }
  /// Entries of the gather list before any copying.
  uint32_t pieces() const { return records + (base_bytes != 0 ? 1 : 0); }
  auto operator<=>(const Shape&) const = default;
};

/// The result of one round of one shape.
struct Round {
  uint32_t number = 0;  ///< rounds of one experiment with the same number ran next to each other
  uint64_t messages = 0;
  uint64_t elapsed_ns = 0;
  uint64_t elapsed_cycles = 0;
  uint64_t work_cycles = 0;  ///< of the sending thread in posting, copying and taking completions; waiting is not work
  uint64_t copy_cycles = 0;  ///< part of these, in copying
  uint64_t steal_ms = 0;     ///< time that the host gave to others, over all processors
};

struct Sample {
  std::string experiment;
  Subject subject;
  Shape shape;
  Round round;

  double bytesPerSecond() const { return perSecond(static_cast<double>(shape.bytes())); }
  double messagesPerSecond() const { return perSecond(1); }
  double cyclesPerByte() const {
    const double bytes = static_cast<double>(shape.bytes()) * static_cast<double>(round.messages);
    return bytes > 0 ? static_cast<double>(round.work_cycles) / bytes : 0;
  }

 private:
  double perSecond(double each) const {
    if (round.elapsed_ns == 0) return 0;
    return each * static_cast<double>(round.messages) * 1e9 / static_cast<double>(round.elapsed_ns);
  }
};

}  // namespace ramcore::rcnic
