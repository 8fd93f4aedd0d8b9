#include "tools/rcnic/probes/endpoint_probe.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "base/trace.h"
#include "runtime/real/system_clock.h"
#include "tools/rcnic/probes/processors.h"
#include "tools/rcnic/probes/transmit_buffers.h"
#include "transport/shm/shm_transport.h"
#include "transport/tcp/asio_sleeper.h"
#include "transport/tcp/tcp_transport.h"

namespace ramcore::rcnic {
namespace {

using transport::Endpoint;
using transport::Locator;
using transport::RxMessage;
using transport::SessionId;
using transport::TxMessage;

constexpr uint32_t kMessageBytesMax = 64 * 1024;
constexpr uint32_t kAnswerBytes = 8;
constexpr int64_t kConnectNs = 10 * runtime::kNanosPerSecond;

/// A directory for the socket of shm, removed at the end.
class SocketDirectory {
 public:
  static Outcome<SocketDirectory> make() {
    const char* const base = std::getenv("TMPDIR");
    std::string path = std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/rcnicXXXXXX";
    if (::mkdtemp(path.data()) == nullptr) {
      return Failure{Status::IoError, "cannot make a directory like " + path + " for the socket of shm: " +
                                          std::strerror(errno) + "; set TMPDIR to one that can be written"};
    }
    return SocketDirectory(std::move(path));
  }
  SocketDirectory(SocketDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  SocketDirectory& operator=(SocketDirectory&&) = delete;
  ~SocketDirectory() {
    if (path_.empty()) return;
    ::unlink(socket().c_str());
    ::unlink((socket() + ".lock").c_str());
    ::rmdir(path_.c_str());
  }
  std::string socket() const { return path_ + "/socket"; }

 private:
  explicit SocketDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// One end: a transport of its own with one endpoint.
struct EndpointSide {
  EndpointSide(const std::string& name, transport::Role role)
      : sleeper(clock), identity{.role = role, .id = 0, .cluster_name = "rcnic", .secret = {}} {
    Trace& trace = stderrTrace("rcnic");
    if (name == "shm") {
      shm.emplace(transport::shm::ShmOptions{},
                  transport::shm::ShmContext{.clock = clock, .entropy = entropy, .trace = trace, .sleeper = &sleeper});
      endpoint = shm->makeEndpoint(identity);
    } else {
      tcp.emplace(transport::tcp::TcpOptions{},
                  transport::tcp::TcpContext{.clock = clock, .entropy = entropy, .trace = trace, .sleeper = sleeper});
      endpoint = tcp->makeEndpoint(identity);
    }
  }

  runtime::SystemClock clock;
  runtime::SystemEntropy entropy;
  transport::tcp::AsioSleeper sleeper;
  transport::Identity identity;
  std::optional<transport::shm::ShmTransport> shm;
  std::optional<transport::tcp::TcpTransport> tcp;
  std::unique_ptr<Endpoint> endpoint;
};

/// Answers each request with a few bytes, on a thread of its own, until it is destroyed.
class Answerer final : private transport::MessageSink {
 public:
  Answerer(std::string name, const Locator& where) {
    std::promise<Outcome<Locator>> listening;
    auto listened = listening.get_future();
    thread_ = std::thread(
        [this, name = std::move(name), where, promise = std::move(listening)]() mutable { run(name, where, promise); });
    place_.emplace(listened.get());
  }
  ~Answerer() override {
    stops_.store(true, std::memory_order_relaxed);
    thread_.join();
  }
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;

  const Outcome<Locator>& place() const { return *place_; }

 private:
  void run(const std::string& name, const Locator& where, std::promise<Outcome<Locator>>& listening) {
    pinReceiver();
    EndpointSide side(name, transport::Role::Server);
    endpoint_ = side.endpoint.get();
    listening.set_value(endpoint_->listen(where));
    while (!stops_.load(std::memory_order_relaxed)) {
      endpoint_->poll(*this, endpoint_->limits().burst_messages_max);
      endpoint_->flush();
    }
  }
  void onRequests(std::span<RxMessage> requests) override {
    for (RxMessage& request : requests) {
      TxMessage answer = endpoint_->allocate(kAnswerBytes);
      std::memset(answer.extendHead(kAnswerBytes), 0, kAnswerBytes);
      endpoint_->reply(request.reply_to, std::move(answer));
    }
  }
  void onSessionOpen(SessionId) override {}
  void onSessionLost(SessionId, Status) override {}

  std::atomic<bool> stops_{false};
  Endpoint* endpoint_ = nullptr;  // of the thread
  std::optional<Outcome<Locator>> place_;
  std::thread thread_;
};

class EndpointProbe final : public Probe, private transport::MessageSink, private transport::ChunkOwner {
 public:
  static Outcome<std::unique_ptr<Probe>> open(const std::string& name) {
    std::optional<SocketDirectory> directory;
    std::string place = "tcp://127.0.0.1:0";
    if (name == "shm") {
      auto made = SocketDirectory::make();
      if (!made.ok()) return std::move(made).error();
      directory.emplace(std::move(made).value());
      place = "shm://" + directory->socket();
    }
    const auto where = Locator::parse(place);
    if (!where.ok()) return where.error();
    std::unique_ptr<EndpointProbe> probe(new EndpointProbe(name, std::move(directory), *where));
    auto connected = probe->connect();
    if (!connected.ok()) return std::move(connected).error();
    return std::unique_ptr<Probe>(std::move(probe));
  }

  ~EndpointProbe() override {
    if (session_) side_.endpoint->close(session_);
  }

  const ProbeTraits& traits() const override { return traits_; }
  Outcome<bool> useMemory(std::span<std::byte>) override { return true; }  // what they send from needs no registration

  Outcome<bool> post(const Transmission& transmission) override {
    if (lost_) return lostSession();
    if (free_calls_.empty()) return false;
    Call& call = *free_calls_.back();
    TxMessage request = side_.endpoint->allocate(kAnswerBytes);
    std::memset(request.extendHead(kAnswerBytes), 0, kAnswerBytes);
    if (transmission.mode == Mode::CopyOut) {
      append(request, buffers_->fill(call.index, transmission.pieces));
    } else {
      for (const Piece& piece : transmission.pieces) append(request, piece);
    }
    const Status status = side_.endpoint->call(session_, request, {}, call);
    if (status == Status::RetryLater) return false;
    if (status != Status::Ok) return lostSession();
    free_calls_.pop_back();
    side_.endpoint->flush();
    return true;
  }

  Outcome<uint32_t> reap() override {
    if (lost_) return lostSession();
    const uint32_t before = outstanding();
    side_.endpoint->poll(*this, side_.endpoint->limits().burst_messages_max);
    side_.endpoint->flush();
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

  EndpointProbe(const std::string& name, std::optional<SocketDirectory> directory, const Locator& where)
      : directory_(std::move(directory)), answerer_(name, where), side_(name, transport::Role::Client) {
    const transport::Limits& limits = side_.endpoint->limits();
    buffers_.emplace(limits.slots_per_session, kMessageBytesMax);
    traits_.subject = {.transport = name, .device = "", .is_software = true};
    traits_.operations = {Operation::Send};
    traits_.pieces_max = limits.gather_count_max;
    traits_.inline_bytes_max = limits.inline_bytes_max;
    traits_.message_bytes_max = kMessageBytesMax;
    traits_.outstanding_max = limits.slots_per_session;
    for (uint32_t i = 0; i < traits_.outstanding_max; ++i) free_calls_.push_back(&calls_.emplace_back(*this, i));
  }

  Outcome<bool> connect() {
    if (!answerer_.place().ok()) return answerer_.place().error();
    const int64_t deadline_ns = side_.clock.nowNs() + kConnectNs;
    const SessionId session = side_.endpoint->connect(*answerer_.place(), 0, deadline_ns);
    while (!session_ && !lost_) side_.endpoint->poll(*this, side_.endpoint->limits().burst_messages_max);
    if (lost_ || session_ != session) return lostSession();
    return true;
  }

  void append(TxMessage& request, const Piece& piece) {
    request.appendChunk({.address = piece.address, .bytes = piece.bytes, .region = 0, .owner = this, .token = 0});
  }
  Failure lostSession() const {
    return Failure{Status::IoError, traits_.subject.transport +
                                        ": the session with the receiver in this process is lost; the lines above may "
                                        "say why, else run it again"};
  }

  void releaseChunk(uint64_t) noexcept override {}  // the memory stays as it is
  void onRequests(std::span<RxMessage>) override {}
  void onSessionOpen(SessionId session) override { session_ = session; }
  void onSessionLost(SessionId, Status) override { lost_ = true; }

  // In the order of life: the session ends, then its other end, then the socket.
  std::optional<SocketDirectory> directory_;
  Answerer answerer_;
  std::deque<Call> calls_;
  std::vector<Call*> free_calls_;
  std::optional<TransmitBuffers> buffers_;  // outlives the messages that are sent from it
  EndpointSide side_;
  ProbeTraits traits_;
  SessionId session_;
  bool lost_ = false;
};

}  // namespace

Outcome<std::unique_ptr<Probe>> openEndpointProbe(const std::string& transport) {
  return EndpointProbe::open(transport);
}

}  // namespace ramcore::rcnic
