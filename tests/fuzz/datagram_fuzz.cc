// Frames of a hostile neighbour at a port where a server listens that has a session with an honest client: without any
// proof, with a checksum, and sealed with the right key, for the neighbour has a session of its own, too. Whatever it
// sends, memory is bounded, what is borrowed comes back once, and the honest client is served.
//
// Input: steps, each a Step and as many bytes as it says.
#include <cstring>
#include <deque>
#include <memory>

#include "base/check.h"
#include "fuzz/planted.h"
#include "runtime/sim/sim_clock.h"
#include "runtime/sim/sim_scheduler.h"
#include "transport/datagram/datagram_endpoint.h"
#include "transport/sim/sim_ethernet.h"

namespace ramcore::transport::datagram {
namespace {

constexpr int64_t kMilli = runtime::kNanosPerMilli;
constexpr int64_t kRoundNs = 50 * runtime::kNanosPerMicro;
constexpr uint64_t kEventsMax = 1'000'000;
constexpr uint32_t kPacketBytes = 600;
constexpr uint64_t kHeldMax = 2 * 1024 * 1024;
constexpr uint32_t kGreetingsMax = 8;
constexpr MacAddress kServer{{2, 0, 0, 0, 0, 1}};
constexpr MacAddress kClient{{2, 0, 0, 0, 0, 2}};
constexpr MacAddress kNeighbour{{2, 0, 0, 0, 0, 3}};

struct Step {
  uint8_t what;
  uint8_t kind;    // of the packet
  uint8_t choice;  // whose address and whose session
  uint8_t rounds;  // that pass behind it
  uint16_t bytes;  // that follow
  uint16_t reserved;
};
static_assert(sizeof(Step) == 8);

DatagramOptions optionsOf() {
  DatagramOptions options;
  options.slots_per_session = 8;
  options.sessions_max = 32;
  options.greetings_max = kGreetingsMax;
  options.greeting_timeout_ns = 20 * kMilli;
  options.unasked_packets = 4;
  options.grant_window = 8;
  options.granted_messages = 2;
  options.borrowed_ns_max = 2 * kMilli;
  options.stall_bytes_max = kHeldMax / 2;
  options.stall_close_ns = 20 * kMilli;
  options.stall_evict_ns = 5 * kMilli;
  options.held_bytes_max = kHeldMax;
  return options;
}

/// The server's port. Takes frames of the neighbour's as well, each in memory of its very length, and notes by which
/// numbers the honest client and the server call their session.
class Tap final : public FramePort {
 public:
  explicit Tap(SimEthernetPort& inner) : inner_(inner) {}
  void inject(ByteSpan frame) { injected_.emplace_back(frame.begin(), frame.end()); }
  uint64_t honestSession() const { return honest_session_; }

  const PortFacts& facts() const override { return inner_.facts(); }
  std::string describe() const override { return inner_.describe(); }
  uint32_t receive(std::span<InFrame> into) override {
    uint32_t count = 0;
    for (; count < into.size() && !injected_.empty(); ++count) {
      const std::vector<std::byte>& bytes = injected_.front();
      auto* const held = new Held{.own = std::make_unique<std::byte[]>(bytes.size()), .inner = {}};
      if (!bytes.empty()) std::memcpy(held->own.get(), bytes.data(), bytes.size());
      into[count] = {held->own.get(), static_cast<uint32_t>(bytes.size()), held};
      injected_.pop_front();
    }
    const uint32_t begin = count;
    count += inner_.receive(into.subspan(count));
    for (InFrame& frame : into.subspan(begin, count - begin)) {
      const auto start = loadAs<wire::FrameStart>(frame.bytes);
      const auto header = loadAs<wire::PacketHeader>(frame.bytes + sizeof(start));
      if (MacAddress{start.from} == kClient) honest_session_ = header.session;
      frame.handle = new Held{.own = nullptr, .inner = frame};
    }
    return count;
  }
  void release(const InFrame& frame) noexcept override {
    const std::unique_ptr<Held> held(static_cast<Held*>(frame.handle));
    if (held->own == nullptr) inner_.release(held->inner);
  }
  OutFrame make(uint32_t bytes, std::byte*& at) override { return inner_.make(bytes, at); }
  std::byte* extend(OutFrame frame, uint32_t bytes) override { return inner_.extend(frame, bytes); }
  bool attach(OutFrame frame, const std::byte* at, uint32_t bytes, RegionId region, FrameOwner& owner) override {
    return inner_.attach(frame, at, bytes, region, owner);
  }
  void drop(OutFrame frame) noexcept override { inner_.drop(frame); }
  uint32_t send(std::span<const OutFrame> frames) override { return inner_.send(frames); }
  void stop() override { inner_.stop(); }
  bool runTimeouts() override { return inner_.runTimeouts(); }
  bool canAttach(RegionId region) const override { return inner_.canAttach(region); }

 private:
  struct Held {
    std::unique_ptr<std::byte[]> own;
    InFrame inner;
  };
  SimEthernetPort& inner_;
  std::deque<std::vector<std::byte>> injected_;
  uint64_t honest_session_ = 0;
};

/// Gives out pieces of one buffer, and counts them.
class Lender final : public ChunkOwner {
 public:
  ~Lender() { RC_CHECK_MSG(held == 0, "something borrowed does not come back"); }
  Chunk borrow(uint32_t bytes) {
    ++held;
    return {memory.data(), bytes, 1, this, 0};
  }
  void releaseChunk(uint64_t) noexcept override {
    RC_CHECK(held != 0);
    --held;
  }
  std::vector<std::byte> memory = std::vector<std::byte>(32 * 1024, std::byte{6});
  size_t held = 0;
};

struct Asked : PendingCall {
  Asked() : PendingCall(&Asked::onComplete) {}
  static void onComplete(PendingCall& call, Status status, RxMessage response) {
    auto& self = static_cast<Asked&>(call);
    self.is_over = true;
    self.is_right = status == Status::Ok;
    for (const std::byte byte : response.head()) self.is_right = self.is_right && byte == std::byte{6};
    self.bytes = response.messageBytes();
  }
  bool is_over = false;
  bool is_right = false;
  uint32_t bytes = 0;
};

struct Sink final : MessageSink {
  void onRequests(std::span<RxMessage> arrived) override {
    for (RxMessage& request : arrived) {
      fuzz::crashIfPlanted(request.messageBytes() > 32 && request.priority == runtime::Priority{3});
      for (const std::byte byte : request.head()) checksum += static_cast<uint8_t>(byte);
      requests.push_back(std::move(request));
    }
  }
  void onSessionOpen(SessionId session) override { opened.push_back(session); }
  void onSessionLost(SessionId session, Status) override { lost.push_back(session); }
  std::deque<RxMessage> requests;
  std::vector<SessionId> opened;
  std::vector<SessionId> lost;
  uint64_t checksum = 0;
};

class World {
 public:
  World() {
    RC_CHECK(server_.listen(Locator::parse("dpdk://any@1").value()).ok());
    honest_ = client_.connect(Locator::parse("dpdk://" + kServer.toString() + "@1").value(), 0, runtime::kNever);
    for (int i = 0; i < 100 && client_sink_.opened.empty(); ++i) round();
    RC_CHECK(client_sink_.opened.size() == 1);
    greet();
  }
  ~World() {
    // The honest client has noticed nothing.
    for (const uint32_t bytes : {10u, 4000u}) {
      Asked asked;
      ask(asked, bytes);
      for (int i = 0; i < 20'000 && !asked.is_over; ++i) {
        answer(bytes);
        round();
      }
      RC_CHECK_MSG(asked.is_right && asked.bytes == bytes, "an honest client is not served");
    }
    RC_CHECK(client_sink_.lost.empty() && client_.badSessionCount() == 0);
    server_sink_.requests.clear();
  }

  void run(const Step& step, ByteSpan bytes) {
    switch (step.what % 8) {
      case 0:
        tap_.inject(bytes);
        break;
      case 1:
      case 2:
        sendPacket(step, bytes, step.what % 8 == 2);
        break;
      case 3:
        sendPiece(step, bytes);
        break;
      case 4:
        answer(step.choice * 128u);
        break;
      case 5: {
        // The server asks its neighbour something, which may answer, or never does.
        if (neighbour_session_ == 0 || calls_.size() > 20) break;
        calls_.push_back(std::make_unique<Asked>());
        TxMessage request = messageOf(step.choice * 32u);
        if (server_.call(server_sink_.opened.back(), request, {.response_bytes_max = 5000}, *calls_.back()) !=
            Status::Ok) {
          calls_.pop_back();
        }
        break;
      }
      case 6:
        if (calls_.empty()) break;
        server_.abandon(server_sink_.opened.back(), *calls_.back());
        if (!calls_.back()->in_flight) calls_.pop_back();
        break;
      case 7:
        for (int i = 0; i < step.choice; ++i) round();
        break;
    }
    for (int i = 0; i < step.rounds % 8; ++i) round();
    const HeldCounts held = server_.heldCounts();
    RC_CHECK(held.block_bytes <= kHeldMax + 4 * RxBlockPool::kBlockBytes);
    RC_CHECK(held.sessions <= 2 + kGreetingsMax + 64);
  }

 private:
  void round() {
    server_.awake();
    server_.poll(server_sink_, 64);
    server_.flush();
    client_.awake();
    client_.poll(client_sink_, 64);
    client_.flush();
    scheduler_.runUntil(scheduler_.nowNs() + kRoundNs, kEventsMax);
  }

  TxMessage messageOf(uint32_t bytes) {
    TxMessage message = server_.allocate(8);
    const uint32_t head_bytes = std::min(bytes, 8u);
    std::memset(message.extendHead(head_bytes), 6, head_bytes);
    if (bytes > head_bytes) message.appendChunk(lender_.borrow(bytes - head_bytes));
    return message;
  }
  void ask(Asked& asked, uint32_t bytes) {
    TxMessage request = client_.allocate(bytes);
    std::memset(request.extendHead(bytes), 6, bytes);
    RC_CHECK(client_.call(honest_, request, {}, asked) == Status::Ok);
  }
  void answer(uint32_t bytes) {
    while (!server_sink_.requests.empty()) {
      const RxMessage request = std::move(server_sink_.requests.front());
      server_sink_.requests.pop_front();
      server_.reply(request.reply_to, messageOf(std::min(bytes, request.reply_to.response_bytes_max)));
    }
  }

  // ---- the neighbour

  void inject(const wire::FrameStart& start, const wire::PacketHeader& header, ByteSpan payload) {
    std::vector<std::byte> frame(wire::kPacketHeaderBytes + payload.size());
    storeAs(frame.data(), start);
    storeAs(frame.data() + sizeof(start), header);
    if (!payload.empty()) std::memcpy(frame.data() + wire::kPacketHeaderBytes, payload.data(), payload.size());
    tap_.inject(frame);
  }

  static wire::FrameStart startOf(wire::PacketKind kind, const MacAddress& from = kNeighbour) {
    return {.to = kServer.bytes,
            .from = from.bytes,
            .ether_type = {wire::kDatagramEtherType >> 8, wire::kDatagramEtherType & 0xff},
            .version = wire::kDatagramVersion,
            .kind = kind};
  }

  // A packet as the input has it, but for what it cannot guess.
  void sendPacket(const Step& step, ByteSpan bytes, bool is_sealed) {
    wire::PacketHeader header{};
    std::memcpy(&header, bytes.data(), std::min(bytes.size(), sizeof(header)));
    const ByteSpan payload = bytes.subspan(std::min(bytes.size(), sizeof(header)));
    header.reserved1 = 0;
    header.reserved2 = 0;
    if ((step.choice & 1) == 0) header.payload_bytes = static_cast<uint16_t>(payload.size());
    const bool is_forged = (step.choice & 2) != 0 && !is_sealed;
    if ((step.choice & 4) == 0) header.session = is_forged ? tap_.honestSession() : neighbour_session_;
    const wire::FrameStart start = startOf(static_cast<wire::PacketKind>(step.kind), is_forged ? kClient : kNeighbour);
    const PacketSeal& seal = is_sealed ? *seal_ : no_seal_;
    header.seal = seal.of(start.version, start.kind, header, std::span(&payload, 1));
    inject(start, header, payload);
  }

  // A piece of a message that makes sense by itself.
  void sendPiece(const Step& step, ByteSpan bytes) {
    std::array<uint8_t, 8> from{};
    std::memcpy(from.data(), bytes.data(), std::min(bytes.size(), from.size()));
    wire::PacketHeader header{};
    header.session = neighbour_session_;
    header.slot = from[0] % 8;
    header.sequence = from[1];
    header.message_bytes = (from[2] | uint32_t{from[3]} << 8) * (from[4] % 16 + 1);
    header.head_bytes = header.message_bytes / 2;
    header.offset = from[5] * packet_bytes_;
    header.priority = from[6] % 4;
    header.flags = from[7] & wire::kPacketAgain;
    header.response_bytes_max = 20'000;
    if (header.offset > header.message_bytes) return;
    const std::vector<std::byte> payload(std::min(packet_bytes_, header.message_bytes - header.offset));
    header.payload_bytes = static_cast<uint16_t>(payload.size());
    const auto kind = step.kind % 2 == 0 ? wire::PacketKind::Request : wire::PacketKind::Response;
    const wire::FrameStart start = startOf(kind);
    const ByteSpan span(payload);
    header.seal = seal_->of(start.version, start.kind, header, std::span(&span, 1));
    inject(start, header, payload);
  }

  void greet() {
    constexpr uint64_t kNumber = 0x1234567;
    const Identity identity{.role = Role::Client, .id = 3, .cluster_name = "fuzz", .secret = "secret"};
    GreetingStream greeting({.side = HandshakeSide::Initiator,
                             .identity = identity,
                             .slot_count = 8,
                             .peer_is_local = true,
                             .locators = {}},
                            entropy_);
    for (int i = 0; i < 100 && server_sink_.opened.size() < 2; ++i) {
      wire::PacketHeader header{};
      header.session = neighbour_session_;
      header.offset = greeting.offset();
      const wire::GreetingBody body{.session = kNumber,
                                    .received_bytes = greeting.receivedBytes(),
                                    .port = 1,
                                    .packet_bytes = kPacketBytes,
                                    .unasked_packets = 4,
                                    .wants_seal = 1,
                                    .reserved1 = 0,
                                    .reserved2 = 0};
      std::vector<std::byte> payload(bytesOf(body).begin(), bytesOf(body).end());
      const ByteSpan said = greeting.toSend(400);
      payload.insert(payload.end(), said.begin(), said.end());
      header.payload_bytes = static_cast<uint16_t>(payload.size());
      const wire::FrameStart start = startOf(wire::PacketKind::Greeting);
      const ByteSpan span(payload);
      header.seal = no_seal_.of(start.version, start.kind, header, std::span(&span, 1));
      inject(start, header, payload);
      round();
      std::array<InFrame, 8> frames;
      for (const InFrame& frame : std::span(frames).first(neighbour_.receive(frames))) {
        const auto heard = loadAs<wire::PacketHeader>(frame.bytes + sizeof(wire::FrameStart));
        const ByteSpan word(frame.bytes + wire::kPacketHeaderBytes, heard.payload_bytes);
        const auto theirs = loadAs<wire::GreetingBody>(word.data());
        neighbour_session_ = theirs.session;
        greeting.onPacket(heard.offset, theirs.received_bytes, word.subspan(sizeof(theirs)));
        neighbour_.release(frame);
      }
    }
    RC_CHECK(server_sink_.opened.size() == 2 && greeting.handshake().state() == Handshake::State::Done);
    seal_ = std::make_unique<PacketSeal>(greeting.handshake().sessionKey(), true, true);
  }

  runtime::SimScheduler scheduler_{1};
  runtime::SimClock clock_{scheduler_, "clock", {.offset_ns_max = 0, .wall_error_ns_max = 0, .drift_ppm_max = 0}};
  runtime::SeededEntropy entropy_{1};
  SimEthernet network_{
      scheduler_, {.queue_frames = 200, .ring_frames = 16, .frame_bytes_max = wire::kPacketHeaderBytes + kPacketBytes}};
  SimEthernetPort server_port_{network_, kServer, {}};
  SimEthernetPort client_port_{network_, kClient, {}};
  SimEthernetPort neighbour_{network_, kNeighbour, {}};
  Tap tap_{server_port_};
  Lender lender_;
  const Identity server_identity_{.role = Role::Server, .id = 1, .cluster_name = "fuzz", .secret = "secret"};
  const Identity client_identity_{.role = Role::Client, .id = 2, .cluster_name = "fuzz", .secret = "secret"};
  std::vector<std::unique_ptr<Asked>> calls_;
  DatagramEndpoint server_{optionsOf(),
                           {clock_, entropy_, silentTrace(), {}},
                           DatagramEndpoint::limitsOf(optionsOf()),
                           {&tap_},
                           server_identity_};
  DatagramEndpoint client_{optionsOf(),
                           {clock_, entropy_, silentTrace(), {}},
                           DatagramEndpoint::limitsOf(optionsOf()),
                           {&client_port_},
                           client_identity_};
  Sink server_sink_;
  Sink client_sink_;
  SessionId honest_;
  uint64_t neighbour_session_ = 0;
  uint32_t packet_bytes_ = kPacketBytes;
  std::unique_ptr<PacketSeal> seal_;
  const PacketSeal no_seal_{Handshake::Key{}, true, false};
};

void run(const uint8_t* data, size_t bytes) {
  World world;
  for (int steps = 0; bytes >= sizeof(Step) && steps < 200; ++steps) {
    Step step;
    std::memcpy(&step, data, sizeof(step));
    data += sizeof(step);
    bytes -= sizeof(step);
    const size_t count = std::min<size_t>({step.bytes, bytes, wire::kPacketHeaderBytes + kPacketBytes});
    world.run(step, std::as_bytes(std::span(data, count)));
    data += count;
    bytes -= count;
  }
}

}  // namespace
}  // namespace ramcore::transport::datagram

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  ramcore::transport::datagram::run(data, bytes);
  return 0;
}
