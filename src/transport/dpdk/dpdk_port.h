#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/datagram/frame_port.h"
#include "transport/dpdk/environment.h"

struct rte_mbuf;
struct rte_mbuf_ext_shared_info;
struct rte_mempool;

namespace ramcore::transport::dpdk {

/// Addresses and type, in front of what the MTU counts.
inline constexpr uint32_t kEthernetHeaderBytes = 14;

/// Memory for frames, of all ports of a transport.
class FramePools {
 public:
  /// @param frame_bytes  the longest frame. Failure: NoSpace.
  static Outcome<std::unique_ptr<FramePools>> make(uint32_t frame_count, uint32_t frame_bytes);
  FramePools(const FramePools&) = delete;
  FramePools& operator=(const FramePools&) = delete;
  /// All frames have been given back (checked).
  ~FramePools();

  rte_mempool* frames() const { return frames_; }
  /// Buffers without bytes of their own, for pieces that stand elsewhere.
  rte_mempool* pieces() const { return pieces_; }
  uint32_t frameCount() const { return frame_count_; }

 private:
  FramePools() = default;
  rte_mempool* frames_ = nullptr;
  rte_mempool* pieces_ = nullptr;
  uint32_t frame_count_ = 0;
};

struct PortOptions {
  std::string device;  ///< "net_memif0,role=server,id=0,socket=/run/x", "0000:3b:00.0"
  uint32_t mtu = 1500;
  /// The address by which others know us; all zeros: the address that the port has.
  datagram::MacAddress address;
  /// The network of the port is known to end at this machine, as that of a memif does.
  bool is_local = false;
};

/// An Ethernet port of DPDK, real or virtual: one receive and one send queue.
class DpdkPort final : public datagram::FramePort {
 public:
  /// DPDK has been started; `pools` outlive the port. Failure: BadConfig: no such device, or it does not do what is
  /// asked; IoError.
  static Outcome<std::unique_ptr<DpdkPort>> open(const PortOptions& options, const FramePools& pools,
                                                 uint32_t borrowable_frames);
  ~DpdkPort() override;

  /// Lets the device read memory that DPDK knows. To be called before anything of it is attached, in the order of
  /// region ids. Failure: IoError.
  Outcome<bool> addRegion(const std::byte* base, size_t bytes);
  /// Uses up the id of memory that cannot be registered: nothing can be attached from it.
  void addUnregistered() { regions_.emplace_back(); }

  const datagram::PortFacts& facts() const override { return facts_; }
  std::string describe() const override { return name_.name; }
  uint32_t receive(std::span<datagram::InFrame> into) override;
  void release(const datagram::InFrame& frame) noexcept override;
  datagram::OutFrame make(uint32_t bytes, std::byte*& at) override;
  std::byte* extend(datagram::OutFrame frame, uint32_t bytes) override;
  bool attach(datagram::OutFrame frame, const std::byte* at, uint32_t bytes, RegionId region,
              datagram::FrameOwner& owner) override;
  void drop(datagram::OutFrame frame) noexcept override;
  uint32_t send(std::span<const datagram::OutFrame> frames) override;
  void stop() override;
  bool runTimeouts() override;
  bool canAttach(RegionId region) const override {
    return region != 0 && region <= regions_.size() && !regions_[region - 1u].empty() && facts_.pieces_max > 1;
  }

 private:
  /// The data of an attached piece, kept until the driver lets go of the piece.
  struct Loan;

  DpdkPort(DeviceName name, const FramePools& pools);
  Outcome<bool> configure(const PortOptions& options);
  Outcome<bool> setUpQueues();
  /// Finds the port's address out, or gives it the one that is wanted.
  Outcome<bool> takeAddress(const PortOptions& options);
  Loan* takeLoan();
  int start();
  void awaitLink();
  void whereEventsRun(void (*work)(const DpdkPort&)) const;

  const DeviceName name_;
  const FramePools& pools_;
  datagram::PortFacts facts_;
  uint16_t port_ = 0;
  std::vector<ByteSpan> regions_;  // by number, from 1 on
  bool is_open_ = false;
  bool is_started_ = false;
  bool is_virtual_ = false;
  bool looks_for_other_ = false;  // a memif that connects to the other process
  bool knows_thread_ = false;
  bool is_up_ = false;       // as of the last look
  uint64_t started_at_ = 0;  // in cycles of DPDK's timer
  std::vector<std::unique_ptr<Loan>> loans_;
  Loan* free_loans_ = nullptr;
};

}  // namespace ramcore::transport::dpdk
