#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "log/format/certificate.h"
#include "master/replication/replica_manager.h"
#include "unit/log/log_fixture.h"
#include "unit/rpc/rpc_fixture.h"
#include "wire/replica_messages.h"

namespace ramcore::master {

inline constexpr int64_t kMilli = runtime::kNanosPerMilli;

/// A backup that keeps what it is sent, and answers as the test tells it to. It checks what any backup relies on.
class ScriptedBackup {
 public:
  using Ask = wire::WriteReplica;
  enum class Mode : uint8_t {
    Answer,
    Hold,    ///< carries it out, and answers when release() is called, or never
    Refuse,  ///< answers `refusal`
    Lie,     ///< says that it has less than it was sent
  };
  struct Write {
    SegmentId segment;
    uint64_t epoch = 0;
    uint32_t offset = 0;
    uint32_t bytes = 0;
    uint8_t flags = 0;
    bool is_flush_call = false;  ///< flushed because somebody waits, not because a segment or an epoch begins or ends
    bool has(Ask::Flags flag) const { return (flags & flag) != 0; }
  };
  struct Kept {
    std::vector<std::byte> bytes;
    uint64_t epoch = 0;
    std::optional<log::Certificate> certificate;
    std::optional<log::Certificate> flushed;  // the newest that was asked for with a flush
    uint32_t flushedBytes() const { return flushed ? flushed->length_bytes : 0; }
  };

  ScriptedBackup(rpc::RpcProcess& where, uint64_t number) : process(where), id(number) {
    const rpc::OpcodeRules rules{.roles = rpc::allow({transport::Role::Server}), .dispatch_only = true};
    process.dispatch().services().add<&ScriptedBackup::write>(wire::Opcode::WriteReplica, *this, rules);
    process.dispatch().services().add<&ScriptedBackup::free>(wire::Opcode::FreeReplica, *this, rules);
    process.listen();
  }

  void write(rpc::Request request) {
    const auto ask = loadAs<Ask::Request>(request.head().data());
    writes.push_back({ask.segment, ask.replica_epoch, ask.offset_bytes, ask.data_bytes, ask.flags, isFlushCall(ask)});
    if (mode == Mode::Refuse && concerns(ask.segment)) return request.reply(refusal);
    if (is_full && isHeadOfWrites(ask)) return request.reply(Status::NoSpace);
    if (refused_writes > 0) {
      --refused_writes;
      return request.reply(Status::RetryLater);
    }
    if (isBehindGap(ask)) {
      ++gaps;
      return request.reply(Status::BadRequest);
    }
    if (isStale(ask)) {
      ++stale;
      return request.reply(Status::StaleEpoch);
    }
    std::vector<std::byte> data;
    const auto add = [&data](ByteSpan bytes) { data.insert(data.end(), bytes.begin(), bytes.end()); };
    add(request.head().subspan(sizeof(ask)));
    for (const ByteSpan& span : request.message().tail()) add(span);
    ASSERT_EQ(data.size(), ask.data_bytes);
    store(ask, data);
    const Kept& replica = kept[ask.segment];
    Ask::Response response{.header = {.status = Status::Ok},
                           .length_bytes = static_cast<uint32_t>(replica.bytes.size()),
                           .flushed_bytes = replica.flushedBytes()};
    if (mode == Mode::Lie && concerns(ask.segment)) --response.length_bytes;
    if (writes.back().is_flush_call && flush_mode != Mode::Answer) {
      if (flush_mode == Mode::Refuse) return request.reply(refusal);
      if (flush_mode == Mode::Lie) response.flushed_bytes = flush_lie;
      if (flush_mode == Mode::Lie) return request.replyWith(response);
      held.emplace_back(std::make_unique<rpc::Request>(std::move(request)), response);
      return;
    }
    if (mode != Mode::Hold || !concerns(ask.segment)) return request.replyWith(response);
    held.emplace_back(std::make_unique<rpc::Request>(std::move(request)), response);
  }
  void free(rpc::Request request) {
    const auto ask = loadAs<wire::FreeReplica::Request>(request.head().data());
    freed.push_back(ask.segment);
    kept.erase(ask.segment);
    request.reply(frees_refused-- > 0 ? Status::RetryLater : Status::Ok);
  }
  /// Answers everything that is held.
  void release() {
    process.onDispatch([this] {
      for (auto& [request, response] : std::exchange(held, {})) request->replyWith(response);
    });
  }
  std::set<SegmentId> heldSegments() const {
    std::set<SegmentId> segments;
    for (const auto& [request, response] : held) {
      segments.insert(loadAs<Ask::Request>(request->head().data()).segment);
    }
    return segments;
  }
  /// Whether a recovery would find the first `bytes` of the segment here, under `epoch` or a later one.
  bool holds(SegmentId segment, uint32_t bytes, uint64_t epoch = 1) const {
    const auto found = kept.find(segment);
    if (found == kept.end() || !found->second.certificate) return false;
    const log::Certificate& certificate = *found->second.certificate;
    return certificate.replica_epoch >= epoch && certificate.length_bytes >= bytes &&
           log::verifyCertificate(certificate, found->second.bytes);
  }
  bool hasClosed(SegmentId segment) const {
    const auto found = kept.find(segment);
    return found != kept.end() && found->second.certificate && found->second.certificate->closed &&
           holds(segment, found->second.certificate->length_bytes);
  }

  rpc::RpcProcess& process;
  const uint64_t id;
  Mode mode = Mode::Answer;
  Mode flush_mode = Mode::Answer;  // of flushes that come without anything else
  uint32_t flush_lie = 0;
  Status refusal = Status::NoSpace;
  SegmentId only;        // what `mode` is for; none: all segments
  SegmentId spared;      // but for this one
  bool is_full = false;  // for heads that are not of the reserve
  int frees_refused = 0;
  int refused_writes = 0;  // the next ones come too early
  uint64_t gaps = 0;       // writes behind such ones, refused as any backup does
  bool expects_gaps = false;
  uint64_t stale = 0;  // writes of an earlier epoch than the replica's, refused as any backup does
  bool expects_stale = false;
  std::map<SegmentId, Kept> kept;
  std::vector<Write> writes;
  std::vector<SegmentId> freed;
  std::vector<std::pair<std::unique_ptr<rpc::Request>, Ask::Response>> held;

 private:
  bool isBehindGap(const Ask::Request& ask) const {
    const auto found = kept.find(ask.segment);
    return found != kept.end() && ask.offset_bytes > found->second.bytes.size();
  }
  bool isStale(const Ask::Request& ask) const {
    const auto found = kept.find(ask.segment);
    return found != kept.end() && ask.replica_epoch < found->second.epoch;
  }
  bool isFlushCall(const Ask::Request& ask) const {
    const auto found = kept.find(ask.segment);
    if ((ask.flags & Ask::kFlush) == 0 || found == kept.end() || found->second.epoch != ask.replica_epoch) return false;
    if (!found->second.certificate) return false;
    log::Certificate certificate;
    return log::decodeCertificate(ask.certificate, certificate) != Status::Ok || !certificate.closed;
  }
  static bool isHeadOfWrites(const Ask::Request& ask) {
    return (ask.flags & (Ask::kOpen | Ask::kHead | Ask::kReserve)) == (Ask::kOpen | Ask::kHead);
  }
  bool concerns(SegmentId segment) const { return segment != spared && (!only || only == segment); }
  void store(const Ask::Request& ask, const std::vector<std::byte>& data) {
    const bool opens = (ask.flags & Ask::kOpen) != 0;
    Kept& replica = kept[ask.segment];
    if (opens && ask.replica_epoch > replica.epoch) replica = {};
    ASSERT_TRUE(opens || replica.epoch != 0) << "a write to a replica that nobody opened";
    ASSERT_TRUE(opens || ask.replica_epoch == replica.epoch || (ask.flags & Ask::kCertified) != 0)
        << "a new epoch without a certificate for what is there";
    replica.epoch = ask.replica_epoch;
    replica.bytes.resize(std::max(replica.bytes.size(), size_t{ask.offset_bytes} + data.size()));
    std::copy(data.begin(), data.end(), replica.bytes.begin() + ask.offset_bytes);
    if (ask.flags == Ask::kFlush) replica.flushed = replica.certificate;
    if ((ask.flags & Ask::kCertified) == 0) return;
    log::Certificate certificate;
    ASSERT_EQ(log::decodeCertificate(ask.certificate, certificate), Status::Ok);
    ASSERT_EQ(certificate.replica_epoch, ask.replica_epoch);
    ASSERT_EQ(certificate.length_bytes, replica.bytes.size()) << "a certificate for less than there is";
    ASSERT_TRUE(log::verifyCertificate(certificate, replica.bytes));
    replica.certificate = certificate;
    if ((ask.flags & Ask::kFlush) != 0) replica.flushed = certificate;
  }
};

/// A coordinator that stores floors as the test tells it to.
class ScriptedFloors final : public FloorKeeper {
 public:
  using Floor = std::pair<SegmentId, uint64_t>;
  explicit ScriptedFloors(runtime::Executor& executor) : changed_(executor) {}
  runtime::Task<Status> raiseFloor(SegmentId segment, uint64_t replica_epoch) override {
    asked.emplace_back(segment, replica_epoch);
    if (on_ask) on_ask(segment, replica_epoch);
    while (holding) {
      [[maybe_unused]] const Status woken = co_await changed_.wait();
    }
    if (answer == Status::Ok) stored.emplace_back(segment, replica_epoch);
    co_return answer;
  }
  /// On the executor.
  void release() {
    holding = false;
    changed_.notifyAll();
  }

  bool holding = false;
  Status answer = Status::Ok;
  std::function<void(SegmentId, uint64_t)> on_ask;
  std::vector<Floor> asked;
  std::vector<Floor> stored;

 private:
  runtime::Signal changed_;
};

/// A log on one server of a simulated network, with its replicas on others.
class ReplicaTest : public rpc::RpcTest {
 protected:
  static constexpr uint64_t kSelf = 11;

  ReplicaTest() : server_(add("server", {.role = transport::Role::Server, .id = kSelf})) {}
  ~ReplicaTest() override {
    for (const auto& backup : backups_) {
      EXPECT_TRUE(backup->gaps == 0 || backup->expects_gaps) << "a gap";
      EXPECT_TRUE(backup->stale == 0 || backup->expects_stale) << "the epoch of a replica went back";
    }
    if (manager_ != nullptr) stop();
    for (auto& backup : backups_) backup->release();
    log_.reset();
    manager_.reset();
  }

  /// Backups with the ids 1 to `count`, all members.
  void addBackups(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const uint64_t number = backups_.size() + 1;
      rpc::RpcProcess& process =
          add("backup" + std::to_string(number), {.role = transport::Role::Server, .id = number});
      backups_.push_back(std::make_unique<ScriptedBackup>(process, number));
    }
  }
  ScriptedBackup& backup(uint64_t id) { return *backups_.at(id - 1); }

  void makeManager(const ReplicationOptions& options = {}) {
    const ReplicaManager::Environment environment{
        .clock = server_.node.clock(),
        .trace = silentTrace(),
        .dispatch = server_.dispatch(),
        .caller = *server_.caller,
        .floors = floors_,
        .backup = gauge_,
        .on_spoilt = [this](const std::string& why) { spoilt_.push_back(why); }};
    manager_ = std::make_unique<ReplicaManager>(options, environment, runtime::Random(3));
  }
  void makeLog(const log::LogConfig& config = log::LogConfig::forTest()) {
    ASSERT_TRUE(config.validate().ok());
    memory_ = log::LogMemory::open(config.memory_bytes).value();
    owner_ = std::make_unique<log::MapOwner>(*memory_);
    server_.onDispatch([&] {
      manager_->begin(ClusterId(7), ServerId(kSelf));
      log_ = std::make_unique<log::Log>(config, log::LogIdentity{ClusterId(7), ServerId(kSelf)}, *memory_,
                                        log::Log::Environment{*owner_, *manager_, rcu_, pins_});
    });
  }
  /// `count` backups, of which the first `members` are members, and a log whose first head is open.
  void start(size_t count, std::vector<uint64_t> members, const ReplicationOptions& options = {},
             const log::LogConfig& config = log::LogConfig::forTest()) {
    addBackups(count);
    makeManager(options);
    setMembers(members);
    makeLog(config);
    ASSERT_TRUE(runUntil([this] { return log_->headId() == SegmentId(1); }));
  }
  Member member(uint64_t id) {
    return {.id = ServerId(id),
            .address = id == kSelf ? addressOf(server_, id) : addressOf(backup(id).process, id),
            .keeps_replicas = true,
            .failure_domain = domains_[id]};
  }
  void setMembers(const std::vector<uint64_t>& ids) {
    std::vector<Member> members{member(kSelf)};
    for (const uint64_t id : ids) members.push_back(member(id));
    server_.onDispatch([&] { manager_->setMembers(std::move(members)); });
  }
  LogPosition put(const std::string& key, const std::string& value = "value") {
    Status status = Status::Ok;
    server_.onDispatch([&] { status = owner_->put(*log_, key, value); });
    EXPECT_EQ(status, Status::Ok);
    return owner_->end();
  }
  /// Asks for it, as somebody who waits would.
  bool becomesDurable(LogPosition position, int64_t within_ns = 5 * runtime::kNanosPerSecond) {
    server_.onDispatch([&] { manager_->requestDurable(position); });
    const int64_t until_ns = scheduler.nowNs() + within_ns;
    while (!log_->isDurable(position) && scheduler.nowNs() < until_ns) runFor(runtime::kNanosPerMilli);
    return log_->isDurable(position);
  }
  /// Asks for it, as somebody who waits would.
  bool becomesFlushed(LogPosition position, int64_t within_ns = 5 * runtime::kNanosPerSecond) {
    server_.onDispatch([&] { log_->requestFlush(position); });
    return comesTrue([&] { return log_->isFlushed(position); }, within_ns);
  }
  size_t flushCallsTo(uint64_t id) {
    return static_cast<size_t>(
        std::ranges::count_if(backup(id).writes, [](const auto& write) { return write.is_flush_call; }));
  }
  bool comesTrue(const std::function<bool()>& what, int64_t within_ns = 20 * runtime::kNanosPerSecond) {
    const int64_t until_ns = scheduler.nowNs() + within_ns;
    while (!what() && scheduler.nowNs() < until_ns) runFor(runtime::kNanosPerMilli);
    return what();
  }
  /// A new head; the former one is closed everywhere.
  void roll() {
    SegmentId request;
    server_.onDispatch([&] { request = log_->requestRoll(); });
    ASSERT_TRUE(comesTrue([&] { return log_->isRolled(request); }));
  }
  std::vector<uint64_t> holders(LogPosition position, uint64_t epoch = 1) const {
    std::vector<uint64_t> ids;
    for (const auto& backup : backups_) {
      if (backup->holds(position.segment, position.offset_bytes, epoch)) ids.push_back(backup->id);
    }
    return ids;
  }
  ReplicaManager::Counts counts() {
    ReplicaManager::Counts counts;
    server_.onDispatch([&] { counts = manager_->counts(); });
    return counts;
  }
  void releaseFloors() {
    server_.onDispatch([this] { floors_.release(); });
  }
  void stop() {
    server_.onDispatch([this] {
      manager_->stop();
      floors_.release();
    });
    ASSERT_TRUE(runUntil([this] { return manager_->isIdle(); }));
  }

  rpc::RpcProcess& server_;
  std::vector<std::unique_ptr<ScriptedBackup>> backups_;
  std::map<uint64_t, std::string> domains_;
  ScriptedFloors floors_{server_.dispatch()};
  const BackupGauge* gauge_ = nullptr;  // for makeManager()
  std::vector<std::string> spoilt_;     // why the server should stop
  std::unique_ptr<ReplicaManager> manager_;
  std::unique_ptr<log::LogMemory> memory_;
  std::unique_ptr<log::MapOwner> owner_;
  runtime::SimRcu rcu_;
  runtime::PinRegistry pins_{4};
  std::unique_ptr<log::Log> log_;
};

}  // namespace ramcore::master
