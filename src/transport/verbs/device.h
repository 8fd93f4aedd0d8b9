#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/verbs/ibverbs.h"

namespace ramcore::transport::verbs {

/// Memory for adapters begins at a page, and is reserved in whole ones.
inline constexpr size_t kPageBytes = 4096;

/// Which device, port and address to use; what is left open is chosen.
struct DeviceChoice {
  std::string device;  ///< as ibv_devices prints it; empty: the one that has `host`, or else the first active one
  uint8_t port = 0;    ///< from 1; 0: the first active one
  int gid_index = -1;  ///< -1: the best one (gid_choice.h)
  std::string host;    ///< numeric address that others reach this process at; may be empty
  /// For the packets of queue pairs: the traffic class in the header of IP (RoCE), and the service level, 0..15.
  uint8_t traffic_class = 0;
  uint8_t service_level = 0;
};

/// An opened device with one active port, and the protection domain of everything that is used with it.
///
/// Thread: one; registerMemory from any.
class Device {
 public:
  struct Limits {
    uint32_t gather_entries = 1;    ///< of a send
    uint32_t queue_pair_sends = 0;  ///< work requests that a send queue holds, at most
    uint32_t receive_buffers = 0;   ///< of a shared receive queue
    uint32_t completions = 0;       ///< of a completion queue
    uint64_t message_bytes = 0;     ///< of one work request
    uint8_t reads_at_a_time = 1;    ///< at the side that reads, and at the side that is read from
    bool has_windows = false;       ///< memory windows of type 2B, which belong to one queue pair each
    bool is_software = false;       ///< no adapter is behind it (rxe, siw)
  };

  /// Failure: BadConfig: no such device or port, or none is active; IoError. With cause and remedy.
  static Outcome<Device> open(const DeviceChoice& choice);
  /// Names of the devices there are; empty if there is none, or no driver.
  static std::vector<std::string> names();

  ibv_context* context() const { return context_.get(); }
  ibv_pd* domain() const { return domain_.get(); }
  const std::string& name() const { return name_; }
  const Limits& limits() const { return limits_; }
  uint8_t port() const { return port_; }
  uint8_t gidIndex() const { return gid_index_; }
  const ibv_gid& gid() const { return gid_; }
  uint16_t lid() const { return port_attributes_.lid; }
  ibv_mtu mtu() const { return port_attributes_.active_mtu; }
  uint8_t trafficClass() const { return traffic_class_; }
  uint8_t serviceLevel() const { return service_level_; }
  /// RoCE: peers are found by their GIDs, not by LIDs.
  bool isEthernet() const { return port_attributes_.link_layer == IBV_LINK_LAYER_ETHERNET; }
  /// "rxe0 port 1 gid 1", and its classes where they are not 0.
  std::string describe() const;

  /// @param access  flags IBV_ACCESS_*. Failure: NoSpace: the limit of locked memory; IoError.
  Outcome<MemoryRegion> registerMemory(void* base, size_t bytes, int access) const;
  /// A window of type 2, bound to nothing yet. nullptr: the device has no more.
  MemoryWindow makeWindow() const { return MemoryWindow(ibv_alloc_mw(domain_.get(), IBV_MW_TYPE_2)); }

 private:
  Device() = default;
  Outcome<bool> choosePort(const DeviceChoice& choice);
  Outcome<bool> chooseGid(const DeviceChoice& choice);

  std::string name_;
  Context context_;
  ProtectionDomain domain_;
  Limits limits_;
  ibv_port_attr port_attributes_{};
  uint8_t port_ = 0;
  uint8_t gid_index_ = 0;
  uint8_t traffic_class_ = 0;
  uint8_t service_level_ = 0;
  ibv_gid gid_{};
};

}  // namespace ramcore::transport::verbs
