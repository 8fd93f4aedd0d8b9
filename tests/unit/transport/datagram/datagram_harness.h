#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/sim/sim_clock.h"
#include "runtime/sim/sim_scheduler.h"
#include "transport/datagram/datagram_endpoint.h"
#include "transport/datagram/faulty_port.h"
#include "transport/sim/sim_ethernet.h"

/// Processes at a switch in simulated time, for tests of DatagramEndpoint.
namespace ramcore::transport::datagram {

inline constexpr int64_t kMicro = runtime::kNanosPerMicro;
inline constexpr int64_t kMilli = runtime::kNanosPerMilli;
inline constexpr int64_t kSecond = runtime::kNanosPerSecond;

struct Lan {
  explicit Lan(uint64_t seed = 1, const SimEthernet::Options& options = {})
      : scheduler(seed),
        clock(scheduler, "clock", {.offset_ns_max = 0, .wall_error_ns_max = 0, .drift_ppm_max = 0}),
        entropy(seed),
        network(scheduler, options) {}
  int64_t nowNs() { return clock.nowNs(); }
  void pass(int64_t ns) { scheduler.runUntil(scheduler.nowNs() + ns, 10'000'000); }

  runtime::SimScheduler scheduler;
  runtime::SimClock clock;
  runtime::SeededEntropy entropy;
  SimEthernet network;
};

inline MacAddress macOf(uint8_t number) { return {{2, 0, 0, 0, 0, number}}; }

/// Writes, or finds, the bytes from `from` on of the content that is called `name`: bytes of another place, or of
/// another content, are other ones.
void fillContent(MutableByteSpan into, uint32_t name, size_t from);
bool isContent(ByteSpan bytes, uint32_t name, size_t from);
bool hasContent(const RxMessage& message, uint32_t bytes, uint32_t name);

/// Gives out memory that is registered, as far as the simulated port is concerned, and wipes it when it comes back: a
/// port that reads it later sends wrong bytes. Outlives the messages that borrow it.
class Lender final : public ChunkOwner {
 public:
  explicit Lender(Lan& lan) : lan_(lan) {}
  Chunk borrow(uint32_t bytes, uint32_t name, size_t from);
  void releaseChunk(uint64_t token) noexcept override;
  size_t borrowedCount() const { return borrowed_.size(); }
  size_t heldCount() const { return held_; }
  bool isAnyReleasedTwice() const { return is_any_released_twice_; }
  /// The longest time for which anything that has come back was away.
  int64_t longestNs() const { return longest_ns_; }

 private:
  struct Borrowed {
    std::vector<std::byte> bytes;
    int64_t since_ns = 0;
    bool is_released = false;
  };
  Lan& lan_;
  std::vector<std::unique_ptr<Borrowed>> borrowed_;
  size_t held_ = 0;
  int64_t longest_ns_ = 0;
  bool is_any_released_twice_ = false;
};

/// The lines that an endpoint traces about its peers.
class Lines final : public Trace {
 public:
  Lines() { setLevel(TraceLevel::Debug); }
  void write(TraceLevel, std::string_view text) override { all.emplace_back(text); }
  /// How many lines have this in them.
  size_t count(std::string_view text) const {
    return static_cast<size_t>(
        std::ranges::count_if(all, [&](const auto& line) { return line.find(text) != std::string::npos; }));
  }
  std::vector<std::string> all;
};

/// A call whose outcome is kept.
struct Asked : PendingCall {
  Asked() : PendingCall(&Asked::onComplete) {}
  static void onComplete(PendingCall& call, Status status, RxMessage response);
  int completions = 0;
  Status status = Status::Internal;
  RxMessage response;
  std::function<void(Asked&)> then;
};

/// A port whose wire can be cut: it takes nothing more then.
class CutPort final : public FramePort {
 public:
  explicit CutPort(FramePort& inner) : inner_(inner) {}
  const PortFacts& facts() const override { return inner_.facts(); }
  std::string describe() const override { return inner_.describe(); }
  uint32_t receive(std::span<InFrame> into) override { return inner_.receive(into); }
  void release(const InFrame& frame) noexcept override { inner_.release(frame); }
  OutFrame make(uint32_t bytes, std::byte*& at) override { return inner_.make(bytes, at); }
  std::byte* extend(OutFrame frame, uint32_t bytes) override { return inner_.extend(frame, bytes); }
  bool attach(OutFrame frame, const std::byte* at, uint32_t bytes, RegionId region, FrameOwner& owner) override {
    return inner_.attach(frame, at, bytes, region, owner);
  }
  void drop(OutFrame frame) noexcept override { inner_.drop(frame); }
  uint32_t send(std::span<const OutFrame> frames) override { return is_cut ? 0 : inner_.send(frames); }
  void stop() override { inner_.stop(); }
  bool runTimeouts() override { return inner_.runTimeouts(); }
  bool canAttach(RegionId region) const override { return inner_.canAttach(region); }

  bool is_cut = false;

 private:
  FramePort& inner_;
};

/// One process: a port and an endpoint, which answers requests with their own bytes unless told otherwise.
class Station final : private MessageSink {
 public:
  struct Setup {
    Role role = Role::Client;
    std::string secret = "secret";
    DatagramOptions options = {};
    FaultRates rates = {};
    std::function<void(int64_t)> wake_by = {};
  };
  Station(Lan& lan, uint8_t number, const Setup& setup);
  ~Station() override { die(); }
  Station(const Station&) = delete;
  Station& operator=(const Station&) = delete;

  Locator listen();
  SessionId connect(const Station& to, int64_t within_ns = runtime::kNanosPerSecond);
  /// A session that is open. Fails the test if it does not open.
  SessionId open(Station& to);
  /// A round of a thread that has just been asleep: it looks at the clock.
  void step();
  /// One of a thread that does not sleep.
  void spin();
  void die() {
    held.clear();
    endpoint.reset();
  }
  /// A message of so many bytes: some in the head, the others in chunks that are borrowed.
  TxMessage make(uint32_t bytes, uint32_t name, uint32_t chunk_bytes = 100'000);
  Status call(SessionId session, Asked& asked, uint32_t bytes, uint32_t name, uint32_t chunk_bytes = 100'000);
  void answer(const RxMessage& request);

  Lan& lan;
  const Identity identity;
  Lines trace;
  SimEthernetPort port;
  FaultyPort faulty;
  CutPort cut;
  Lender lender;  // outlives the endpoint
  std::unique_ptr<DatagramEndpoint> endpoint;
  std::function<void(RxMessage&)> on_request;
  std::vector<RxMessage> held;  // where on_request is to keep them
  std::vector<SessionId> opened;
  std::vector<std::pair<SessionId, Status>> lost;
  uint64_t request_count = 0;

 private:
  void onRequests(std::span<RxMessage> requests) override;
  void onSessionOpen(SessionId session) override { opened.push_back(session); }
  void onSessionLost(SessionId session, Status reason) override { lost.emplace_back(session, reason); }
};

/// Steps all of them until `condition` holds; false if it does not within so much simulated time.
bool runUntil(Lan& lan, const std::vector<Station*>& stations, const std::function<bool()>& condition,
              int64_t within_ns = 20 * runtime::kNanosPerSecond, int64_t step_ns = 5'000);

}  // namespace ramcore::transport::datagram
