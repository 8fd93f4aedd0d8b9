#include <cstdlib>
#include <filesystem>
#include <set>

#include "contract/transport_suite.h"
#include "dpdk/memif_world.h"
#include "runtime/real/system_clock.h"
#include "transport/dpdk/dpdk_transport.h"
#include "transport/os/epoll_sleeper.h"

namespace ramcore::transport::contract {
namespace {

/// The port of a node: the two ends of a memif, or an interface at the bridge that tests/dpdk/run made.
/// Bad ones lose, copy, mix and change frames.
enum class Medium : uint8_t { Memif, Packet, BadPacket };
constexpr datagram::FaultRates kBadRates{.loss = 0.05, .duplicate = 0.05, .reorder = 0.05, .corrupt = 0.01};

class DpdkNode final : public Node {
 public:
  DpdkNode(runtime::Clock& clock, runtime::Entropy& entropy, const std::string& device, int number,
           const datagram::FaultRates& faults, const NodeOptions& options, const Identity& identity,
           std::set<int>& taken)
      : sleeper_(clock), number_(number), taken_(taken) {
    taken_.insert(number_);
    dpdk::DpdkOptions dpdk;
    dpdk.environment.ports = {device};
    dpdk.address = {{2, 0, 0, 0, 0, static_cast<uint8_t>(number)}};
    dpdk.is_local = true;
    dpdk.faults = faults;
    dpdk.faults.seed = static_cast<uint64_t>(number);
    dpdk.protocol.slots_per_session = options.slots_per_session;
    dpdk.protocol.sessions_max = options.sessions_max;
    dpdk.protocol.idle_probe_ns = runtime::kNanosPerSecond / 4;
    auto transport = dpdk::DpdkTransport::open(
        dpdk, {.clock = clock, .entropy = entropy, .trace = stderrTrace("contract"), .wake_by = [this](int64_t ns) {
                 sleeper_.wakeBy(ns);
               }});
    RC_CHECK_MSG(transport.ok(), transport.error().message.c_str());
    transport_ = std::move(transport).value();
    // A registration that fails uses a number up: other transports of the process may have taken that memory.
    RC_CHECK(!transport_->registerMemory(chunkArena().base + 1, ChunkArena::kBytes / 2, Access::Local).ok());
    const auto region = transport_->registerMemory(chunkArena().base, ChunkArena::kBytes, Access::Local);
    RC_CHECK_MSG(region.ok(), region.error().message.c_str());
    RC_CHECK(*region == 2);
    chunkArena().region = *region;
    endpoint_ = transport_->makeEndpoint(identity);
  }
  ~DpdkNode() override { taken_.erase(number_); }
  Endpoint& endpoint() override { return *endpoint_; }
  Sleeper* sleeper() override { return &sleeper_; }

 private:
  EpollSleeper sleeper_;
  const int number_;
  std::set<int>& taken_;
  std::unique_ptr<dpdk::DpdkTransport> transport_;
  std::unique_ptr<Endpoint> endpoint_;
};

class DpdkWorld final : public World {
 public:
  /// @param shared_folder  where the sockets of memifs are; empty: nobody else's
  /// @param first_number   of its processes
  /// @param memif_id       which of the memifs at a socket
  explicit DpdkWorld(Medium medium, const std::filesystem::path& shared_folder = {}, int first_number = 1,
                     int memif_id = 0)
      : medium_(medium),
        first_number_(first_number),
        memif_id_(memif_id),
        folder_(shared_folder),
        is_folder_own_(shared_folder.empty()) {
    ChunkArena& arena = chunkArena();
    if (arena.base == nullptr) arena.base = static_cast<std::byte*>(std::aligned_alloc(2u << 20, ChunkArena::kBytes));
    arena.used_bytes = 0;
    if (!is_folder_own_) return;
    std::string pattern = (std::filesystem::temp_directory_path() / "ramcore-memif-XXXXXX").string();
    RC_CHECK(::mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
  }
  ~DpdkWorld() override {
    chunkArena().region = 0;
    if (is_folder_own_) std::filesystem::remove_all(folder_);
  }
  std::unique_ptr<Node> makeNode(const NodeOptions& options, const Identity& identity) override {
    // A process that is started anew has the address of the one before it.
    int number = first_number_;
    while (taken_.contains(number)) ++number;
    return std::make_unique<DpdkNode>(clock_, entropy_, deviceOf(number), number,
                                      medium_ == Medium::BadPacket ? kBadRates : datagram::FaultRates{}, options,
                                      identity, taken_);
  }
  Locator placeToListen(Node&, int) override { return Locator::parse("dpdk://any@0").value(); }
  Locator emptyPlace() override { return Locator::parse("dpdk://02:00:00:00:00:ee@1").value(); }
  int64_t nowNs() override { return clock_.nowNs(); }

 private:
  std::string deviceOf(int number) const {
    const std::string digit = std::to_string(number);
    if (medium_ != Medium::Memif) return "net_af_packet" + digit + ",iface=rc" + digit + ",qdisc_bypass=1";
    // The driver keeps one listener for a path and process, and would take both ends for one: they write it
    // differently.
    const std::string role = number == 1 ? "server" : "client";
    const std::string socket = (number == 1 ? folder_ / "socket" : folder_ / "." / "socket").string();
    const std::string id = std::to_string(memif_id_);
    return "net_memif" + std::to_string(10 * memif_id_ + number) + ",role=" + role + ",id=" + id +
           ",socket-abstract=no,socket=" + socket;
  }

  const Medium medium_;
  const int first_number_;
  const int memif_id_;
  runtime::SystemClock clock_;
  runtime::SystemEntropy entropy_;
  std::filesystem::path folder_;
  const bool is_folder_own_;
  std::set<int> taken_;
};

template <Medium kMedium>
std::unique_ptr<World> makeDpdkWorld() {
  return std::make_unique<DpdkWorld>(kMedium);
}

const Registration kMemif({"dpdk_memif", &makeDpdkWorld<Medium::Memif>, {.has_sleeper = true}});
const Registration kPacket({"dpdk_af_packet", &makeDpdkWorld<Medium::Packet>, {.has_sleeper = true}});
const Registration kBadPacket({"dpdk_af_packet_bad", &makeDpdkWorld<Medium::BadPacket>, {.has_sleeper = true}});

}  // namespace

std::unique_ptr<World> makeMemifEnd(const std::filesystem::path& folder, bool listens, int id) {
  return std::make_unique<DpdkWorld>(Medium::Memif, folder, listens ? 1 : 2, id);
}

}  // namespace ramcore::transport::contract
