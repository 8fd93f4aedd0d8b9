#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "backup/backup.h"
#include "backup/backup_service.h"
#include "base/hash.h"
#include "rpc/control_call.h"
#include "runtime/sim/sim_storage.h"
#include "sim/cluster/rpc_process.h"
#include "tests/unit/backup/segment_maker.h"

/// A backup as others meet it: over sessions, with a coordinator and masters that answer its questions.
namespace ramcore::backup::served {

namespace control = wire::control;
using sim::NotedCall;
using sim::RpcProcess;
using transport::Role;
using wire::Opcode;
using Flags = wire::WriteReplica;
using Range = wire::ReadReplica::Range;

inline constexpr ClusterId kCluster{7};
inline constexpr uint64_t kBackupId = 2;
inline constexpr uint64_t kMasterId = 5;
inline constexpr ServerId kMaster{kMasterId};
inline constexpr uint32_t kSegmentBytes = 64 << 10;
inline constexpr TableId kTable{3};

/// What a coordinator and a master know about replicas.
struct Knowing {
  void addTo(rpc::ServiceTable& table) {
    const rpc::OpcodeRules rules{.roles = rpc::allow({Role::Server}), .any_target = true};
    table.add<&Knowing::checkMasters>(Opcode::CheckMasters, *this, rules);
    table.add<&Knowing::checkReplicas>(Opcode::CheckReplicas, *this, rules);
  }
  void checkMasters(rpc::Request request) {
    control::CheckMastersRequest ask;
    EXPECT_TRUE(rpc::parseRequest(request, ask));
    ++questions;
    control::CheckMastersResponse answer;
    answer.set_start(start);
    for (const uint64_t master : ask.masters()) {
      answer.add_standings(standings.contains(master) ? standings[master] : control::STANDING_UNKNOWN);
      if (!alive_at.contains(master)) continue;
      answer.add_masters()->set_id(master);
      answer.mutable_masters(answer.masters_size() - 1)->add_locators(alive_at[master]);
    }
    rpc::replyControl(std::move(request), answer);
  }
  void checkReplicas(rpc::Request request) {
    control::CheckReplicasRequest ask;
    EXPECT_TRUE(rpc::parseRequest(request, ask));
    control::CheckReplicasResponse answer;
    for (const uint64_t segment : ask.segments()) {
      asked_segments.push_back(segment);
      answer.add_needed(needed.contains(segment));
    }
    rpc::replyControl(std::move(request), answer);
  }

  std::map<uint64_t, control::MasterStanding> standings;
  std::map<uint64_t, std::string> alive_at;
  std::set<uint64_t> needed;
  std::vector<uint64_t> asked_segments;
  int questions = 0;
  uint64_t start = 0;  // of the coordinator; the backup obeys 0
};

class BackupServiceTest : public testing::Test {
 protected:
  BackupServiceTest()
      : scheduler(7),
        log(scheduler),
        network(scheduler, streams()),
        disk(scheduler, "disk", {}),
        master(makeProcess("master", Role::Server, kMasterId)),
        other(makeProcess("other", Role::Server, 6)),
        coordinator(makeProcess("coordinator", Role::Coordinator, 0)),
        client(makeProcess("client", Role::Client, 9)) {
    knowing.addTo(coordinator->dispatch().services());
    knowing.addTo(master->dispatch().services());
    startBackup();
    begin();
  }
  ~BackupServiceTest() override { endBackup(); }

  // Transports that keep the order of what is sent.
  static transport::SimNetworkOptions streams() {
    transport::SimNetworkOptions options;
    options.mode = transport::SimMode::Stream;
    return options;
  }
  std::unique_ptr<RpcProcess> makeProcess(const std::string& name, Role role, uint64_t id, uint32_t workers = 0) {
    auto process = std::make_unique<RpcProcess>(scheduler, log, network, name,
                                                RpcProcess::Options{.role = role, .id = id, .worker_count = workers});
    process->listen();
    return process;
  }
  void startBackup(uint32_t workers = 1) {
    ++life;
    process = makeProcess("backup" + std::to_string(life), Role::Server, kBackupId + life * 100, workers);
    storage = disk.open().value();
    auto opened =
        Backup::open({.storage_bytes = FrameFile::fileBytes(16, kSegmentBytes), .segment_bytes = kSegmentBytes},
                     {.storage = *storage,
                      .clock = process->node.clock(),
                      .trace = process->node.trace(),
                      .dispatch = process->dispatch(),
                      .disk = process->node.makeExecutor("disk"),
                      .caller = *process->caller,
                      .coordinator = {.id = 0, .locators = {coordinator->locator()}},
                      .on_fence = [this] { ++fences_told; },
                      .obeys = [](uint64_t start) { return start == 0; }});
    ASSERT_TRUE(opened.ok());
    backup = std::move(opened).value();
    backup->addTo(process->dispatch().services());
  }
  void begin() {
    std::optional<runtime::Task<Status>> task;
    process->onDispatch([&] { task.emplace(backup->begin(ServerId(backupId()), kCluster)); });
    ASSERT_TRUE(runUntil([&] { return task->isDone(); }));
    ASSERT_EQ(task->take(), Status::Ok);
  }
  void endBackup() {
    if (!backup) return;
    process->onDispatch([this] { backup->stop(); });
    ASSERT_TRUE(runUntil([this] { return backup->stopped(); }));
    backup.reset();
    process.reset();
    storage.reset();
  }
  void restart() {
    endBackup();
    startBackup();
    begin();
  }
  uint64_t backupId() const { return kBackupId + life * 100; }

  bool runUntil(const std::function<bool()>& done) {
    return scheduler.runUntil(done, 10'000'000) == runtime::SimScheduler::Stop::Done;
  }
  void runFor(int64_t ns) { scheduler.runUntil(scheduler.nowNs() + ns, 10'000'000); }

  std::unique_ptr<NotedCall> start(RpcProcess& from, ByteSpan bytes, size_t contiguous = 0) {
    auto call = std::make_unique<NotedCall>();
    call->request = from.caller->allocate(static_cast<uint32_t>(bytes.size()));
    call->request.appendHead(bytes);
    call->request->contiguous_bytes = static_cast<uint32_t>(contiguous);
    from.onDispatch(
        [&] { from.caller->connection({.id = backupId(), .locators = {process->locator()}}).start(*call); });
    return call;
  }
  std::unique_ptr<NotedCall> send(RpcProcess& from, ByteSpan bytes, size_t contiguous = 0) {
    auto call = start(from, bytes, contiguous);
    EXPECT_TRUE(runUntil([&] { return call->ended != 0; }));
    return call;
  }
  wire::RequestHeader header(Opcode opcode) const { return {.opcode = opcode, .target = ServerId(backupId())}; }

  std::vector<std::byte> writeBytes(const SegmentMaker& segment, uint64_t epoch, uint32_t from, uint32_t to,
                                    uint8_t flags, bool closed = false) const {
    wire::WriteReplica::Request request{.header = header(Opcode::WriteReplica),
                                        .master = kMaster,
                                        .segment = segment.id(),
                                        .replica_epoch = epoch,
                                        .offset_bytes = from,
                                        .data_bytes = to - from,
                                        .flags = flags,
                                        .certificate = {}};
    if ((flags & Flags::kCertified) != 0) {
      const auto certificate = log::encodeCertificate(segment.certificate(to, epoch, closed));
      std::ranges::copy(bytesOf(certificate), request.certificate.begin());
    }
    std::vector<std::byte> bytes(sizeof(request) + to - from);
    storeAs(bytes.data(), request);
    std::ranges::copy(segment.bytes(from, to), bytes.begin() + sizeof(request));
    return bytes;
  }
  std::unique_ptr<NotedCall> put(const SegmentMaker& segment, bool closed = false,
                                 uint8_t flags = Flags::kOpen | Flags::kCertified) {
    return send(*master, writeBytes(segment, 1, 0, segment.length(), flags, closed));
  }
  template <typename Message>
  std::unique_ptr<NotedCall> command(RpcProcess& from, Opcode opcode, const Message& message) {
    const std::string body = message.SerializeAsString();
    std::vector<std::byte> bytes(sizeof(wire::RequestHeader) + body.size());
    storeAs(bytes.data(), header(opcode));
    std::ranges::copy(asBytes(body), bytes.begin() + sizeof(wire::RequestHeader));
    return send(from, bytes);
  }
  control::FenceServerResponse fence(uint64_t server = kMasterId) {
    control::FenceServerRequest ask;
    ask.set_server(server);
    const auto call = command(*coordinator, Opcode::FenceServer, ask);
    EXPECT_EQ(call->outcome(), Status::Ok);
    control::FenceServerResponse answer;
    EXPECT_TRUE(answer.ParseFromString(call->text()));
    listed = answer;
    return answer;
  }
  /// As the last list has it.
  wire::ReplicaVersion listedVersion(SegmentId segment) const {
    for (const control::Replica& replica : listed.replicas()) {
      if (replica.segment() != segment.value) continue;
      return {.epoch = replica.replica_epoch(),
              .length_bytes = replica.length_bytes(),
              .closed = static_cast<uint8_t>(replica.closed())};
    }
    return {};
  }

  struct Page {
    Status status = Status::Ok;
    wire::ReadReplica::Response response{};
    std::string entries;
  };
  std::vector<std::byte> readBytes(SegmentId segment, const std::vector<Range>& ranges, uint32_t offset = 0,
                                   uint32_t response_bytes = 1 << 20,
                                   const wire::ReplicaVersion* replica = nullptr) const {
    const wire::ReadReplica::Request request{.header = header(Opcode::ReadReplica),
                                             .master = kMaster,
                                             .segment = segment,
                                             .replica = replica != nullptr ? *replica : listedVersion(segment),
                                             .offset_bytes = offset,
                                             .response_bytes = response_bytes,
                                             .range_count = static_cast<uint32_t>(ranges.size())};
    std::vector<std::byte> bytes(sizeof(request) + ranges.size() * sizeof(Range));
    storeAs(bytes.data(), request);
    std::ranges::copy(std::as_bytes(std::span(ranges)), bytes.begin() + sizeof(request));
    return bytes;
  }
  Page read(ByteSpan bytes) {
    const auto call = send(*other, bytes);
    Page page{.status = call->outcome(), .response = {}, .entries = {}};
    if (page.status != Status::Ok) return page;
    const std::string body = call->text();
    const size_t rest = sizeof(page.response) - sizeof(wire::ResponseHeader);
    EXPECT_GE(body.size(), rest);
    std::memcpy(reinterpret_cast<char*>(&page.response) + sizeof(wire::ResponseHeader), body.data(), rest);
    page.entries = body.substr(rest);
    EXPECT_EQ(page.entries.size(), page.response.entry_bytes);
    return page;
  }
  static std::vector<log::EntryView> entriesOf(const std::string& bytes) {
    std::vector<log::EntryView> entries;
    for (ByteSpan left = asBytes(bytes); !left.empty(); left = left.subspan(entries.back().alignedBytes())) {
      log::EntryView entry;
      EXPECT_EQ(log::decodeEntry(left, entry), log::DecodeError::None);
      if (!entry) break;
      entries.push_back(entry);
    }
    return entries;
  }

  runtime::SimScheduler scheduler;
  runtime::SimTraceLog log;
  transport::SimNetwork network;
  runtime::SimDisk disk;
  Knowing knowing;
  std::unique_ptr<RpcProcess> master;
  std::unique_ptr<RpcProcess> other;
  std::unique_ptr<RpcProcess> coordinator;
  std::unique_ptr<RpcProcess> client;
  uint64_t life = 0;
  int fences_told = 0;
  control::FenceServerResponse listed;
  std::unique_ptr<runtime::Storage> storage;
  std::unique_ptr<RpcProcess> process;
  std::unique_ptr<Backup> backup;
};

inline SegmentMaker makeHead(uint64_t id, const std::vector<SegmentId>& members, int objects = 10) {
  SegmentMaker segment(kCluster, kMaster, SegmentId(id));
  segment.addDigest(members.size() > 1 ? members[members.size() - 2] : SegmentId(), members);
  segment.addSafeVersion(40 + id);
  for (int i = 0; i < objects; ++i) segment.addObject(kTable, "key" + std::to_string(i), std::string(50, 'v'));
  return segment;
}

}  // namespace ramcore::backup::served
