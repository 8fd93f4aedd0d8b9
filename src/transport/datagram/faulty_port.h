#pragma once

#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/clock.h"
#include "runtime/random.h"
#include "transport/datagram/frame_port.h"

namespace ramcore::transport::datagram {

/// Probabilities of the faults of each frame that arrives.
struct FaultRates {
  double loss = 0;
  double duplicate = 0;
  double reorder = 0;  ///< the frame is held back, for delay_ns_max at most, while others pass
  double corrupt = 0;  ///< one bit is flipped
  int64_t delay_ns_max = 200 * runtime::kNanosPerMicro;
  uint64_t seed = 1;

  bool isNothing() const { return loss == 0 && duplicate == 0 && reorder == 0 && corrupt == 0; }
  /// "loss=5,duplicate=1,reorder=2,corrupt=0.1,delay_us=200,seed=7": per cent, except for the last two. Failure:
  /// BadConfig.
  static Outcome<FaultRates> parse(std::string_view text);
};

/// Does to the frames of another port what bad networks do, from a seed. For tests of everything above it, on any port.
class FaultyPort final : public FramePort {
 public:
  /// All borrowed.
  FaultyPort(FramePort& inner, const FaultRates& rates, runtime::Clock& clock);
  ~FaultyPort() override;

  void setRates(const FaultRates& rates) { rates_ = rates; }

  const PortFacts& facts() const override { return facts_; }
  std::string describe() const override { return inner_.describe() + " with faults"; }
  uint32_t receive(std::span<InFrame> into) override;
  void release(const InFrame& frame) noexcept override;
  OutFrame make(uint32_t bytes, std::byte*& at) override { return inner_.make(bytes, at); }
  std::byte* extend(OutFrame frame, uint32_t bytes) override { return inner_.extend(frame, bytes); }
  bool attach(OutFrame frame, const std::byte* at, uint32_t bytes, RegionId region, FrameOwner& owner) override {
    return inner_.attach(frame, at, bytes, region, owner);
  }
  void drop(OutFrame frame) noexcept override { inner_.drop(frame); }
  uint32_t send(std::span<const OutFrame> frames) override { return inner_.send(frames); }
  void stop() override { inner_.stop(); }
  bool runTimeouts() override { return inner_.runTimeouts(); }
  bool canAttach(RegionId region) const override { return inner_.canAttach(region); }

 private:
  /// A frame of the inner port, or a copy of one.
  struct Held {
    InFrame frame;
    std::vector<std::byte> copy;
    int64_t due_ns = 0;
  };

  void takeIn(const InFrame& frame, int64_t now_ns);
  void keep(std::unique_ptr<Held> held, int64_t now_ns);

  FramePort& inner_;
  FaultRates rates_;
  runtime::Clock& clock_;
  PortFacts facts_;
  runtime::Random random_;
  std::deque<std::unique_ptr<Held>> ready_;
  std::vector<std::unique_ptr<Held>> delayed_;
};

}  // namespace ramcore::transport::datagram
