#pragma once

#include <memory>

#include "bench/support/bench_cluster.h"
#include "bench/support/socket_load.h"
#include "client/client_impl.h"
#include "runtime/real/system_clock.h"
#include "transport/tcp/tcp_transport.h"
#include "wire/frame.h"
#include "wire/master_messages.h"

namespace ramcore::bench {

/// The load loop speaking our protocol: one endpoint with as many sessions as the peers have connections. Where the
/// table lies is asked of the client library once.
class RamcoreLoad final : private transport::MessageSink {
 public:
  RamcoreLoad(BenchCluster& cluster, const Shape& shape, Keys& keys)
      : shape_(shape),
        keys_(keys),
        table_(cluster.table().id),
        sleeper_(clock_),
        transport_({}, transport::tcp::TcpContext{clock_, entropy_, silentTrace(), sleeper_}) {
    const std::string_view key = keys.at(0);
    std::string value;
    if (!cluster.client().read(cluster.table(), key, value)) die("a read failed");
    const auto* entry = cluster.client().impl().cluster().tablets().find(table_, hashKey(table_, asBytes(key)));
    if (entry == nullptr || entry->owner == nullptr) die("nobody owns the table");
    epoch_ = entry->epoch;
    server_ = ServerId(entry->owner->address.id);
    identity_.cluster_name = "ramcore";
    endpoint_ = transport_.makeEndpoint(identity_);
    const auto locator = transport::Locator::parse(cluster.serverLocator());
    if (!locator) die(locator.error().message);
    for (int i = 0; i < shape.connections; ++i) {
      sessions_.push_back(std::make_unique<Session>(*this));
      sessions_.back()->id = endpoint_->connect(*locator, server_.value, clock_.nowNs() + 10'000'000'000);
    }
    while (open_count_ < shape.connections) pollOnce();
  }
  ~RamcoreLoad() override {
    is_ending_ = true;
    for (const auto& session : sessions_) endpoint_->close(session->id);
    pollOnce();
  }
  RamcoreLoad(const RamcoreLoad&) = delete;
  RamcoreLoad& operator=(const RamcoreLoad&) = delete;

  static size_t askBytes(const Shape& shape) {
    using namespace wire;
    const size_t part = alignUp(sizeof(MultiRead::RequestPart) + kKeyBytes, 8);
    return frameBytes(static_cast<uint32_t>(shape.keys == 1
                                                ? sizeof(Read::Request) + kKeyBytes
                                                : sizeof(MultiRead::Request) + static_cast<size_t>(shape.keys) * part));
  }
  static size_t answerBytes(const Shape& shape) {
    using namespace wire;
    const size_t part = sizeof(MultiRead::ResponsePart) + kValueBytes;
    return frameBytes(
        static_cast<uint32_t>(shape.keys == 1 ? sizeof(Read::Response) + kValueBytes
                                              : sizeof(MultiRead::Response) + static_cast<size_t>(shape.keys) * part));
  }

  /// Thousand objects a second.
  double run(double seconds) {
    for (const auto& session : sessions_) startTurn(*session);
    const double begin_s = nowSeconds();
    double now_s = begin_s;
    while (now_s - begin_s < seconds) {
      for (int i = 0; i < 64; ++i) pollOnce();
      now_s = nowSeconds();
    }
    return static_cast<double>(objects_) / (now_s - begin_s) / 1000;
  }

 private:
  struct Session;
  struct Call final : transport::PendingCall {
    explicit Call(Session& owner) : PendingCall(&Call::answered), session(owner) {}
    static void answered(PendingCall& call, Status status, transport::RxMessage response) {
      Session& session = static_cast<Call&>(call).session;
      session.load.onAnswer(session, status, response);
    }
    Session& session;
  };
  struct Session {
    explicit Session(RamcoreLoad& owner) : load(owner) {
      for (int i = 0; i < owner.shape_.pipeline; ++i) calls.push_back(std::make_unique<Call>(*this));
    }
    RamcoreLoad& load;
    transport::SessionId id;
    std::vector<std::unique_ptr<Call>> calls;
    int waits = 0;
  };

  void onRequests(std::span<transport::RxMessage>) override {}
  void onSessionOpen(transport::SessionId) override { ++open_count_; }
  void onSessionLost(transport::SessionId, Status reason) override {
    if (!is_ending_) die("a session was lost: " + std::string(name(reason)));
  }
  void pollOnce() {
    endpoint_->poll(*this, endpoint_->limits().burst_messages_max);
    endpoint_->flush();
  }

  void startTurn(Session& session) {
    session.waits = shape_.pipeline;
    for (const auto& call : session.calls) {
      transport::TxMessage request = shape_.keys == 1 ? encodeRead() : encodeMultiRead();
      if (endpoint_->call(session.id, request, {}, *call) != Status::Ok) die("a request was not taken");
    }
  }
  transport::TxMessage encodeRead() {
    transport::TxMessage message = endpoint_->allocate(sizeof(wire::Read::Request) + kKeyBytes);
    message.appendHead(wire::Read::Request{.header = {.opcode = wire::Opcode::Read, .target = server_},
                                           .epoch = epoch_,
                                           .table = table_,
                                           .key_bytes = kKeyBytes});
    message.appendHead(asBytes(keys_.next()));
    return message;
  }
  transport::TxMessage encodeMultiRead() {
    transport::TxMessage message = endpoint_->allocate(static_cast<uint32_t>(askBytes(shape_)));
    message.appendHead(wire::MultiRead::Request{.header = {.opcode = wire::Opcode::MultiRead, .target = server_},
                                                .count = static_cast<uint32_t>(shape_.keys)});
    constexpr std::byte kZeros[8] = {};
    for (int i = 0; i < shape_.keys; ++i) {
      message.appendHead(wire::MultiRead::RequestPart{.epoch = epoch_, .table = table_, .key_bytes = kKeyBytes});
      message.appendHead(asBytes(keys_.next()));
      constexpr size_t kPart = sizeof(wire::MultiRead::RequestPart) + kKeyBytes;
      message.appendHead(ByteSpan(kZeros, alignUp(kPart, 8) - kPart));
    }
    return message;
  }
  void onAnswer(Session& session, Status status, const transport::RxMessage& response) {
    if (is_ending_) return;
    if (status != Status::Ok || loadAs<wire::ResponseHeader>(response.head().data()).status != Status::Ok ||
        response.messageBytes() + sizeof(wire::FrameHeader) + 8 <= answerBytes(shape_)) {
      die("a read was refused");
    }
    if (--session.waits != 0) return;
    objects_ += static_cast<uint64_t>(shape_.objectsPerTurn());
    startTurn(session);
  }

  const Shape shape_;
  Keys& keys_;
  const TableId table_;
  TabletEpoch epoch_;
  ServerId server_;
  runtime::SystemClock clock_;
  runtime::SystemEntropy entropy_;
  transport::Identity identity_;
  transport::tcp::AsioSleeper sleeper_;
  transport::tcp::TcpTransport transport_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  int open_count_ = 0;
  bool is_ending_ = false;
  uint64_t objects_ = 0;
};

}  // namespace ramcore::bench
