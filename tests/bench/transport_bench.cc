// Round trips of small messages: a raw non-blocking recv/send loop over TCP beside an echo between two endpoints that
// moves the same number of bytes each way. Both sides spin, each on a thread of its own.
//
//   bench_transport [--rounds N] [--round-ms N] [--bytes N]
//
// Rounds are interleaved (raw, ours, raw, ours...); printed are the medians of all rounds with quartiles, the median of
// the ratios, and the time the machine took away from us (steal).

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bench/support/flags.h"
#include "runtime/real/system_clock.h"
#include "transport/tcp/tcp_transport.h"
#include "wire/frame.h"

namespace ramcore::transport {
namespace {

struct Options {
  int rounds = 7;
  int64_t round_ns = 300 * runtime::kNanosPerMilli;
  uint32_t message_bytes = 100;
};

runtime::SystemClock real_clock;
runtime::SystemEntropy entropy;

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(q * static_cast<double>(values.size())))];
}

uint64_t stealTicks() {
  std::ifstream stat("/proc/stat");
  std::string cpu;
  uint64_t value = 0;
  stat >> cpu;
  for (int i = 0; i < 8 && stat >> value;) ++i;
  return value;
}

/// One kind of round trip, with a thread that answers. It spins while its own rounds run and rests during others'.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual std::string name() const = 0;
  virtual void roundTrip() = 0;
  void run(bool is_running) {
    is_paused_.store(!is_running);
    is_paused_.notify_all();
  }

 protected:
  /// Calls `serve` for as long as rounds run; it returns soon after isPaused().
  void startThread(std::function<void()> serve) {
    thread_ = std::thread([this, serve = std::move(serve)] {
      while (!is_stopping_.load()) {
        is_paused_.wait(true);
        if (!is_stopping_.load()) serve();
      }
    });
  }
  void stopThread() {
    is_stopping_.store(true);
    run(true);  // a thread that rests would not notice otherwise
    thread_.join();
  }
  bool isPaused() const {
    return is_paused_.load(std::memory_order_relaxed) || is_stopping_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<bool> is_paused_{true};
  std::atomic<bool> is_stopping_{false};
  std::thread thread_;
};

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

/// The lower bound: the same bytes without a protocol.
class RawTcp final : public Subject {
 public:
  explicit RawTcp(size_t bytes) : bytes_(bytes), answer_(bytes) {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    if (::bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(listener, 1) != 0) die("bind");
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
    client_ = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(client_, reinterpret_cast<sockaddr*>(&address), length) != 0) die("connect");
    server_ = ::accept(listener, nullptr, nullptr);
    ::close(listener);
    const int on = 1;
    for (const int fd : {client_, server_}) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    startThread([this] {
      if (receiveAll(server_, answer_, true)) sendAll(server_, answer_);
    });
  }
  ~RawTcp() override {
    stopThread();
    ::close(client_);
    ::close(server_);
  }
  std::string name() const override { return "raw tcp"; }
  void roundTrip() override {
    sendAll(client_, bytes_);
    receiveAll(client_, bytes_, false);
  }

 private:
  static void sendAll(int fd, const std::vector<char>& bytes) {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = ::send(fd, bytes.data() + done, bytes.size() - done, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) done += static_cast<size_t>(n);
    }
  }
  /// False if the round ended before the first byte came.
  bool receiveAll(int fd, std::vector<char>& bytes, bool ends_with_round) const {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = ::recv(fd, bytes.data() + done, bytes.size() - done, MSG_DONTWAIT);
      if (n > 0) done += static_cast<size_t>(n);
      if (done == 0 && ends_with_round && isPaused()) return false;
    }
    return true;
  }

  std::vector<char> bytes_;
  std::vector<char> answer_;
  int client_ = -1;
  int server_ = -1;
};

/// A thread's endpoint and what it needs.
struct TcpSide {
  TcpSide() : sleeper(real_clock), transport({}, tcp::TcpContext{real_clock, entropy, silentTrace(), sleeper}) {
    endpoint = transport.makeEndpoint(identity);
  }
  Identity identity{.role = Role::Server, .id = 1, .cluster_name = "bench", .secret = {}};
  tcp::AsioSleeper sleeper;
  tcp::TcpTransport transport;
  std::unique_ptr<Endpoint> endpoint;
};

/// An echo between two endpoints, through nothing but the interface of transport.h.
class EndpointEcho : public Subject {
 public:
  EndpointEcho(std::string label, Endpoint& server, Endpoint& client, const Locator& where, uint32_t message_bytes)
      : label_(std::move(label)), client_(client), echo_(server), message_(message_bytes) {
    auto listening = server.listen(where);
    if (!listening.ok()) {
      std::fprintf(stderr, "%s\n", listening.error().message.c_str());
      std::exit(1);
    }
    session_ = client.connect(listening.value(), 0, real_clock.nowNs() + 10 * runtime::kNanosPerSecond);
    while (!waiter_.is_open) {
      server.poll(echo_, 32);
      server.flush();
      client.poll(waiter_, 32);
      client.flush();
    }
    startThread([this, &server] {
      for (int i = 0; i < 100; ++i) {
        server.poll(echo_, 32);
        server.flush();
      }
    });
  }
  ~EndpointEcho() override { stopThread(); }
  std::string name() const override { return label_; }
  void roundTrip() override {
    TxMessage request = client_.allocate(static_cast<uint32_t>(message_.size()));
    request.appendHead(message_);
    is_done_ = false;
    if (client_.call(session_, request, {}, call_) != Status::Ok) die("call");
    client_.flush();
    while (!is_done_) client_.poll(waiter_, 32);
  }

 private:
  struct Echo final : MessageSink {
    explicit Echo(Endpoint& own) : endpoint(own) {}
    void onRequests(std::span<RxMessage> requests) override {
      for (RxMessage& request : requests) {
        TxMessage response = endpoint.allocate(request.messageBytes());
        response.appendHead(request.head());
        for (const ByteSpan& span : request.tail()) response.appendHead(span);
        endpoint.reply(request.reply_to, std::move(response));
      }
    }
    void onSessionOpen(SessionId) override {}
    void onSessionLost(SessionId, Status) override {}
    Endpoint& endpoint;
  };
  struct Waiter final : MessageSink {
    void onRequests(std::span<RxMessage>) override {}
    void onSessionOpen(SessionId) override { is_open = true; }
    void onSessionLost(SessionId, Status) override { die("session lost"); }
    bool is_open = false;
  };
  struct Call final : PendingCall {
    explicit Call(bool& done)
        : PendingCall([](PendingCall& call, Status, RxMessage) { static_cast<Call&>(call).is_done = true; }),
          is_done(done) {}
    bool& is_done;
  };

  std::string label_;
  Endpoint& client_;
  Echo echo_;
  Waiter waiter_;
  std::vector<std::byte> message_;
  SessionId session_;
  bool is_done_ = false;
  Call call_{is_done_};
};

struct TcpSides {
  TcpSide server;
  TcpSide client;
};
class TcpEcho final : private TcpSides, public EndpointEcho {
 public:
  explicit TcpEcho(uint32_t message_bytes)
      : EndpointEcho("tcp endpoint", *server.endpoint, *client.endpoint, Locator::parse("tcp://127.0.0.1:0").value(),
                     message_bytes) {}
};

/// Median of one round, in microseconds.
double measure(Subject& subject, int64_t round_ns) {
  subject.run(true);
  for (int i = 0; i < 100; ++i) subject.roundTrip();
  std::vector<double> times;
  const int64_t end_ns = real_clock.nowNs() + round_ns;
  for (int64_t before_ns = real_clock.nowNs(); before_ns < end_ns;) {
    subject.roundTrip();
    const int64_t after_ns = real_clock.nowNs();
    times.push_back(static_cast<double>(after_ns - before_ns) / 1000.0);
    before_ns = after_ns;
  }
  subject.run(false);
  return quantile(std::move(times), 0.5);
}

/// Interleaves `peer` and `ours`; true if the peer's own rounds are close enough to each other to say anything.
bool compare(Subject& peer, Subject& ours, const Options& options) {
  std::vector<double> peer_us, ours_us, ratios;
  const uint64_t steal_before = stealTicks();
  for (int round = 0; round < options.rounds; ++round) {
    peer_us.push_back(measure(peer, options.round_ns));
    ours_us.push_back(measure(ours, options.round_ns));
    ratios.push_back(ours_us.back() / peer_us.back());
  }
  for (const auto& [subject, times] : {std::pair(&peer, &peer_us), std::pair(&ours, &ours_us)}) {
    std::printf("%-14s p50 of a round trip: median %6.2f us, quartiles %6.2f .. %6.2f\n", subject->name().c_str(),
                quantile(*times, 0.5), quantile(*times, 0.25), quantile(*times, 0.75));
  }
  const auto [low, high] = std::minmax_element(peer_us.begin(), peer_us.end());
  const bool is_noisy = *high > 1.5 * *low;
  std::printf("ratio: median %.3f, quartiles %.3f .. %.3f; %d rounds, steal %.2f s%s\n", quantile(ratios, 0.5),
              quantile(ratios, 0.25), quantile(ratios, 0.75), options.rounds,
              static_cast<double>(stealTicks() - steal_before) / static_cast<double>(::sysconf(_SC_CLK_TCK)),
              is_noisy ? "; noisy: the peer's own rounds differ by more than 1.5x" : "");
  return !is_noisy;
}

int run(const Options& options) {
  const uint32_t frame_bytes = static_cast<uint32_t>(wire::frameBytes(options.message_bytes));
  std::printf("messages of %u bytes (%u with the frame's header), both ways\n", options.message_bytes, frame_bytes);
  RawTcp raw(frame_bytes);
  TcpEcho tcp(options.message_bytes);
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (compare(raw, tcp, options)) break;
  }
  return 0;
}

}  // namespace
}  // namespace ramcore::transport

int main(int argc, char** argv) {
  ramcore::transport::Options options;
  uint64_t round_ms = static_cast<uint64_t>(options.round_ns / ramcore::runtime::kNanosPerMilli);
  uint64_t bytes = options.message_bytes;
  ramcore::bench::Flags flags;
  flags.number("--rounds", options.rounds);
  flags.number("--round-ms", round_ms);
  flags.number("--bytes", bytes);
  flags.parse(argc, argv);
  options.round_ns = static_cast<int64_t>(round_ms) * ramcore::runtime::kNanosPerMilli;
  options.message_bytes = static_cast<uint32_t>(bytes);
  return ramcore::transport::run(options);
}
