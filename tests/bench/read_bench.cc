// Small reads through the public client, beside the least that the same bytes cost. A real coordinator and server run
// on core 0, this process on core 1.
//
//   bench_read [--rounds N] [--seconds S] [--keys N] [--idle-reads N] [--only shm|tcp] [--smoke]
//
// Rounds are interleaved (peer, ours, peer, ours...). The peers move the same numbers of bytes each way as a read of a
// 30-byte key with a value of 100 bytes does with all headers. Latencies are those of the calls alone: choosing the key
// is not timed.
#include <functional>

#include "bench/support/bench_cluster.h"
#include "bench/support/flags.h"
#include "bench/support/raw_peers.h"
#include "bench/support/report.h"
#include "wire/frame.h"
#include "wire/master_messages.h"

namespace ramcore::bench {
namespace {

using Goal = Report::Goal;

struct Options {
  int rounds = 7;
  double seconds = 2;
  uint64_t keys = 1'000'000;
  int idle_reads = 15;
  std::string only;
};

constexpr size_t kRequestBytes = wire::frameBytes(sizeof(wire::Read::Request) + kKeyBytes);
constexpr size_t kResponseBytes = wire::frameBytes(sizeof(wire::Read::Response) + kValueBytes);
constexpr size_t kBatch = 16;
constexpr double kShmRatioMax = 2.5, kTcpRatioMax = 1.3, kIdleUsMax = 120;
constexpr double kBatchMopsMin = 4, kBatchesMopsMin = 8, kSinglesMopsMin = 2.5;

const Tsc tsc;

struct Latency {
  std::vector<double> p50_ns, p99_ns;
};

/// One round: `prepare` before each call, not timed.
template <typename Prepare, typename Call>
void measure(Latency& into, double seconds, Prepare prepare, Call call) {
  static std::vector<uint32_t> samples;
  samples.clear();
  for (int i = 0; i < 200; ++i) call(prepare());  // both sides awake
  const uint64_t end = Tsc::now() + tsc.ticks(seconds);
  for (uint64_t after = 0; after < end;) {
    auto prepared = prepare();
    const uint64_t before = Tsc::now();
    call(prepared);
    after = Tsc::now();
    samples.push_back(static_cast<uint32_t>(std::min<uint64_t>(after - before, UINT32_MAX)));
  }
  const auto at = [&](double q) {
    const auto nth = samples.begin() + static_cast<ptrdiff_t>(q * static_cast<double>(samples.size() - 1));
    std::nth_element(samples.begin(), nth, samples.end());
    return tsc.ns(*nth);
  };
  into.p50_ns.push_back(at(0.5));
  into.p99_ns.push_back(at(0.99));
}

template <typename Peer>
void measurePeer(Latency& into, double seconds, Peer& peer) {
  peer.resume();
  measure(into, seconds, [] { return 0; }, [&](int) { peer.roundTrip(); });
  peer.pause();
}

/// A cluster that holds the keys.
struct Subject {
  Subject(const std::string& transport, Keys& all_keys, std::vector<std::string> flags = {})
      : keys(all_keys), cluster(transport, "1GiB", std::move(flags)) {
    cluster.load(keys);
  }
  void measureReads(Latency& into, double seconds) {
    Client& client = cluster.client();
    const Table table = cluster.table();
    measure(
        into, seconds, [&] { return keys.next(); },
        [&](std::string_view key) {
          const auto version = client.read(table, key, value);
          if (!version || value.size() != kValueBytes) die("a read failed");
        });
  }
  /// Million objects a second with `outstanding` batches of 16 in flight.
  double batchRate(size_t outstanding, double seconds) {
    Client& client = cluster.client();
    std::vector<std::vector<ReadItem>> batches(outstanding);
    for (auto& batch : batches) batch.resize(kBatch, ReadItem{.table = cluster.table(), .key = {}});
    std::vector<Future<size_t>> futures(outstanding);
    uint64_t objects = 0;
    const double begin_s = nowSeconds();
    const uint64_t end = Tsc::now() + tsc.ticks(seconds);
    while (Tsc::now() < end) {
      for (size_t i = 0; i < outstanding; ++i) {
        if (outstanding > 1 && futures[i] && futures[i].get() != 0) die("a multi-read failed");
        for (ReadItem& item : batches[i]) item.key = keys.next();
        if (outstanding == 1) {
          if (client.multiRead(batches[i]) != 0) die("a multi-read failed");
        } else {
          futures[i] = client.multiReadAsync(batches[i]);
        }
        objects += kBatch;
      }
    }
    for (auto& future : futures) {
      if (future) future.wait();
    }
    return static_cast<double>(objects) / (nowSeconds() - begin_s) / 1e6;
  }
  /// Million reads a second with `outstanding` of them in flight.
  double singleRate(size_t outstanding, double seconds) {
    Client& client = cluster.client();
    std::vector<Future<Result<ReadResult>>> futures(outstanding);
    uint64_t objects = 0;
    const double begin_s = nowSeconds();
    const uint64_t end = Tsc::now() + tsc.ticks(seconds);
    while (Tsc::now() < end) {
      for (int turn = 0; turn < 8; ++turn) {
        for (auto& future : futures) {
          if (future && !future.get()) die("a read failed");
          future = client.readAsync(cluster.table(), keys.next());
          ++objects;
        }
      }
    }
    for (auto& future : futures) {
      if (future) future.wait();
    }
    return static_cast<double>(objects) / (nowSeconds() - begin_s) / 1e6;
  }

  Keys& keys;
  BenchCluster cluster;
  std::string value;
};

void runShm(const Options& options, Keys& keys, Report& report) {
  RawShm raw(kRequestBytes, kResponseBytes);
  Subject subject("shm", keys);
  for (int attempt = 1;; ++attempt) {
    Latency peer, ours;
    std::vector<double> one_batch, eight_batches, singles;
    for (int round = 0; round < options.rounds; ++round) {
      measurePeer(peer, options.seconds, raw);
      subject.measureReads(ours, options.seconds);
      one_batch.push_back(subject.batchRate(1, options.seconds));
      eight_batches.push_back(subject.batchRate(8, options.seconds));
      singles.push_back(subject.singleRate(8, options.seconds));
    }
    report.figure("shm raw round trip p50", "ns", peer.p50_ns);
    report.figure("shm read p50", "ns", ours.p50_ns);
    report.figure("shm read p99", "ns", ours.p99_ns);
    report.target("shm read p50 / raw", "x", ratios(ours.p50_ns, peer.p50_ns), Goal::AtMost, kShmRatioMax);
    report.target("shm batches of 16, 1 outstanding", "M/s", one_batch, Goal::AtLeast, kBatchMopsMin);
    report.target("shm batches of 16, 8 outstanding", "M/s", eight_batches, Goal::AtLeast, kBatchesMopsMin);
    report.target("shm single reads, 8 outstanding", "M/s", singles, Goal::AtLeast, kSinglesMopsMin);
    if (!report.isNoisy("shm raw", peer.p50_ns) || attempt == 3) return;
    report.discard();
  }
}

void runHandOff(const Options& options, Keys& keys, Report& report) {
  Subject subject("shm", keys, {"--dispatch", "handoff"});
  Latency ours;
  for (int round = 0; round < options.rounds; ++round) subject.measureReads(ours, options.seconds);
  report.figure("shm read p50, --dispatch=handoff", "ns", ours.p50_ns);
  report.figure("shm read p99, --dispatch=handoff", "ns", ours.p99_ns);
}

void runTcp(const Options& options, Keys& keys, Report& report) {
  Subject subject("tcp", keys);
  {
    RawTcp raw(kRequestBytes, kResponseBytes);
    for (int attempt = 1;; ++attempt) {
      Latency peer, ours;
      for (int round = 0; round < options.rounds; ++round) {
        measurePeer(peer, options.seconds, raw);
        subject.measureReads(ours, options.seconds);
      }
      report.figure("tcp raw round trip p50", "ns", peer.p50_ns);
      report.figure("tcp read p50", "ns", ours.p50_ns);
      report.figure("tcp read p99", "ns", ours.p99_ns);
      report.target("tcp read p50 / raw", "x", ratios(ours.p50_ns, peer.p50_ns), Goal::AtMost, kTcpRatioMax);
      if (!report.isNoisy("tcp raw", peer.p50_ns) || attempt == 3) break;
      report.discard();
    }
  }
  // No process spins here. The lower bound includes that a sleeping process is woken, and that this one has cold
  // caches.
  RawTcp sleeping(kRequestBytes, kResponseBytes, RawTcp::Server::Sleeps);
  std::vector<double> raw_us;
  std::vector<double> first_us;
  for (int i = 0; i < options.idle_reads; ++i) {
    ::usleep(1'000'000);  // the silence is what is measured: there is no event to wait for
    const uint64_t raw_before = Tsc::now();
    sleeping.roundTrip();
    raw_us.push_back(tsc.ns(Tsc::now() - raw_before) / 1000);
    ::usleep(1'000'000);
    const std::string_view key = keys.next();
    const uint64_t before = Tsc::now();
    if (!subject.cluster.client().read(subject.cluster.table(), key, subject.value)) die("a read failed");
    first_us.push_back(tsc.ns(Tsc::now() - before) / 1000);
  }
  report.figure("tcp raw round trip to a sleeping process after 1 s idle, p50", "us", raw_us);
  report.figure("tcp first read after 1 s idle / raw", "x", ratios(first_us, raw_us));
  report.target("tcp first read after 1 s idle, p50", "us", first_us, Goal::AtMost, kIdleUsMax);
}

int run(int argc, char** argv) {
  Options options;
  Flags flags;
  flags.number("--rounds", options.rounds);
  flags.number("--seconds", options.seconds);
  flags.number("--keys", options.keys);
  flags.number("--idle-reads", options.idle_reads);
  flags.text("--only", options.only);
  flags.flag("--smoke", [&] { options = {.rounds = 2, .seconds = 0.1, .keys = 20'000, .idle_reads = 1, .only = ""}; });
  flags.parse(argc, argv);
  pinTo(kClientCore);
  std::printf("small reads: %llu keys of %zu B, values of %zu B; %zu B there and %zu B back with all headers\n",
              static_cast<unsigned long long>(options.keys), kKeyBytes, kValueBytes, kRequestBytes, kResponseBytes);
  Keys keys(options.keys);
  // One after the other: only one cluster at a time is on the server's core. Each has a report of its own, so that
  // repeating one does not discard the others.
  const auto part = [&](const char* name, const std::string& transport, auto body) {
    if (!options.only.empty() && options.only != transport) return;
    Report report(std::string("read_") + name);
    body(options, keys, report);
    report.finish(options.rounds);
  };
  part("shm", "shm", runShm);
  part("shm_handoff", "shm", runHandOff);
  part("tcp", "tcp", runTcp);
  return 0;
}

}  // namespace
}  // namespace ramcore::bench

int main(int argc, char** argv) { return ramcore::bench::run(argc, argv); }
