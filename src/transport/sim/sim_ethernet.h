#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "runtime/sim/sim_scheduler.h"
#include "transport/datagram/faulty_port.h"

namespace ramcore::transport {

class SimEthernetPort;

/// What the switch did to frames.
struct SimFrameCounts {
  uint64_t sent = 0;
  uint64_t lost = 0;  ///< by chance, not those that found a full queue
  uint64_t blocked = 0;
  uint64_t delayed = 0;  ///< so that others may overtake them
  uint64_t duplicated = 0;
  uint64_t corrupted = 0;
};

/// A switch in simulated time: frames arrive some time after they were sent, at the port they are addressed to or at
/// all others, and are lost where a queue is full. Further faults are drawn from the scheduler's seed;
/// datagram::FaultyPort makes faults at one port.
class SimEthernet {
 public:
  struct Options {
    int64_t delay_ns_min = 1'000;
    int64_t delay_ns_max = 3'000;
    /// How long after it was sent a port may still read a frame's bytes from where they are.
    int64_t read_ns_max = 2'000;
    size_t queue_frames = 1024;  ///< that wait at a port; more are lost
    size_t ring_frames = 256;    ///< that a port is sending; it takes no more
    uint32_t frame_bytes_max = 1514;
    bool attaches_all = false;  ///< bytes of any memory are sent from where they are, not those of regions alone
  };
  /// Whether no frame gets from one address to the other just now.
  using Blocks = std::function<bool(const datagram::MacAddress& from, const datagram::MacAddress& to)>;
  explicit SimEthernet(runtime::SimScheduler& scheduler) : SimEthernet(scheduler, Options()) {}
  SimEthernet(runtime::SimScheduler& scheduler, const Options& options);

  ~SimEthernet();

  /// For frames that are sent from now on; the seed in it is not used. Half of the copies come up to `copy_ns_max`
  /// later.
  void setRates(const datagram::FaultRates& rates, int64_t copy_ns_max = 0) {
    rates_ = rates;
    copy_ns_max_ = copy_ns_max;
  }
  void setBlocks(Blocks blocks) { blocks_ = std::move(blocks); }
  /// nullptr: nobody has that address.
  SimEthernetPort* portOf(const datagram::MacAddress& address);
  const SimFrameCounts& counts() const { return counts_; }

 private:
  friend class SimEthernetPort;
  struct Frame;

  void carry(const datagram::MacAddress& from, std::vector<std::byte> bytes);
  void launch(const datagram::MacAddress& from, const datagram::MacAddress& to, std::vector<std::byte> bytes,
              int64_t extra_ns);
  int64_t drawExtraNs();

  runtime::SimScheduler& scheduler_;
  const Options options_;
  runtime::Random random_;
  datagram::FaultRates rates_;
  int64_t copy_ns_max_ = 0;
  Blocks blocks_;
  SimFrameCounts counts_;
  std::map<datagram::MacAddress, SimEthernetPort*> ports_;
};

/// A process's port at the switch. Its "hardware" reads attached bytes some time after send() has returned.
class SimEthernetPort final : public datagram::FramePort {
 public:
  /// @param wake  called when a frame arrives; may be empty.
  SimEthernetPort(SimEthernet& network, const datagram::MacAddress& address, std::function<void()> wake);
  ~SimEthernetPort() override;

  const datagram::PortFacts& facts() const override { return facts_; }
  std::string describe() const override { return "simulated " + facts_.address.toString(); }
  uint32_t receive(std::span<datagram::InFrame> into) override;
  void release(const datagram::InFrame& frame) noexcept override;
  datagram::OutFrame make(uint32_t bytes, std::byte*& at) override;
  std::byte* extend(datagram::OutFrame frame, uint32_t bytes) override;
  bool attach(datagram::OutFrame frame, const std::byte* at, uint32_t bytes, RegionId region,
              datagram::FrameOwner& owner) override;
  void drop(datagram::OutFrame frame) noexcept override;
  uint32_t send(std::span<const datagram::OutFrame> frames) override;
  void stop() override;
  bool canAttach(RegionId region) const override { return region != 0 || network_.options_.attaches_all; }

  /// From now on frames wait, and are lost where too many do, until `takes` is true.
  void setTaking(bool takes) { takes_ = takes; }
  /// From now on no frame arrives here, and no frame that is sent here, or has not left yet, reaches anybody: the
  /// process is dead, and its address belongs to another one.
  void silence();

 private:
  friend class SimEthernet;
  struct Piece {
    std::unique_ptr<std::byte[]> own;
    const std::byte* at = nullptr;
    uint32_t bytes = 0;
    datagram::FrameOwner* owner = nullptr;
  };
  struct Out {
    std::vector<Piece> pieces;
  };

  void leave();
  void arrive(const std::vector<std::byte>& bytes);
  void transmit();

  SimEthernet& network_;
  datagram::PortFacts facts_;
  std::function<void()> wake_;
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
  std::deque<std::vector<std::byte>> arrived_;
  std::deque<std::unique_ptr<Out>> sending_;
  bool is_stopped_ = false;
  bool is_silent_ = false;
  std::vector<datagram::FrameOwner*> gone_;  // to be told in the next round
  size_t made_ = 0;
  int64_t last_read_ns_ = 0;
  bool takes_ = true;
};

}  // namespace ramcore::transport
