// Round trips over a memif between two processes: bursts of one frame as DPDK gives and takes them, beside an echo
// between two endpoints that moves the same payload; and what it costs to look at many ports. Client on core 1, server
// on core 0, both spin; memif in copying mode on both sides.
//
//   bench_dpdk [--rounds N] [--round-ms N] [--bytes N]
//
// Rounds are interleaved (raw, ours, raw, ours...); printed are medians of all rounds with quartiles and the median of
// the ratios.
#include <rte_config.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/support/echo.h"
#include "bench/support/flags.h"
#include "bench/support/report.h"
#include "runtime/real/system_clock.h"
#include "transport/dpdk/dpdk_transport.h"

namespace ramcore::transport::dpdk {
namespace {

constexpr int kServerCore = 0;
constexpr int kClientCore = 1;
constexpr uint32_t kMemoryMb = 64;
constexpr uint32_t kFrameCount = 4096;

struct Options {
  int rounds = 7;
  uint64_t round_ms = 500;
  int bytes = 100;
};
Options settings;
uint32_t payloadBytes() { return static_cast<uint32_t>(settings.bytes); }
runtime::SystemClock real_clock;
runtime::SystemEntropy entropy;

void pinTo(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  (void)sched_setaffinity(0, sizeof(cores), &cores);
}

/// Which server has the core now; the others sleep.
struct Turn {
  std::atomic<int> whose{-1};
};

std::string device(int number, const std::string& role, int id, const std::string& socket) {
  return "net_memif" + std::to_string(number) + ",role=" + role + ",id=" + std::to_string(id) +
         ",socket-abstract=no,socket=" + socket;
}

template <typename T>
T must(Outcome<T> outcome) {
  RC_CHECK_MSG(outcome.ok(), outcome.error().message.c_str());
  return std::move(outcome).value();
}

// Nothing signals when other processes, and the driver's own thread, are done. So the condition is polled, for 20 s at
// most.
void awaitSoon(const char* what, const std::function<bool()>& isDone) {
  const int64_t end_ns = real_clock.nowNs() + 20 * runtime::kNanosPerSecond;
  while (!isDone()) {
    RC_CHECK_MSG(real_clock.nowNs() < end_ns, what);
    ::usleep(1000);
  }
}

// A child on the server's core that serves while it is its turn.
pid_t startServer(Turn& turn, int number, const std::function<std::function<void()>()>& make) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  pinTo(kServerCore);
  const std::function<void()> serve = make();
  for (;;) {
    if (turn.whose.load(std::memory_order_acquire) == number) {
      for (int i = 0; i < 1000; ++i) serve();
    } else {
      ::usleep(500);  // another one's turn lasts for many of these; the core is that one's
    }
  }
}

double medianNs(const std::function<void()>& roundTrip) {
  return bench::medianNs(static_cast<int64_t>(settings.round_ms) * runtime::kNanosPerMilli, 8, roundTrip);
}

// ---- the peer: frames as they are

std::function<void()> rawEcho(const std::string& socket) {
  must(Environment::start({.ports = {device(0, "server", 0, socket)}, .memory_mb = kMemoryMb, .arguments = ""},
                          silentTrace()));
  auto pools = std::shared_ptr<FramePools>(must(FramePools::make(kFrameCount, 2048)));
  auto port = std::shared_ptr<DpdkPort>(
      must(DpdkPort::open({.device = device(0, "server", 0, socket), .address = {}}, *pools, 64)));
  return [pools, port] {
    std::array<rte_mbuf*, 32> mbufs;
    const uint16_t count = rte_eth_rx_burst(0, 0, mbufs.data(), mbufs.size());
    if (count == 0) return;
    const uint16_t sent = rte_eth_tx_burst(0, 0, mbufs.data(), count);
    for (uint16_t i = sent; i < count; ++i) rte_pktmbuf_free(mbufs[i]);
  };
}

// ---- ours

struct Side {
  Side(const std::vector<std::string>& devices, size_t own, uint8_t number, bool seal) {
    DpdkOptions options;
    options.environment = {.ports = {devices[own]}, .memory_mb = kMemoryMb, .arguments = ""};
    options.address = {{2, 0, 0, 0, 0, number}};
    options.frame_count = kFrameCount;
    options.protocol.wants_seal = seal;
    transport = must(
        DpdkTransport::open(options, {.clock = real_clock, .entropy = entropy, .trace = silentTrace(), .wake_by = {}}));
    endpoint = transport->makeEndpoint(identity);
    sink.endpoint = endpoint.get();
  }
  void step() {
    endpoint->poll(sink, 64);
    endpoint->flush();
  }
  Identity identity;
  std::unique_ptr<DpdkTransport> transport;
  std::unique_ptr<Endpoint> endpoint;
  bench::EchoSink sink;
};

std::function<void()> ourEcho(const std::string& socket, bool seal) {
  auto side = std::make_shared<Side>(std::vector<std::string>{device(0, "server", 0, socket)}, 0, 1, seal);
  must(side->endpoint->listen(Locator::parse("dpdk://any@1").value()));
  return [side] { side->step(); };
}

class Session {
 public:
  Session(Side& side, Turn& turn, int number) : side_(side) {
    turn.whose.store(number, std::memory_order_release);
    const Locator where = Locator::parse("dpdk://02:00:00:00:00:01@1").value();
    while (side_.sink.open == 0) {
      const int lost = side_.sink.lost;
      id_ = side_.endpoint->connect(where, 0, real_clock.nowNs() + runtime::kNanosPerSecond);
      while (side_.sink.open == 0 && side_.sink.lost == lost) side_.step();
    }
  }
  void roundTrip() {
    const uint64_t before = call_.done;
    TxMessage request = side_.endpoint->allocate(payloadBytes());
    std::memset(request.extendHead(payloadBytes()), 7, payloadBytes());
    RC_CHECK(side_.endpoint->call(id_, request, {}, call_) == Status::Ok);
    side_.endpoint->flush();
    while (call_.done == before) side_.endpoint->poll(side_.sink, 64);
  }

 private:
  Side& side_;
  SessionId id_;
  bench::EchoCall call_;
};

// ---- looking at many ports

double nsPerLook(const std::vector<std::unique_ptr<DpdkPort>>& ports, size_t count) {
  std::array<datagram::InFrame, 32> frames;
  constexpr int kRounds = 100'000;
  const int64_t begin = real_clock.nowNs();
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < count; ++i) RC_CHECK(ports[i]->receive(frames) == 0);
  }
  return static_cast<double>(real_clock.nowNs() - begin) / kRounds;
}

void measure(const std::filesystem::path& folder) {
  auto& turn = *new (::mmap(nullptr, sizeof(Turn), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Turn;
  const std::string raw = folder / "raw", sealed = folder / "sealed", plain = folder / "plain", many = folder / "many";
  const std::array<pid_t, 3> servers = {startServer(turn, 0, [&] { return rawEcho(raw); }),
                                        startServer(turn, 1, [&] { return ourEcho(sealed, true); }),
                                        startServer(turn, 2, [&] { return ourEcho(plain, false); })};
  for (const std::string& socket : {raw, sealed, plain}) {
    awaitSoon("a server does not open its memif", [&] { return std::filesystem::exists(socket); });
  }
  pinTo(kClientCore);
  const std::vector<std::string> devices = {device(0, "client", 0, raw), device(1, "client", 0, sealed),
                                            device(2, "client", 0, plain)};
  must(Environment::start({.ports = devices, .memory_mb = 4 * kMemoryMb, .arguments = ""}, silentTrace()));
  auto pools = must(FramePools::make(kFrameCount, 2048));
  auto raw_port = must(DpdkPort::open({.device = devices[0], .address = {}}, *pools, 64));
  awaitSoon("the memif of the raw server has no link", [&] { return raw_port->runTimeouts(); });
  Side sealed_side(devices, 1, 2, true);
  Side plain_side(devices, 2, 3, false);
  Session sealed_session(sealed_side, turn, 1);
  Session plain_session(plain_side, turn, 2);

  const auto rawTrip = [&] {
    std::byte* at = nullptr;
    const datagram::OutFrame frame = raw_port->make(wire::kPacketHeaderBytes + payloadBytes(), at);
    std::memset(at, 7, wire::kPacketHeaderBytes + payloadBytes());
    auto* mbuf = static_cast<rte_mbuf*>(frame.handle);
    RC_CHECK(rte_eth_tx_burst(0, 0, &mbuf, 1) == 1);
    while (rte_eth_rx_burst(0, 0, &mbuf, 1) == 0) {
    }
    rte_pktmbuf_free(mbuf);
  };
  bench::Report report("dpdk");
  std::vector<double> raw_us, sealed_us, plain_us;
  for (int round = 0; round < settings.rounds; ++round) {
    turn.whose.store(0, std::memory_order_release);
    raw_us.push_back(medianNs(rawTrip) / 1000);
    turn.whose.store(1, std::memory_order_release);
    sealed_us.push_back(medianNs([&] { sealed_session.roundTrip(); }) / 1000);
    turn.whose.store(2, std::memory_order_release);
    plain_us.push_back(medianNs([&] { plain_session.roundTrip(); }) / 1000);
  }
  turn.whose.store(-1, std::memory_order_release);
  std::printf("round trips of %u B over a memif, p50\n", payloadBytes());
  report.figure("raw burst of one", "us", raw_us);
  report.figure("call, with a MAC", "us", sealed_us);
  report.figure("call, with a checksum", "us", plain_us);
  report.isNoisy("raw", raw_us);
  using Goal = bench::Report::Goal;
  report.target("call with a MAC / raw", "x", bench::ratios(sealed_us, raw_us), Goal::AtMost, 2.0);
  report.figure("call with a checksum / raw", "x", bench::ratios(plain_us, raw_us));

  // Both ends here: a port looks for frames in memory that the other end writes.
  constexpr size_t kPortsMax = 12;  // DPDK has 32 in a process, these are two each
  std::vector<std::unique_ptr<DpdkPort>> ends, ports;
  for (size_t i = 0; i < kPortsMax; ++i) {
    const int number = static_cast<int>(10 + 2 * i);
    ends.push_back(must(
        DpdkPort::open({.device = device(number, "server", static_cast<int>(i), many), .address = {}}, *pools, 64)));
    ports.push_back(must(DpdkPort::open(
        {.device = device(number + 1, "client", static_cast<int>(i), (folder / "." / "many").string()), .address = {}},
        *pools, 64)));
  }
  for (const auto& port : ports) {
    awaitSoon("a memif has no link", [&] { return port->runTimeouts(); });
  }
  std::printf("a round that looks at so many memifs where nothing has come\n");
  for (const size_t count : {1u, 2u, 4u, 8u, 12u}) {
    std::vector<double> looks;
    for (int i = 0; i < settings.rounds; ++i) looks.push_back(nsPerLook(ports, count));
    report.figure(std::to_string(count) + " ports", "ns", looks);
  }
  report.finish(settings.rounds);
  for (const pid_t server : servers) {
    ::kill(server, SIGKILL);
    ::waitpid(server, nullptr, 0);
  }
}

}  // namespace
}  // namespace ramcore::transport::dpdk

int main(int argc, char** argv) {
  using namespace ramcore::transport::dpdk;
  ramcore::bench::Flags flags;
  flags.number("--rounds", settings.rounds);
  flags.number("--round-ms", settings.round_ms);
  flags.number("--bytes", settings.bytes);
  flags.parse(argc, argv);
  std::string folder = (std::filesystem::temp_directory_path() / "ramcore-bench-dpdk-XXXXXX").string();
  RC_CHECK(::mkdtemp(folder.data()) != nullptr);
  measure(folder);
  std::filesystem::remove_all(folder);
  std::fflush(stdout);
  // Ports of both ends in one process are left to its end: the driver of memif would close them one against the other.
  std::_Exit(0);
}
