#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/trace.h"
#include "runtime/clock.h"
#include "runtime/random.h"
#include "transport/gather/gather_calibration.h"
#include "transport/transport.h"

namespace ramcore::transport::tcp {
class AsioSleeper;
}

namespace ramcore::transport {

/// Which RDMA device to use, as flags and locators say it.
struct VerbsDeviceChoice {
  std::string device;  ///< "rxe0"; empty: chosen
  uint8_t port = 0;    ///< 0: the first active one
  int gid_index = -1;  ///< -1: chosen
  std::string host;    ///< numeric address that others reach this process at; may be empty

  /// "rxe0", "rxe0:1" or "rxe0:1:3": device, port, gid. Failure: BadConfig.
  static Outcome<VerbsDeviceChoice> parse(std::string_view text);
  /// The choice that a locator to listen at makes by its options `device`, `port` and `gid` and by its host. Failure:
  /// BadConfig: an unknown option, or a value that is no number.
  static Outcome<VerbsDeviceChoice> of(const Locator& locator);
};

/// The class of the network in which packets of RDMA travel, as flags say it.
struct RdmaClass {
  uint8_t traffic_class = 0;  ///< RoCE: the byte of IP that switches look at, 4 x DSCP
  uint8_t service_level = 0;  ///< 0..15. InfiniBand: the virtual lane; RoCE in a VLAN: the priority
};

/// Which ports of DPDK to use, as flags say it; none: the transport is not there.
struct DpdkChoice {
  std::vector<std::string> ports;  ///< device strings: "net_memif0,role=client,id=0,socket=/run/x", "0000:3b:00.0"
  std::string address;             ///< "02:00:00:00:00:01": others know all ports by it; empty: that of the first
  uint32_t mtu = 1500;             ///< bytes, 576..9000
  uint32_t memory_mb = 128;        ///< for the frames of all ports
  bool huge_pages = false;
  std::string arguments;  ///< of DPDK's own command line
  bool seal = true;       ///< packets carry a MAC; they do as well if only the other side wants it
  std::string faults;     ///< done to frames that arrive, for tests (datagram::FaultRates)
};

/// The transports that a thread is to have, and their options.
struct TransportChoices {
  /// IfThere: used if it is built in and a device is found.
  enum class Wanted : uint8_t { No, IfThere, Yes };

  bool tcp = true;
  bool shm = true;
  Wanted verbs = Wanted::IfThere;
  VerbsDeviceChoice verbs_device;
  RdmaClass rdma_class;
  DpdkChoice dpdk;
  /// What was measured on this machine, for all of them.
  GatherCalibration gather;
  /// How long at most bytes are borrowed by a message; 0: each transport's default.
  int64_t borrowed_ns_max = 0;
  /// Sessions of each transport; more are refused. 0: each transport's default.
  uint32_t sessions_max = 0;
};

/// All transports of one dispatch thread, with one endpoint each, and the sleeper that watches them.
///
/// Thread: the dispatch thread, or the one that sets it up before there are others.
class TransportSet {
 public:
  struct Context {
    runtime::Clock& clock;
    runtime::Entropy& entropy;
    Trace& trace;
    tcp::AsioSleeper* sleeper = nullptr;  ///< borrowed by several sets of a thread; nullptr: the set makes its own
  };

  /// Everything in `context` and the identity are borrowed and outlive the set.
  /// Failure: a transport that must be there is not: BadConfig, NoSpace, IoError, with cause and remedy.
  static Outcome<std::unique_ptr<TransportSet>> open(const TransportChoices& choices, const Context& context,
                                                     const Identity& identity);
  ~TransportSet();
  TransportSet(const TransportSet&) = delete;
  TransportSet& operator=(const TransportSet&) = delete;

  Sleeper& sleeper();
  /// Messages that the first one allocates may be sent by any of them.
  std::span<Endpoint* const> endpoints() const { return endpoints_; }
  /// The endpoint that `locator` is for, or nullptr.
  Endpoint* endpointFor(const Locator& locator) const;
  /// Schemes of the endpoints: "tcp, shm".
  std::string schemes() const;
  /// Why verbs is not used though there is a device, with cause and remedy; empty: it is, or there is none.
  const std::string& whyNoVerbs() const;
  /// Why there is no endpoint for "verbs" or "dpdk". For a person.
  std::string whyAbsent(std::string_view scheme) const;
  /// Makes memory sendable from where it is, on every transport that has a use for that. Returns one number for all of
  /// them; 0 if there is none. To be called before messages are sent from it. Failure: NoSpace, IoError of a transport
  /// that must be there; others copy then, with a warning.
  Outcome<RegionId> registerMemory(std::byte* base, size_t bytes, Access access);

 private:
  struct Parts;
  TransportSet(std::unique_ptr<Parts> parts);
  void add(Transport& transport, std::unique_ptr<Endpoint> endpoint);
  bool isMust(const Transport& transport) const;

  std::unique_ptr<Parts> parts_;
  std::vector<Transport*> transports_;
  std::vector<std::unique_ptr<Endpoint>> owned_;
  std::vector<Endpoint*> endpoints_;
};

}  // namespace ramcore::transport
