#include "tools/rcnic/probes/endpoint_probe.h"

#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "tools/rcnic/probes/answerer.h"
#include "tools/rcnic/probes/endpoint_side.h"
#include "tools/rcnic/probes/socket_directory.h"
#include "tools/rcnic/probes/transmit_buffers.h"

namespace ramcore::rcnic {
namespace {

using transport::Endpoint;
using transport::Locator;
using transport::RxMessage;
using transport::SessionId;
using transport::TxMessage;

constexpr uint32_t kMessageBytesMax = 64 * 1024;
constexpr uint32_t kHeadBytes = 8;
constexpr int64_t kConnectNs = 10 * runtime::kNanosPerSecond;

// Ports of DPDK may reach other machines, so both ends know each other by a secret; the other transports stay on this
// machine.
std::string secretFor(const std::string& transport) {
  if (transport != "dpdk") return {};
  std::array<std::byte, 32> bytes;
  runtime::SystemEntropy().fill(bytes);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

class EndpointProbe final : public Probe, private transport::MessageSink, private transport::ChunkOwner {
 public:
  static Outcome<std::unique_ptr<Probe>> open(ProbeChoice choice) {
    std::optional<SocketDirectory> directory;
    std::string place = "tcp://127.0.0.1:0";
    if (choice.transport == "shm" || (choice.transport == "dpdk" && choice.dpdk.ports.empty())) {
      auto made = SocketDirectory::make();
      if (!made.ok()) return std::move(made).error();
      directory.emplace(std::move(made).value());
    }
    if (choice.transport == "shm") place = "shm://" + directory->socket();
    if (choice.transport == "dpdk") {
      place = "dpdk://any@0";
      if (directory) choice.dpdk = memifsAt(directory->socket(), choice.dpdk);
    }
    const auto where = Locator::parse(place);
    if (!where.ok()) return where.error();
    const std::string secret = secretFor(choice.transport);
    auto answerer = Answerer::start(choice, secret, *where);
    if (!answerer.ok()) return std::move(answerer).error();
    auto side = EndpointSide::open(choice, secret, true);
    if (!side.ok()) return std::move(side).error();
    std::unique_ptr<EndpointProbe> probe(
        new EndpointProbe(choice, std::move(directory), std::move(answerer).value(), std::move(side).value()));
    auto connected = probe->connect();
    if (!connected.ok()) return std::move(connected).error();
    return std::unique_ptr<Probe>(std::move(probe));
  }

  ~EndpointProbe() override {
    if (session_) endpoint_.close(session_);
  }

  const ProbeTraits& traits() const override { return traits_; }
  Outcome<bool> useMemory(std::span<std::byte> memory) override {
    auto region = side_->regionOf(memory);
    if (!region.ok()) return std::move(region).error();
    region_ = *region;
    auto of_buffers = side_->regionOf(buffers_->memory());
    if (!of_buffers.ok()) return std::move(of_buffers).error();
    buffers_region_ = *of_buffers;
    return true;
  }

  Outcome<bool> post(const Transmission& transmission) override {
    if (lost_) return lostSession();
    if (free_calls_.empty()) return false;
    Call& call = *free_calls_.back();
    TxMessage request = endpoint_.allocate(kHeadBytes);
    std::memset(request.extendHead(kHeadBytes), 0, kHeadBytes);
    const bool fits = transmission.pieces.size() <= traits_.pieces_max;
    if (transmission.mode == Mode::CopyOut && !(copies_into_frames_ && fits)) {
      append(request, buffers_->fill(call.index, transmission.pieces), buffers_region_);
    } else {
      const transport::RegionId region = transmission.mode == Mode::CopyOut ? transport::RegionId{0} : region_;
      for (const Piece& piece : transmission.pieces) append(request, piece, region);
    }
    const Status status = endpoint_.call(session_, request, {}, call);
    if (status == Status::RetryLater) return false;
    if (status != Status::Ok) return lostSession();
    free_calls_.pop_back();
    endpoint_.flush();
    return true;
  }

  Outcome<uint32_t> reap() override {
    if (lost_) return lostSession();
    const uint32_t before = outstanding();
    endpoint_.poll(*this, endpoint_.limits().burst_messages_max);
    endpoint_.flush();
    if (lost_) return lostSession();
    return before - outstanding();
  }

  uint32_t outstanding() const override { return static_cast<uint32_t>(calls_.size() - free_calls_.size()); }
  uint64_t copyCycles() const override { return buffers_->copyCycles(); }

 private:
  struct Call final : transport::PendingCall {
    Call(EndpointProbe& owner, uint32_t number)
        : PendingCall([](PendingCall& call, Status, RxMessage) {
            auto& self = static_cast<Call&>(call);
            self.probe.free_calls_.push_back(&self);
          }),
          probe(owner),
          index(number) {}
    EndpointProbe& probe;
    const uint32_t index;
  };

  EndpointProbe(const ProbeChoice& choice, std::optional<SocketDirectory> directory, std::unique_ptr<Answerer> answerer,
                std::unique_ptr<EndpointSide> side)
      : directory_(std::move(directory)),
        answerer_(std::move(answerer)),
        side_(std::move(side)),
        endpoint_(side_->endpoint()),
        copies_into_frames_(choice.transport == "dpdk") {
    const transport::Limits& limits = endpoint_.limits();
    buffers_.emplace(limits.slots_per_session, kMessageBytesMax);
    traits_.subject = {.transport = choice.transport, .device = "", .is_software = true};
    if (choice.transport == "dpdk") {
      traits_.subject.device = dpdkDeviceOf(choice.dpdk.ports.front());
      traits_.subject.is_software = isSoftwarePort(choice.dpdk.ports.front());
    }
    traits_.operations = {Operation::Send};
    traits_.pieces_max = limits.gather_count_max;
    traits_.inline_bytes_max = limits.inline_bytes_max;
    traits_.message_bytes_max = kMessageBytesMax;
    traits_.outstanding_max = limits.slots_per_session;
    for (uint32_t i = 0; i < traits_.outstanding_max; ++i) free_calls_.push_back(&calls_.emplace_back(*this, i));
  }

  Outcome<bool> connect() {
    const int64_t deadline_ns = side_->clock().nowNs() + kConnectNs;
    const SessionId session = endpoint_.connect(answerer_->place(), 0, deadline_ns);
    while (!session_ && !lost_) {
      endpoint_.poll(*this, endpoint_.limits().burst_messages_max);
      endpoint_.flush();
    }
    if (lost_ || session_ != session) return lostSession();
    return true;
  }

  void append(TxMessage& request, const Piece& piece, transport::RegionId region) {
    request.appendChunk({.address = piece.address, .bytes = piece.bytes, .region = region, .owner = this, .token = 0});
  }
  Failure lostSession() const {
    return Failure{
        Status::IoError,
        traits_.subject.transport +
            ": the session with the receiving process has ended; the lines above may say why, else run it again"};
  }

  void releaseChunk(uint64_t) noexcept override {}  // the memory stays as it is
  void onRequests(std::span<RxMessage>) override {}
  void onSessionOpen(SessionId session) override { session_ = session; }
  void onSessionLost(SessionId, Status) override { lost_ = true; }

  // Members are destroyed from the last to the first: the session ends, then the receiver, then the socket.
  std::optional<SocketDirectory> directory_;
  std::unique_ptr<Answerer> answerer_;
  std::deque<Call> calls_;
  std::vector<Call*> free_calls_;
  std::optional<TransmitBuffers> buffers_;  // outlives the messages that are sent from it
  std::unique_ptr<EndpointSide> side_;
  Endpoint& endpoint_;
  /// Copy-out: the endpoint copies chunks that are in no region into its Ethernet frames, which is what servers do with
  /// short chunks. If there are more chunks than a message has room for, they are copied into a transmit buffer, as
  /// over other transports, and sent from there.
  const bool copies_into_frames_;
  transport::RegionId region_ = 0;
  transport::RegionId buffers_region_ = 0;
  ProbeTraits traits_;
  SessionId session_;
  bool lost_ = false;
};

}  // namespace

Outcome<std::unique_ptr<Probe>> openEndpointProbe(const ProbeChoice& choice) { return EndpointProbe::open(choice); }

}  // namespace ramcore::rcnic
