#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/rcnic/analysis/dataset.h"
#include "tools/rcnic/analysis/experiments.h"

namespace ramcore::rcnic {

/// Figures as if somebody had measured them.
class DatasetBuilder {
 public:
  explicit DatasetBuilder(Subject subject = {.transport = "verbs", .device = "mlx4_0", .is_software = false})
      : subject_(std::move(subject)) {}

  static constexpr uint32_t kRounds = 7;
  static constexpr double kSecondNs = 1e9;

  /// So many GB/s (or, `perMessage`, transmissions a second), and cycles for each byte. `wobble`: the last round has so
  /// many times the throughput of the others.
  DatasetBuilder& add(const std::string& experiment, const Shape& shape, double gigabytes, double cycles_per_byte = 1,
                      double wobble = 1) {
    const double messages = gigabytes * 1e9 / static_cast<double>(shape.bytes());
    return addMessages(experiment, shape, messages, cycles_per_byte, wobble);
  }
  DatasetBuilder& addMessages(const std::string& experiment, const Shape& shape, double messages,
                              double cycles_per_byte = 1, double wobble = 1) {
    for (uint32_t number = 1; number <= kRounds; ++number) {
      Round round;
      round.number = number;
      round.messages = static_cast<uint64_t>(messages * (number == kRounds ? wobble : 1));
      round.elapsed_ns = static_cast<uint64_t>(kSecondNs);
      round.elapsed_cycles = 2'100'000'000;
      round.work_cycles = static_cast<uint64_t>(cycles_per_byte * static_cast<double>(round.messages) *
                                                static_cast<double>(shape.bytes()));
      samples_.push_back({experiment, subject_, shape, round});
    }
    return *this;
  }
  const std::vector<Sample>& samples() const { return samples_; }
  Dataset build() const { return Dataset(subject_, samples_); }

 private:
  const Subject subject_;
  std::vector<Sample> samples_;
};

inline Shape gather(Mode mode, uint32_t record_bytes, uint32_t records) {
  return Shape{.mode = mode, .record_bytes = record_bytes, .records = records};
}
inline Shape one(Operation operation, Mode mode, uint32_t bytes, uint32_t signal_every = kSignalEvery) {
  return Shape{.operation = operation, .mode = mode, .record_bytes = bytes, .records = 1, .signal_every = signal_every};
}
inline Shape pageAnd(uint32_t deltas, uint32_t delta_bytes = kSmallRecordBytes) {
  return Shape{.base_bytes = kBasePageBytes, .record_bytes = delta_bytes, .records = deltas};
}

}  // namespace ramcore::rcnic
