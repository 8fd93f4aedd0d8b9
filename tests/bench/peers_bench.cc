// Reads over TCP beside Redis and memcached: one load loop for all of them, on one thread, speaking each protocol, so
// that no client library is compared with another.
//
//   bench_peers [--rounds N] [--seconds S] [--keys N] [--no-peers] [--smoke]
//
// Rows: N connections with 1 request outstanding (N = 1, 16, 50), 1 connection with 16 outstanding (the peers'
// pipeline), 16 connections with one request for 16 keys each (`get k1 ... k16` on one line). An echo server that spins
// in epoll and moves the bytes of our messages is the limit of the machine. Servers on core 0, the loop on core 1; all
// are started here, on free ports of loopback, and ended by their ids. tools/setup --bench installs the peers.
#include "bench/support/flags.h"
#include "bench/support/peer_server.h"
#include "bench/support/ramcore_load.h"
#include "bench/support/report.h"
#include "bench/support/socket_load.h"

namespace ramcore::bench {
namespace {

struct Options {
  int rounds = 7;
  double seconds = 2;
  uint64_t keys = 1'000'000;
  bool peers = true;
};

struct Row {
  const char* name;
  Shape shape;
  double ratio_min;  ///< to the better peer
  bool memcached_only = false;
};

constexpr Row kRows[] = {
    {"1 connection x 1", {.connections = 1, .pipeline = 1, .keys = 1}, 3},
    {"16 connections x 1", {.connections = 16, .pipeline = 1, .keys = 1}, 1.15},
    {"50 connections x 1", {.connections = 50, .pipeline = 1, .keys = 1}, 1.15},
    {"1 connection x 16 outstanding", {.connections = 1, .pipeline = 16, .keys = 1}, 1.5},
    {"16 connections x 16 keys", {.connections = 16, .pipeline = 1, .keys = 16}, 2, true},
};

/// A peer that runs only during its own rounds, so that what it does when idle does not slow others down.
class PausedPeer {
 public:
  PausedPeer(PeerKind kind, Keys& keys, size_t ask_bytes = 0, size_t answer_bytes = 0)
      : keys_(keys), server_(kind, ask_bytes, answer_bytes), ask_bytes_(ask_bytes), answer_bytes_(answer_bytes) {
    if (kind != PeerKind::Echo) server_.load(keys);
    server_.process().pause();
  }
  double rate(const Shape& shape, double seconds) {
    server_.process().resume();
    double rate = 0;
    {
      SocketLoad load(server_, shape, keys_, ask_bytes_, answer_bytes_);
      rate = load.run(seconds);
    }
    server_.process().pause();
    return rate;
  }

 private:
  Keys& keys_;
  PeerServer server_;
  size_t ask_bytes_;
  size_t answer_bytes_;
};

void runRow(const Row& row, const Options& options, Keys& keys, BenchCluster& cluster, PausedPeer* redis,
            PausedPeer* memcached, Report& report) {
  std::printf(" %s\n", row.name);
  PausedPeer echo(PeerKind::Echo, keys, RamcoreLoad::askBytes(row.shape), RamcoreLoad::answerBytes(row.shape));
  for (int attempt = 1;; ++attempt) {
    std::vector<double> limit, redis_rates, memcached_rates, ours;
    for (int round = 0; round < options.rounds; ++round) {
      limit.push_back(echo.rate(row.shape, options.seconds));
      if (redis != nullptr && !row.memcached_only) redis_rates.push_back(redis->rate(row.shape, options.seconds));
      if (memcached != nullptr) memcached_rates.push_back(memcached->rate(row.shape, options.seconds));
      ours.push_back(RamcoreLoad(cluster, row.shape, keys).run(options.seconds));
    }
    const std::vector<double> best = redis_rates.empty() ? memcached_rates : better(redis_rates, memcached_rates);
    if (attempt < 3 && spread(best) > 1.5) {
      std::printf("  noisy, repeating\n");
      continue;
    }
    const std::string name = row.name;
    report.figure(name + ": echo, the limit", "k/s", limit);
    if (!redis_rates.empty()) report.figure(name + ": redis", "k/s", redis_rates);
    if (!memcached_rates.empty()) report.figure(name + ": memcached", "k/s", memcached_rates);
    report.figure(name + ": ramcore", "k/s", ours);
    report.figure(name + ": ramcore / limit", "x", ratios(ours, limit));
    if (best.empty()) return;
    report.target(name + ": ramcore / better peer", "x", ratios(ours, best), Report::Goal::AtLeast, row.ratio_min);
    (void)report.isNoisy("the better peer", best);
    return;
  }
}

int run(int argc, char** argv) {
  Options options;
  Flags flags;
  flags.number("--rounds", options.rounds);
  flags.number("--seconds", options.seconds);
  flags.number("--keys", options.keys);
  flags.flag("--no-peers", [&] { options.peers = false; });
  flags.flag("--smoke", [&] { options = {.rounds = 1, .seconds = 0.1, .keys = 10'000, .peers = false}; });
  flags.parse(argc, argv);
  pinTo(kClientCore);
  Keys keys(options.keys);
  BenchCluster cluster("tcp", "1GiB");
  cluster.load(keys);
  std::unique_ptr<PausedPeer> redis, memcached;
  if (options.peers) {
    redis = std::make_unique<PausedPeer>(PeerKind::Redis, keys);
    memcached = std::make_unique<PausedPeer>(PeerKind::Memcached, keys);
  }
  std::printf("reads over tcp, %llu keys; thousand objects a second (of the echo: messages times keys)\n",
              static_cast<unsigned long long>(options.keys));
  Report report("peers");
  for (const Row& row : kRows) runRow(row, options, keys, cluster, redis.get(), memcached.get(), report);
  report.finish(options.rounds);
  return 0;
}

}  // namespace
}  // namespace ramcore::bench

int main(int argc, char** argv) { return ramcore::bench::run(argc, argv); }
