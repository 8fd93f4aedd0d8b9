// Two processes of one machine over shared memory: the endpoint beside a bare loop over the same bytes, in interleaved
// rounds. Client on core 1, server on core 0.
//
//   bench_transport_shm [--rounds N] [--round-ms MS]
#include <immintrin.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/support/echo.h"
#include "bench/support/flags.h"
#include "runtime/real/system_clock.h"
#include "transport/shm/ring.h"
#include "transport/shm/shared_memory.h"
#include "transport/shm/shm_transport.h"

namespace ramcore::transport::shm {
namespace {

constexpr uint32_t kPayloadBytes = 100;
constexpr int kServerCore = 0;
constexpr int kClientCore = 1;

void pinTo(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  (void)sched_setaffinity(0, sizeof(cores), &cores);
}

// A child that runs `body` on the server's core until it is killed.
pid_t startServer(void (*body)(void*), void* argument) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  pinTo(kServerCore);
  body(argument);
  ::_exit(0);
}

void stopServer(pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

struct Latency {
  double p50_ns = 0;
  double p99_ns = 0;
  double per_second = 0;
};

Latency summarize(std::vector<uint32_t>& samples_ns, int64_t elapsed_ns, uint64_t operations) {
  Latency latency;
  if (!samples_ns.empty()) {
    const auto at = [&](double share) {
      const auto nth = samples_ns.begin() + static_cast<ptrdiff_t>(share * static_cast<double>(samples_ns.size() - 1));
      std::nth_element(samples_ns.begin(), nth, samples_ns.end());
      return static_cast<double>(*nth);
    };
    latency.p50_ns = at(0.5);
    latency.p99_ns = at(0.99);
  }
  latency.per_second = static_cast<double>(operations) * 1e9 / static_cast<double>(elapsed_ns);
  return latency;
}

/// Runs `operation` for a round; each of the timed batches of 8 gives one sample, so that reading the clock is not what
/// is measured.
template <typename Operation>
Latency measure(int64_t round_ns, Operation operation) {
  constexpr int kBatch = 8;
  runtime::SystemClock clock;
  std::vector<uint32_t> samples;
  samples.reserve(1 << 20);
  const int64_t start = clock.nowNs();
  int64_t last = start;
  uint64_t operations = 0;
  while (last - start < round_ns) {
    for (int i = 0; i < kBatch; ++i) operation();
    operations += kBatch;
    const int64_t now = clock.nowNs();
    samples.push_back(static_cast<uint32_t>((now - last) / kBatch));
    last = now;
  }
  return summarize(samples, last - start, operations);
}

// ---- the peer: a word and a payload each way, nothing else

struct alignas(128) RawDirection {
  std::atomic<uint64_t> sequence;
  std::byte pad[56];
  std::byte payload[kPayloadBytes];
};
struct RawShared {
  RawDirection to_server;
  RawDirection to_client;
};

template <bool WithPayload>
void rawServer(void* argument) {
  auto& shared = *static_cast<RawShared*>(argument);
  std::byte buffer[kPayloadBytes] = {};
  for (uint64_t next = 1;; ++next) {
    while (shared.to_server.sequence.load(std::memory_order_acquire) != next) {
    }
    if (WithPayload) {
      std::memcpy(buffer, shared.to_server.payload, kPayloadBytes);
      std::memcpy(shared.to_client.payload, buffer, kPayloadBytes);
    }
    shared.to_client.sequence.store(next, std::memory_order_release);
  }
}

template <bool WithPayload>
Latency rawRound(int64_t round_ns) {
  void* memory = ::mmap(nullptr, sizeof(RawShared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& shared = *new (memory) RawShared{};
  const pid_t server = startServer(&rawServer<WithPayload>, &shared);
  std::byte buffer[kPayloadBytes] = {};
  uint64_t next = 0;
  const Latency latency = measure(round_ns, [&] {
    ++next;
    if (WithPayload) std::memcpy(shared.to_server.payload, buffer, kPayloadBytes);
    shared.to_server.sequence.store(next, std::memory_order_release);
    while (shared.to_client.sequence.load(std::memory_order_acquire) != next) {
    }
    if (WithPayload) std::memcpy(buffer, shared.to_client.payload, kPayloadBytes);
  });
  stopServer(server);
  ::munmap(memory, sizeof(RawShared));
  return latency;
}

// ---- our rings alone

struct RingPair {
  RingPair(SharedMemory& memory, bool is_server)
      : reader(is_server ? memory.control().to_server : memory.control().to_client,
               is_server ? memory.ringToServer() : memory.ringToClient(), memory.ringBytes()),
        writer(is_server ? memory.control().to_client : memory.control().to_server,
               is_server ? memory.ringToClient() : memory.ringToServer(), memory.ringBytes()) {}
  void send(const std::byte* frame) {
    if (writer.freeBytes() < kFrameBytes) RC_CHECK(writer.refresh());
    writer.write(frame, kFrameBytes);
    writer.publish();
  }
  void receive(std::byte* frame) {
    while (!reader.hasNews()) {
    }
    RC_CHECK(reader.refresh());
    reader.read(frame, kFrameBytes);
    (void)reader.giveBackInQuarters();
  }
  static constexpr size_t kFrameBytes = 24 + 104;
  RingReader reader;
  RingWriter writer;
};

void ringServer(void* argument) {
  RingPair pair(*static_cast<SharedMemory*>(argument), true);
  std::byte frame[RingPair::kFrameBytes];
  for (;;) {
    pair.receive(frame);
    pair.send(frame);
  }
}

Latency ringRound(int64_t round_ns) {
  Descriptor descriptor;
  auto memory = SharedMemory::create(256 * 1024, descriptor);
  ::madvise(&memory->control(), sharedBytes(256 * 1024), MADV_DOFORK);
  const pid_t server = startServer(&ringServer, &*memory);
  RingPair pair(*memory, false);
  std::byte frame[RingPair::kFrameBytes] = {};
  const Latency latency = measure(round_ns, [&] {
    pair.send(frame);
    pair.receive(frame);
  });
  stopServer(server);
  return latency;
}

// ---- ours

struct EchoSide {
  EchoSide() : transport({}, ShmContext{clock, entropy, silentTrace()}), endpoint(transport.makeEndpoint(identity)) {
    sink.endpoint = endpoint.get();
  }
  runtime::SystemClock clock;
  runtime::SystemEntropy entropy;
  Identity identity;
  ShmTransport transport;
  std::unique_ptr<Endpoint> endpoint;
  bench::EchoSink sink;
};

void echoServer(void* argument) {
  EchoSide side;
  const auto where = Locator::parse(std::string("shm://") + static_cast<const char*>(argument));
  if (!side.endpoint->listen(where.value()).ok()) ::_exit(1);
  for (;;) {
    if (side.endpoint->poll(side.sink, 64) != 0) side.endpoint->flush();
  }
}

/// A session to an echo server of its own process.
class EchoSession {
 public:
  EchoSession() {
    std::snprintf(path_, sizeof(path_), "/tmp/rcshmbench%d", static_cast<int>(::getpid()));
    server_ = startServer(&echoServer, path_);
    const auto where = Locator::parse(std::string("shm://") + path_).value();
    // The file is there a moment before the server listens.
    while (side_.sink.open == 0) {
      const int lost_before = side_.sink.lost;
      session_ = side_.endpoint->connect(where, 0, side_.clock.nowNs() + runtime::kNanosPerSecond);
      while (side_.sink.open == 0 && side_.sink.lost == lost_before) side_.endpoint->poll(side_.sink, 64);
    }
  }
  ~EchoSession() {
    stopServer(server_);
    ::unlink(path_);
    ::unlink((std::string(path_) + ".lock").c_str());
  }

  void start(bench::EchoCall& call) {
    TxMessage request = side_.endpoint->allocate(kPayloadBytes);
    std::memcpy(request.extendHead(kPayloadBytes), payload_, kPayloadBytes);
    const Status status = side_.endpoint->call(session_, request, {}, call);
    RC_CHECK(status == Status::Ok);
  }
  void flush() { side_.endpoint->flush(); }
  uint32_t poll() { return side_.endpoint->poll(side_.sink, 64); }

 private:
  char path_[64];
  pid_t server_;
  EchoSide side_;
  SessionId session_;
  std::byte payload_[kPayloadBytes] = {};
};

Latency echoRound(int64_t round_ns) {
  EchoSession session;
  bench::EchoCall call;
  return measure(round_ns, [&] {
    const uint64_t before = call.done;
    session.start(call);
    session.flush();
    while (call.done == before) session.poll();
  });
}

template <int Outstanding>
Latency throughputRound(int64_t round_ns) {
  EchoSession session;
  std::array<bench::EchoCall, Outstanding> calls;
  for (bench::EchoCall& call : calls) session.start(call);
  session.flush();
  runtime::SystemClock clock;
  const int64_t start = clock.nowNs();
  int64_t now = start;
  uint64_t operations = 0;
  while (now - start < round_ns) {
    for (int i = 0; i < 256; ++i) {
      const uint32_t found = session.poll();
      if (found == 0) continue;
      operations += found;
      for (bench::EchoCall& call : calls) {
        if (!call.in_flight) session.start(call);
      }
      session.flush();
    }
    now = clock.nowNs();
  }
  std::vector<uint32_t> none;
  return summarize(none, now - start, operations);
}

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

struct Row {
  const char* name;
  Latency (*run)(int64_t);
  std::vector<double> p50_ns, p99_ns, per_second;
};

}  // namespace
}  // namespace ramcore::transport::shm

int main(int argc, char** argv) {
  using namespace ramcore::transport::shm;
  int rounds = 7;
  uint64_t round_ms = 2000;
  ramcore::bench::Flags flags;
  flags.number("--rounds", rounds);
  flags.number("--round-ms", round_ms);
  flags.parse(argc, argv);
  pinTo(kClientCore);
  std::vector<Row> rows{{"raw word", &rawRound<false>, {}, {}, {}},
                        {"raw word + 100 B", &rawRound<true>, {}, {}, {}},
                        {"rings + frame of 100 B", &ringRound, {}, {}, {}},
                        {"endpoint echo of 100 B", &echoRound, {}, {}, {}},
                        {"endpoint echo, 8 outstanding", &throughputRound<8>, {}, {}, {}},
                        {"endpoint echo, 32 outstanding", &throughputRound<32>, {}, {}, {}}};
  for (int round = 0; round < rounds; ++round) {
    for (Row& row : rows) {
      const Latency latency = row.run(static_cast<int64_t>(round_ms) * ramcore::runtime::kNanosPerMilli);
      row.p50_ns.push_back(latency.p50_ns);
      row.p99_ns.push_back(latency.p99_ns);
      row.per_second.push_back(latency.per_second);
    }
  }
  std::printf("%-32s %10s %10s %10s %10s %12s\n", "medians of rounds", "p50 ns", "lower q.", "upper q.", "p99 ns",
              "per second");
  for (const Row& row : rows) {
    std::printf("%-32s %10.0f %10.0f %10.0f %10.0f %12.0f\n", row.name, quantile(row.p50_ns, 0.5),
                quantile(row.p50_ns, 0.25), quantile(row.p50_ns, 0.75), quantile(row.p99_ns, 0.5),
                quantile(row.per_second, 0.5));
  }
  std::vector<double> ratios;
  for (size_t i = 0; i < rows[3].p50_ns.size(); ++i) ratios.push_back(rows[3].p50_ns[i] / rows[1].p50_ns[i]);
  std::printf("echo / raw word + 100 B: %.2f (quartiles %.2f, %.2f)\n", quantile(ratios, 0.5), quantile(ratios, 0.25),
              quantile(ratios, 0.75));
  const double spread = quantile(rows[1].p50_ns, 1.0) / quantile(rows[1].p50_ns, 0.0);
  if (spread > 1.5) std::printf("noisy: the raw rounds differ by %.2fx\n", spread);
  return 0;
}
