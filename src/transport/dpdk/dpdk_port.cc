#include "transport/dpdk/dpdk_port.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>

#include "base/mutation.h"
#include "transport/dpdk/eal.h"
#include "transport/dpdk/virtual_device.h"

namespace ramcore::transport::dpdk {
namespace {

constexpr uint16_t kQueueFrames = 1024;
constexpr uint32_t kCachedFrames = 256;
constexpr uint32_t kBurst = 32;
// The most pieces in one frame: what virtual devices and common adapters take.
constexpr uint32_t kPiecesMax = 32;
constexpr uint32_t kPiecesPerFrame = 4;
constexpr std::chrono::milliseconds kLinkWait{100};
constexpr std::chrono::milliseconds kLinkLook{1};
// Longer than any greeting takes.
constexpr uint64_t kGreetingSeconds = 5;
// Time for the other end of a memif to copy the last frames before the memory goes.
constexpr std::chrono::milliseconds kLastFramesWait{2};

rte_mbuf* mbufOf(datagram::OutFrame frame) { return static_cast<rte_mbuf*>(frame.handle); }

std::string poolName(std::string_view kind) {
  static std::atomic<uint32_t> count{0};  // pools have names in DPDK, each its own
  return "ramcore_" + std::string(kind) + std::to_string(count.fetch_add(1));
}

Failure failed(const std::string& device, std::string_view what, int error) {
  return Failure{Status::IoError, "DPDK port " + device + " " + std::string(what) + ": " + rte_strerror(error) + " (" +
                                      Environment::lastWarning() + ")"};
}

// Removes the socket file that a killed process has left: the driver would find the place taken. (To try by connecting
// would be fatal to a live process: a driver of 22.11 does not survive peers that connect and leave again.)
void removeStaleSocket(const DeviceName& name) {
  constexpr std::string_view kKey = "socket=";
  if (!name.name.starts_with("net_memif") || name.arguments.find("role=server") == std::string::npos ||
      name.arguments.find("socket-abstract=no") == std::string::npos) {
    return;
  }
  const size_t at = name.arguments.find(kKey);
  if (at == std::string::npos) return;
  const std::string path = name.arguments.substr(at + kKey.size(), name.arguments.find(',', at) - at - kKey.size());
  std::error_code error;
  if (!std::filesystem::is_socket(path, error)) return;
  std::ifstream bound("/proc/net/unix");
  if (!bound) return;
  for (std::string line; std::getline(bound, line);) {
    if (line.ends_with(" " + path)) return;
  }
  std::filesystem::remove(path, error);
}

}  // namespace

struct DpdkPort::Loan {
  rte_mbuf_ext_shared_info info{};
  datagram::FrameOwner* owner = nullptr;
  DpdkPort* port = nullptr;
  Loan* next = nullptr;
};

// ---- memory

Outcome<std::unique_ptr<FramePools>> FramePools::make(uint32_t frame_count, uint32_t frame_bytes) {
  std::unique_ptr<FramePools> pools(new FramePools);
  pools->frame_count_ = frame_count;
  // Rings hold a power of two less one.
  const auto room = static_cast<uint16_t>(RTE_PKTMBUF_HEADROOM + roomFor(frame_bytes));
  pools->frames_ =
      rte_pktmbuf_pool_create(poolName("f").c_str(), frame_count - 1, kCachedFrames, 0, room, SOCKET_ID_ANY);
  pools->pieces_ = rte_pktmbuf_pool_create(poolName("p").c_str(), frame_count * kPiecesPerFrame - 1, kCachedFrames, 0,
                                           0, SOCKET_ID_ANY);
  if (pools->frames_ == nullptr || pools->pieces_ == nullptr) {
    return Failure{Status::NoSpace, "DPDK has no memory for " + std::to_string(frame_count) + " frames of " +
                                        std::to_string(frame_bytes) + " bytes; raise --dpdk-memory-mb"};
  }
  return pools;
}

FramePools::~FramePools() {
  for (rte_mempool* pool : {frames_, pieces_}) {
    if (pool == nullptr) continue;
    RC_CHECK_MSG(rte_mempool_in_use_count(pool) == 0, "a frame outlives its transport");
    rte_mempool_free(pool);
  }
}

// ---- opening

DpdkPort::DpdkPort(DeviceName name, const FramePools& pools) : name_(std::move(name)), pools_(pools) {}

Outcome<std::unique_ptr<DpdkPort>> DpdkPort::open(const PortOptions& options, const FramePools& pools,
                                                  uint32_t borrowable_frames) {
  auto roomy = withRoomFor(DeviceName::split(options.device), options.mtu + kEthernetHeaderBytes);
  if (!roomy.ok()) return std::move(roomy).error();
  std::unique_ptr<DpdkPort> port(new DpdkPort(std::move(roomy).value(), pools));
  port->is_virtual_ = Environment::isVirtual(options.device);
  port->facts_.borrowable_frames = borrowable_frames;
  // With this argument the driver of memif sends other bytes than those that were attached.
  if (port->name_.arguments.find("zero-copy=yes") != std::string::npos) {
    return Failure{Status::BadConfig, "'" + options.device +
                                          "': zero-copy=yes sends wrong bytes of memory that is not DPDK's own; leave "
                                          "it out"};
  }
  removeStaleSocket(port->name_);
  const char* const bus = port->is_virtual_ ? "vdev" : "pci";
  const DeviceName& name = port->name_;
  if (rte_eal_hotplug_add(bus, name.name.c_str(), name.arguments.c_str()) != 0 ||
      rte_eth_dev_get_port_by_name(name.name.c_str(), &port->port_) != 0) {
    return Failure{Status::BadConfig, "DPDK gives no port '" + options.device + "' (" + Environment::lastWarning() +
                                          "); check its name and arguments; 'dpdk-devbind.py --status' lists adapters"};
  }
  port->is_open_ = true;
  auto configured = port->configure(options);
  if (!configured.ok()) return std::move(configured).error();
  return port;
}

Outcome<bool> DpdkPort::configure(const PortOptions& options) {
  rte_eth_dev_info info{};
  if (const int error = rte_eth_dev_info_get(port_, &info); error != 0)
    return failed(name_.name, "tells nothing", -error);
  const bool has_pieces = (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
  rte_eth_conf conf{};
  if (has_pieces) conf.txmode.offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  const std::string takes_no = "DPDK port " + name_.name + " does not take an MTU of " + std::to_string(options.mtu);
  const bool is_understated = understatesMtu(name_);
  conf.rxmode.mtu = is_understated ? std::min<uint32_t>(options.mtu, RTE_ETHER_MTU) : options.mtu;
  if (const int error = rte_eth_dev_configure(port_, 1, 1, &conf); error != 0) {
    constexpr uint32_t kAround = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
    const uint32_t most = std::min<uint32_t>(info.max_mtu, std::max(info.max_rx_pktlen, kAround) - kAround);
    return Failure{Status::BadConfig,
                   takes_no + ": " + rte_strerror(-error) + "; it takes at most " + std::to_string(most)};
  }
  // The kernel would drop longer frames, one by one.
  if (const auto below = mtuOfInterface(name_); below && *below < options.mtu) {
    return Failure{Status::BadConfig, takes_no + ": its interface has " + std::to_string(*below) +
                                          "; ip link set dev ... mtu " + std::to_string(options.mtu) +
                                          ", or a smaller --dpdk-mtu"};
  }
  if (auto set_up = setUpQueues(); !set_up.ok()) return std::move(set_up).error();
  if (auto taken = takeAddress(options); !taken.ok()) return std::move(taken).error();
  facts_.joins_two = name_.name.starts_with("net_memif");
  looks_for_other_ = looksForOther(name_);
  // A memif that looks for another process does not start before that process is there: runTimeouts() tries it again.
  if (const int error = start(); error != 0 && !facts_.joins_two) return failed(name_.name, "does not start", -error);
  if (is_started_ && looks_for_other_) awaitLink();
  // A packet socket sees only frames for its interface's address, unless all are wanted.
  if (name_.name.starts_with("net_af_packet")) static_cast<void>(rte_eth_promiscuous_enable(port_));
  uint16_t mtu = 0;
  if (is_understated || rte_eth_dev_get_mtu(port_, &mtu) != 0) mtu = static_cast<uint16_t>(options.mtu);
  facts_.frame_bytes_max = std::min<uint32_t>(mtu, options.mtu) + kEthernetHeaderBytes;
  facts_.pieces_max =
      has_pieces
          ? std::min<uint32_t>(kPiecesMax, info.tx_desc_lim.nb_seg_max != 0 ? info.tx_desc_lim.nb_seg_max : kPiecesMax)
          : 1;
  facts_.is_local = options.is_local || name_.name.starts_with("net_memif") || name_.name.starts_with("net_ring");
  return true;
}

Outcome<bool> DpdkPort::setUpQueues() {
  uint16_t receives = kQueueFrames;
  uint16_t sends = kQueueFrames;
  if (const int error = rte_eth_dev_adjust_nb_rx_tx_desc(port_, &receives, &sends); error != 0) {
    return failed(name_.name, "has no queues", -error);
  }
  if (const int error = rte_eth_rx_queue_setup(port_, 0, receives, SOCKET_ID_ANY, nullptr, pools_.frames());
      error != 0) {
    return failed(name_.name, "has no receive queue", -error);
  }
  if (const int error = rte_eth_tx_queue_setup(port_, 0, sends, SOCKET_ID_ANY, nullptr); error != 0) {
    return failed(name_.name, "has no send queue", -error);
  }
  return true;
}

Outcome<bool> DpdkPort::takeAddress(const PortOptions& options) {
  rte_ether_addr own{};
  if (const int error = rte_eth_macaddr_get(port_, &own); error != 0)
    return failed(name_.name, "has no address", -error);
  std::copy_n(own.addr_bytes, facts_.address.bytes.size(), facts_.address.bytes.begin());
  if (options.address != datagram::MacAddress{} && options.address != facts_.address) {
    std::ranges::copy(options.address.bytes, own.addr_bytes);
    // Adapters filter by the address; the other end of a memif has all that is sent.
    const int error = rte_eth_dev_default_mac_addr_set(port_, &own);
    if (error != 0 && !is_virtual_) return failed(name_.name, "does not take another address", -error);
    facts_.address = options.address;
  }
  return true;
}

DpdkPort::~DpdkPort() { stop(); }

Outcome<bool> DpdkPort::addRegion(const std::byte* base, size_t bytes) {
  rte_eth_dev_info info{};
  if (rte_eth_dev_info_get(port_, &info) != 0) return failed(name_.name, "tells nothing", EIO);
  auto* const at = const_cast<std::byte*>(base);
  // Virtual devices read memory as this process does. Adapters behind an IOMMU are told; the address is the same for
  // them.
  if (!is_virtual_ && rte_dev_dma_map(info.device, at, reinterpret_cast<uint64_t>(at), bytes) != 0) {
    return failed(name_.name, "cannot read " + std::to_string(bytes) + " bytes of memory from where they are",
                  rte_errno);
  }
  regions_.emplace_back(base, bytes);
  return true;
}

// ---- arrivals

uint32_t DpdkPort::receive(std::span<datagram::InFrame> into) {
  if (!is_started_) return 0;
  // Threads that DPDK does not know have no cache of frames.
  if (!std::exchange(knows_thread_, true) && rte_lcore_id() == LCORE_ID_ANY) static_cast<void>(rte_thread_register());
  std::array<rte_mbuf*, kBurst> mbufs;
  const auto wanted = static_cast<uint16_t>(std::min<size_t>(into.size(), mbufs.size()));
  const uint16_t arrived = rte_eth_rx_burst(port_, 0, mbufs.data(), wanted);
  uint32_t count = 0;
  for (uint16_t i = 0; i < arrived; ++i) {
    rte_mbuf* const mbuf = mbufs[i];
    // A frame in several pieces is longer than any of ours.
    if (mbuf->nb_segs != 1) {
      rte_pktmbuf_free(mbuf);
      continue;
    }
    into[count++] = {rte_pktmbuf_mtod(mbuf, std::byte*), mbuf->data_len, mbuf};
  }
  return count;
}

void DpdkPort::release(const datagram::InFrame& frame) noexcept {
  rte_pktmbuf_free(static_cast<rte_mbuf*>(frame.handle));
}

// ---- departures

datagram::OutFrame DpdkPort::make(uint32_t bytes, std::byte*& at) {
  rte_mbuf* const mbuf = rte_pktmbuf_alloc(pools_.frames());
  if (mbuf == nullptr) return {};
  at = reinterpret_cast<std::byte*>(rte_pktmbuf_append(mbuf, static_cast<uint16_t>(bytes)));
  RC_CHECK_MSG(at != nullptr, "a frame that is longer than frames are");
  return {mbuf};
}

std::byte* DpdkPort::extend(datagram::OutFrame frame, uint32_t bytes) {
  rte_mbuf* const mbuf = mbufOf(frame);
  rte_mbuf* const last = rte_pktmbuf_lastseg(mbuf);
  if (RTE_MBUF_DIRECT(last) && rte_pktmbuf_tailroom(last) >= bytes) {
    return reinterpret_cast<std::byte*>(rte_pktmbuf_append(mbuf, static_cast<uint16_t>(bytes)));
  }
  rte_mbuf* const more = rte_pktmbuf_alloc(pools_.frames());
  if (more == nullptr) return nullptr;
  auto* const at = reinterpret_cast<std::byte*>(rte_pktmbuf_append(more, static_cast<uint16_t>(bytes)));
  RC_CHECK(at != nullptr);
  RC_CHECK(rte_pktmbuf_chain(mbuf, more) == 0);
  return at;
}

DpdkPort::Loan* DpdkPort::takeLoan() {
  if (free_loans_ == nullptr) {
    Loan* const made = loans_.emplace_back(std::make_unique<Loan>()).get();
    made->port = this;
    made->info.fcb_opaque = made;
    made->info.free_cb = [](void*, void* opaque) {
      auto* const loan = static_cast<Loan*>(opaque);
      loan->next = std::exchange(loan->port->free_loans_, loan);
      if (!RC_MUTATION("release-at-post")) loan->owner->onPieceGone();
    };
    free_loans_ = made;
  }
  Loan* const loan = std::exchange(free_loans_, free_loans_->next);
  rte_mbuf_ext_refcnt_set(&loan->info, 1);
  return loan;
}

bool DpdkPort::attach(datagram::OutFrame frame, const std::byte* at, uint32_t bytes, RegionId region,
                      datagram::FrameOwner& owner) {
  RC_CHECK(canAttach(region) && bytes <= UINT16_MAX);
  const ByteSpan registered = regions_[region - 1];
  RC_CHECK_MSG(at >= registered.data() && at + bytes <= registered.data() + registered.size(),
               "a piece of a frame that lies outside of its region");
  rte_mbuf* const piece = rte_pktmbuf_alloc(pools_.pieces());
  if (piece == nullptr) return false;
  Loan* const loan = takeLoan();
  loan->owner = &owner;
  auto* const address = const_cast<std::byte*>(at);
  rte_pktmbuf_attach_extbuf(piece, address, reinterpret_cast<rte_iova_t>(address), static_cast<uint16_t>(bytes),
                            &loan->info);
  piece->data_len = static_cast<uint16_t>(bytes);
  piece->pkt_len = bytes;
  RC_CHECK(rte_pktmbuf_chain(mbufOf(frame), piece) == 0);
  if (RC_MUTATION("release-at-post")) owner.onPieceGone();
  return true;
}

void DpdkPort::drop(datagram::OutFrame frame) noexcept { rte_pktmbuf_free(mbufOf(frame)); }

int DpdkPort::start() {
  const int error = rte_eth_dev_start(port_);
  is_started_ = error == 0;
  started_at_ = rte_get_timer_cycles();
  return error;
}

// The driver of the other end does not survive a process that connects and leaves before it was greeted. So a process
// that opens a memif waits for the link, but not for long if nobody greets it.
void DpdkPort::awaitLink() {
  for (auto waited = std::chrono::milliseconds(0); waited < kLinkWait && !runTimeouts(); waited += kLinkLook) {
    std::this_thread::sleep_for(kLinkLook);
  }
}

// The driver of memif looks for the other end when the port is started, and never again. When the process there has
// gone, the port has to be started anew, until another one is there. The same holds if the link never comes up: the
// process that listens did not have that id yet, and refused. (Then the port is not stopped at once, because nobody
// tells us: the driver of the other end may be greeting us, and does not survive that we leave.)
bool DpdkPort::runTimeouts() {
  if (!is_started_ && (!is_open_ || start() != 0)) return false;
  rte_eth_link link{};
  const bool was_up = is_up_;
  is_up_ = rte_eth_link_get_nowait(port_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
  const bool was_left = was_up || rte_get_timer_cycles() - started_at_ > kGreetingSeconds * rte_get_timer_hz();
  if (looks_for_other_ && !is_up_ && was_left) {
    is_started_ = false;
    whereEventsRun([](const DpdkPort& port) { static_cast<void>(rte_eth_dev_stop(port.port_)); });
  }
  return is_up_;
}

uint32_t DpdkPort::send(std::span<const datagram::OutFrame> frames) {
  uint32_t sent = 0;
  while (sent < frames.size()) {
    std::array<rte_mbuf*, kBurst> mbufs;
    const auto count = static_cast<uint16_t>(std::min<size_t>(frames.size() - sent, mbufs.size()));
    for (uint16_t i = 0; i < count; ++i) mbufs[i] = mbufOf(frames[sent + i]);
    const uint16_t taken = is_started_ ? rte_eth_tx_burst(port_, 0, mbufs.data(), count) : uint16_t{0};
    sent += taken;
    if (taken == count) continue;
    // If nobody is at the other end, frames are lost, as on any wire; they do not wait for a process to come.
    if (is_up_) break;
    for (; sent < frames.size(); ++sent) rte_pktmbuf_free(mbufOf(frames[sent]));
  }
  return sent;
}

void DpdkPort::stop() {
  if (!is_open_) return;
  // The driver of the other end does not survive that the memory goes while it copies from there (docs/dpdk.md), and
  // does not tell when it has copied.
  if (facts_.joins_two && is_up_) std::this_thread::sleep_for(kLastFramesWait);
  is_open_ = false;
  is_started_ = false;
  whereEventsRun([](const DpdkPort& port) {
    static_cast<void>(rte_eth_dev_stop(port.port_));
    static_cast<void>(rte_eth_dev_close(port.port_));
    rte_eal_hotplug_remove(port.is_virtual_ ? "vdev" : "pci", port.name_.name.c_str());
  });
}

// Runs `work` on DPDK's thread for events, where alarms run. The driver of memif frees there what the other end leaves
// behind, and would do it twice if both ended at once.
void DpdkPort::whereEventsRun(void (*work)(const DpdkPort&)) const {
  struct Errand {
    const DpdkPort& port;
    void (*work)(const DpdkPort&);
    std::atomic<bool> is_done{false};
  } errand{*this, work};
  const auto run = [](void* argument) {
    auto& what = *static_cast<Errand*>(argument);
    what.work(what.port);
    what.is_done.store(true, std::memory_order_release);
    what.is_done.notify_one();
  };
  if (!facts_.joins_two || rte_eal_alarm_set(1, run, &errand) != 0) return run(&errand);
  errand.is_done.wait(false, std::memory_order_acquire);
}

}  // namespace ramcore::transport::dpdk
