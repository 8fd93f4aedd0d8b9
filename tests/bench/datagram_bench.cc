// The cost of the protocol over Ethernet frames without a driver: two endpoints on one thread, joined by a port that
// passes frames on in memory. A call is all that both ends do, from the request to the answer; beside it, what passing
// its two frames takes alone, and its four seals.
//
//   bench_datagram [--rounds N] [--round-ms N] [--bytes N]
//
// Rounds are interleaved; printed are medians of all rounds with quartiles and the median of the ratios.
#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "bench/support/echo.h"
#include "bench/support/flags.h"
#include "bench/support/report.h"
#include "runtime/real/system_clock.h"
#include "transport/datagram/datagram_endpoint.h"

namespace ramcore::transport::datagram {
namespace {

struct Options {
  int rounds = 7;
  uint64_t round_ms = 300;
  int bytes = 100;
};
Options settings;
uint32_t payloadBytes() { return static_cast<uint32_t>(settings.bytes); }
runtime::SystemClock real_clock;
runtime::SystemEntropy entropy;

struct LoopFrame {
  alignas(64) std::array<std::byte, 2048> bytes;
  uint32_t length = 0;
};

/// One end of a wire in memory. Frames are in one piece.
class LoopPort final : public FramePort {
 public:
  explicit LoopPort(uint8_t number) {
    facts_.address = {{2, 0, 0, 0, 0, number}};
    facts_.frame_bytes_max = sizeof(LoopFrame::bytes);
    facts_.is_local = true;
  }
  void join(LoopPort& other) { other_ = &other; }

  const PortFacts& facts() const override { return facts_; }
  std::string describe() const override { return "a wire in memory"; }
  uint32_t receive(std::span<InFrame> into) override {
    const size_t count = std::min(into.size(), arrived_.size());
    for (size_t i = 0; i < count; ++i) {
      LoopFrame* const frame = arrived_[i];
      into[i] = {.bytes = frame->bytes.data(), .length = frame->length, .handle = frame};
    }
    arrived_.erase(arrived_.begin(), arrived_.begin() + static_cast<std::ptrdiff_t>(count));
    return static_cast<uint32_t>(count);
  }
  void release(const InFrame& frame) noexcept override { free_.push_back(static_cast<LoopFrame*>(frame.handle)); }
  OutFrame make(uint32_t bytes, std::byte*& at) override {
    if (free_.empty()) free_.push_back(all_.emplace_back(std::make_unique<LoopFrame>()).get());
    LoopFrame* const frame = free_.back();
    free_.pop_back();
    frame->length = bytes;
    at = frame->bytes.data();
    return {frame};
  }
  std::byte* extend(OutFrame, uint32_t) override { return nullptr; }
  bool attach(OutFrame, const std::byte*, uint32_t, RegionId, FrameOwner&) override { return false; }
  void drop(OutFrame frame) noexcept override { free_.push_back(static_cast<LoopFrame*>(frame.handle)); }
  uint32_t send(std::span<const OutFrame> frames) override {
    for (const OutFrame& frame : frames) other_->arrived_.push_back(static_cast<LoopFrame*>(frame.handle));
    return static_cast<uint32_t>(frames.size());
  }
  void stop() override {}
  bool canAttach(RegionId) const override { return false; }

 private:
  PortFacts facts_;
  LoopPort* other_ = nullptr;
  std::vector<std::unique_ptr<LoopFrame>> all_;
  std::vector<LoopFrame*> free_;
  std::vector<LoopFrame*> arrived_;
};

struct Side {
  Side(LoopPort& port, bool seal)
      : endpoint({.wants_seal = seal}, {.clock = real_clock, .entropy = entropy, .trace = silentTrace(), .wake_by = {}},
                 DatagramEndpoint::limitsOf({}), {&port}, identity) {
    sink.endpoint = &endpoint;
  }
  void step() {
    endpoint.poll(sink, 64);
    endpoint.flush();
  }
  Identity identity;
  DatagramEndpoint endpoint;
  bench::EchoSink sink;
};

/// Two ends and a session between them.
class Pair {
 public:
  explicit Pair(bool seal) : client_(ports_[0], seal), server_(ports_[1], seal) {
    ports_[0].join(ports_[1]);
    ports_[1].join(ports_[0]);
    RC_CHECK(server_.endpoint.listen(Locator::parse("dpdk://any@1").value()).ok());
    session_ = client_.endpoint.connect(Locator::parse("dpdk://02:00:00:00:00:02@1").value(), 0,
                                        real_clock.nowNs() + 5 * runtime::kNanosPerSecond);
    while (client_.sink.open == 0 || server_.sink.open == 0) {
      RC_CHECK_MSG(client_.sink.lost == 0, "the two ends find no session");
      client_.step();
      server_.step();
    }
  }
  void call() {
    const uint64_t before = call_.done;
    TxMessage request = client_.endpoint.allocate(payloadBytes());
    std::memset(request.extendHead(payloadBytes()), 7, payloadBytes());
    RC_CHECK(client_.endpoint.call(session_, request, {}, call_) == Status::Ok);
    client_.endpoint.flush();
    server_.step();
    client_.endpoint.poll(client_.sink, 64);
    RC_CHECK(call_.done == before + 1);
  }
  void lookInVain() { server_.step(); }

 private:
  std::array<LoopPort, 2> ports_ = {LoopPort(1), LoopPort(2)};
  Side client_;
  Side server_;
  SessionId session_;
  bench::EchoCall call_;
};

/// The two frames of a call, there and back, and nothing made of them.
class BareFrames {
 public:
  BareFrames() {
    ports_[0].join(ports_[1]);
    ports_[1].join(ports_[0]);
  }
  void pass() {
    for (size_t from = 0; from < 2; ++from) {
      std::byte* at = nullptr;
      const OutFrame frame = ports_[from].make(wire::kPacketHeaderBytes + payloadBytes(), at);
      std::memset(at, 7, wire::kPacketHeaderBytes + payloadBytes());
      RC_CHECK(ports_[from].send(std::span(&frame, 1)) == 1);
      std::array<InFrame, 1> arrived;
      RC_CHECK(ports_[1 - from].receive(arrived) == 1);
      ports_[1 - from].release(arrived[0]);
    }
  }

 private:
  std::array<LoopPort, 2> ports_ = {LoopPort(1), LoopPort(2)};
};

class Seals {
 public:
  void makeFour() {
    const std::array<ByteSpan, 1> payload = {ByteSpan(payload_).first(payloadBytes())};
    for (int i = 0; i < 4; ++i) {
      ++header_[0];
      sum_ += seal_.of(wire::kDatagramVersion, wire::PacketKind::Request, header_, payload);
    }
  }

 private:
  const PacketSeal seal_{Handshake::Key{}, true, true};
  HeaderWords header_{};
  uint64_t sum_ = 0;
  std::array<std::byte, wire::kPacketBytesMax> payload_{};
};

double nsOf(const std::function<void()>& round) {
  return bench::medianNs(static_cast<int64_t>(settings.round_ms) * runtime::kNanosPerMilli, 1000, round);
}

void measure() {
  bench::Report report("datagram");
  Pair sealed(true);
  Pair plain(false);
  BareFrames frames;
  Seals seals;
  std::vector<double> sealed_ns, plain_ns, frames_ns, seals_ns, idle_ns;
  for (int round = 0; round < settings.rounds; ++round) {
    frames_ns.push_back(nsOf([&] { frames.pass(); }));
    seals_ns.push_back(nsOf([&] { seals.makeFour(); }));
    sealed_ns.push_back(nsOf([&] { sealed.call(); }));
    plain_ns.push_back(nsOf([&] { plain.call(); }));
    idle_ns.push_back(nsOf([&] { sealed.lookInVain(); }));
  }
  std::printf("both ends of a call of %u B, there and back, on one thread and without a driver\n", payloadBytes());
  report.figure("passing its two frames", "ns", frames_ns);
  report.figure("its four seals", "ns", seals_ns);
  report.figure("call, with a MAC", "ns", sealed_ns);
  report.figure("call, with a checksum", "ns", plain_ns);
  report.figure("a round in which nothing has come", "ns", idle_ns);
  report.isNoisy("frames", frames_ns);
  report.figure("call with a MAC / frames and seals", "x", [&] {
    std::vector<double> both;
    for (size_t i = 0; i < frames_ns.size(); ++i) both.push_back(frames_ns[i] + seals_ns[i]);
    return bench::ratios(sealed_ns, both);
  }());
  report.finish(settings.rounds);
}

}  // namespace
}  // namespace ramcore::transport::datagram

int main(int argc, char** argv) {
  using namespace ramcore::transport::datagram;
  ramcore::bench::Flags flags;
  flags.number("--rounds", settings.rounds);
  flags.number("--round-ms", settings.round_ms);
  flags.number("--bytes", settings.bytes);
  flags.parse(argc, argv);
  RC_CHECK(settings.bytes <= 1400);
  measure();
  return 0;
}
