// Round trips of small messages over queue pairs: an echo between two endpoints, each in a process of its own that
// spins. tests/vm/verbs_latency.py holds them against ib_send_lat.
//
//   bench_verbs --device NAME --listen LOCATOR
//   bench_verbs --device NAME --connect LOCATOR [--calls N] [--bytes N]
//
// The first one serves until it is killed, and prints where; the second prints the median and the 99th percentile.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/support/echo.h"
#include "bench/support/flags.h"
#include "bench/support/statistics.h"
#include "runtime/real/system_clock.h"
#include "transport/os/epoll_sleeper.h"
#include "transport/verbs/verbs_transport.h"

namespace ramcore::transport::verbs {
namespace {

struct Settings {
  std::string device;
  std::string listen;
  std::string connect;
  int calls = 2000;
  int bytes = 100;
};

struct Side {
  explicit Side(const std::string& device) : sleeper(clock) {
    VerbsOptions options;
    options.device = device;
    auto opened = VerbsTransport::open(
        options, {.clock = clock, .entropy = entropy, .trace = silentTrace(), .sleeper = &sleeper});
    RC_CHECK_MSG(opened.ok(), opened.error().message.c_str());
    transport = std::move(opened).value();
    identity.secret = "for this benchmark alone";
    endpoint = transport->makeEndpoint(identity);
    sink.endpoint = endpoint.get();
  }
  void step() {
    endpoint->poll(sink, 64);
    endpoint->flush();
  }
  runtime::SystemClock clock;
  runtime::SystemEntropy entropy;
  EpollSleeper sleeper;
  Identity identity;
  std::unique_ptr<VerbsTransport> transport;
  std::unique_ptr<Endpoint> endpoint;
  bench::EchoSink sink;
};

[[noreturn]] void serve(const Settings& settings) {
  Side side(settings.device);
  auto where = Locator::parse(settings.listen);
  RC_CHECK_MSG(where.ok(), where.error().message.c_str());
  auto bound = side.endpoint->listen(*where);
  RC_CHECK_MSG(bound.ok(), bound.error().message.c_str());
  std::printf("ready %s\n", bound->toString().c_str());
  std::fflush(stdout);
  for (;;) side.step();
}

void measure(const Settings& settings) {
  Side side(settings.device);
  auto where = Locator::parse(settings.connect);
  RC_CHECK_MSG(where.ok(), where.error().message.c_str());
  const SessionId session = side.endpoint->connect(*where, 0, side.clock.nowNs() + 10 * runtime::kNanosPerSecond);
  while (side.sink.open == 0) {
    RC_CHECK_MSG(side.sink.lost == 0, "nobody serves there");
    side.step();
  }
  const auto bytes = static_cast<uint32_t>(settings.bytes);
  std::vector<double> samples;
  for (int i = 0; i < settings.calls; ++i) {
    const int64_t begin = side.clock.nowNs();
    bench::EchoCall call;
    TxMessage request = side.endpoint->allocate(bytes);
    std::memset(request.extendHead(bytes), 7, bytes);
    RC_CHECK(side.endpoint->call(session, request, {}, call) == Status::Ok);
    while (call.done == 0) side.step();
    samples.push_back(static_cast<double>(side.clock.nowNs() - begin) / 1000);
  }
  std::printf("{\"p50_us\": %.3f, \"p99_us\": %.3f, \"calls\": %d, \"bytes\": %d}\n", bench::quantile(samples, 0.5),
              bench::quantile(samples, 0.99), settings.calls, settings.bytes);
}

}  // namespace
}  // namespace ramcore::transport::verbs

int main(int argc, char** argv) {
  using namespace ramcore::transport::verbs;
  Settings settings;
  ramcore::bench::Flags flags;
  flags.text("--device", settings.device);
  flags.text("--listen", settings.listen);
  flags.text("--connect", settings.connect);
  flags.number("--calls", settings.calls);
  flags.number("--bytes", settings.bytes);
  flags.parse(argc, argv);
  if (!settings.listen.empty()) serve(settings);
  if (settings.connect.empty()) {
    std::fprintf(stderr, "bench_verbs: say --listen LOCATOR, or --connect LOCATOR of one that does\n");
    return 2;
  }
  measure(settings);
  return 0;
}
