/// A backup as others meet it: over sessions, with a coordinator and masters that answer its questions.

#include "backup/backup_service.h"

#include <algorithm>
#include <map>
#include <set>

#include "backup/backup.h"
#include "base/hash.h"
#include "rpc/control_call.h"
#include "runtime/sim/sim_storage.h"
#include "sim/cluster/rpc_process.h"
#include "tests/unit/backup/segment_maker.h"

namespace ramcore::backup {
namespace {

namespace control = wire::control;
using sim::NotedCall;
using sim::RpcProcess;
using transport::Role;
using wire::Opcode;
using Flags = wire::WriteReplica;
using Range = wire::ReadReplica::Range;

constexpr ClusterId kCluster{7};
constexpr uint64_t kBackupId = 2;
constexpr uint64_t kMasterId = 5;
constexpr ServerId kMaster{kMasterId};
constexpr uint32_t kSegmentBytes = 64 << 10;
constexpr TableId kTable{3};

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
                      .caller = *process->caller,
                      .coordinator = {.id = 0, .locators = {coordinator->locator()}},
                      .on_fence = [this] { ++fences_told; }});
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

SegmentMaker makeHead(uint64_t id, const std::vector<SegmentId>& members, int objects = 10) {
  SegmentMaker segment(kCluster, kMaster, SegmentId(id));
  segment.addDigest(members.size() > 1 ? members[members.size() - 2] : SegmentId(), members);
  segment.addSafeVersion(40 + id);
  for (int i = 0; i < objects; ++i) segment.addObject(kTable, "key" + std::to_string(i), std::string(50, 'v'));
  return segment;
}

TEST_F(BackupServiceTest, WritesAreAnsweredWithWhatIsThereAndWhatIsFlushed) {
  const SegmentMaker segment = makeHead(1, {SegmentId(1)});
  const auto answerOf = [](const NotedCall& call) {
    EXPECT_EQ(call.outcome(), Status::Ok);
    return loadAs<wire::WriteReplica::Response>(call.response.head().data());
  };
  const uint32_t first = segment.groupEnds()[2];
  const auto unflushed =
      answerOf(*send(*master, writeBytes(segment, 1, 0, first, Flags::kOpen | Flags::kHead | Flags::kCertified)));
  EXPECT_EQ(unflushed.length_bytes, first);
  EXPECT_EQ(unflushed.flushed_bytes, 0u);
  const auto flushed =
      answerOf(*send(*master, writeBytes(segment, 1, first, segment.length(), Flags::kCertified | Flags::kFlush), 112));
  EXPECT_EQ(flushed.length_bytes, segment.length());
  EXPECT_EQ(flushed.flushed_bytes, segment.length());
  EXPECT_EQ(backup->store().stats().flushes.load(), 3u) << "two of begin()";
}

TEST_F(BackupServiceTest, PipelinedWritesStayInOrder) {
  SegmentMaker segment = makeHead(1, {SegmentId(1)}, 200);
  std::vector<std::unique_ptr<NotedCall>> calls;
  uint32_t from = 0;
  for (const uint32_t to : segment.groupEnds()) {
    calls.push_back(start(*master, writeBytes(segment, 1, from, to,
                                              (from == 0 ? Flags::kOpen : 0) | Flags::kCertified |
                                                  (calls.size() % 7 == 0 ? Flags::kFlush : 0))));
    from = to;
  }
  for (const auto& call : calls) {
    ASSERT_TRUE(runUntil([&] { return call->ended != 0; }));
    EXPECT_EQ(call->outcome(), Status::Ok);
  }
  const auto answer = fence();
  ASSERT_EQ(answer.replicas_size(), 1);
  EXPECT_EQ(answer.replicas(0).length_bytes(), segment.length());
}

TEST_F(BackupServiceTest, NobodyWritesInAnotherOnesName) {
  const SegmentMaker segment = makeHead(1, {SegmentId(1)});
  const auto bytes = writeBytes(segment, 1, 0, segment.length(), Flags::kOpen | Flags::kCertified);
  EXPECT_EQ(send(*other, bytes)->outcome(), Status::BadRequest);
  EXPECT_EQ(send(*client, bytes)->outcome(), Status::BadRequest);
  EXPECT_EQ(send(*coordinator, bytes)->outcome(), Status::BadRequest);
  ASSERT_EQ(send(*master, bytes)->outcome(), Status::Ok);
  const wire::FreeReplica::Request free{
      .header = header(Opcode::FreeReplica), .master = kMaster, .segment = segment.id()};
  EXPECT_EQ(send(*other, bytesOf(free))->outcome(), Status::BadRequest);
  EXPECT_EQ(send(*client, bytesOf(free))->outcome(), Status::BadRequest);
  control::FenceServerRequest ask;
  ask.set_server(kMasterId);
  EXPECT_EQ(command(*other, Opcode::FenceServer, ask)->outcome(), Status::BadRequest);
  EXPECT_EQ(fence().replicas_size(), 1);
  EXPECT_EQ(send(*client, readBytes(segment.id(), {}))->outcome(), Status::BadRequest);
}

TEST_F(BackupServiceTest, HostileRequestsAreRefused) {
  const SegmentMaker segment = makeHead(1, {SegmentId(1)});
  std::vector<std::byte> good = writeBytes(segment, 1, 0, segment.length(), Flags::kOpen | Flags::kCertified);
  const auto with = [&](size_t at, uint8_t value) {
    std::vector<std::byte> bytes = good;
    bytes[at] = std::byte{value};
    return send(*master, bytes)->outcome();
  };
  EXPECT_EQ(with(offsetof(wire::WriteReplica::Request, reserved), 1), Status::BadRequest);
  EXPECT_EQ(with(offsetof(wire::WriteReplica::Request, flags), 0xff), Status::BadRequest);
  EXPECT_EQ(with(offsetof(wire::WriteReplica::Request, data_bytes) + 3, 0x7f), Status::BadRequest);
  EXPECT_EQ(with(offsetof(wire::WriteReplica::Request, offset_bytes) + 3, 0xff), Status::BadRequest);
  EXPECT_EQ(with(offsetof(wire::WriteReplica::Request, certificate) + 20, 0x55), Status::BadRequest);
  std::vector<std::byte> longer = good;
  longer.push_back({});
  EXPECT_EQ(send(*master, longer)->outcome(), Status::BadRequest);
  EXPECT_EQ(send(*master, ByteSpan(good).first(100))->outcome(), Status::BadRequest);
  EXPECT_EQ(fence().replicas_size(), 0);
  // Reads.
  const Range range{.table = kTable, .hashes = {}, .first_segment = SegmentId(1)};
  auto read_bytes = readBytes(segment.id(), {range});
  EXPECT_EQ(read(read_bytes).status, Status::NotFound);
  EXPECT_EQ(read(ByteSpan(read_bytes).first(60)).status, Status::BadRequest) << "half a range";
  EXPECT_EQ(read(ByteSpan(read_bytes).first(48)).status, Status::BadRequest) << "a range is missing";
  Range bad = range;
  bad.hashes = {.first = 2, .last = 1};
  EXPECT_EQ(read(readBytes(segment.id(), {bad})).status, Status::BadRequest);
  bad = range;
  bad.reserved = 1;
  EXPECT_EQ(read(readBytes(segment.id(), {bad})).status, Status::BadRequest);
  EXPECT_EQ(read(readBytes(segment.id(), std::vector<Range>(1025, range))).status, Status::BadRequest);
  control::FenceServerRequest nobody;
  EXPECT_EQ(command(*coordinator, Opcode::FenceServer, nobody)->outcome(), Status::BadRequest);
}

TEST_F(BackupServiceTest, BeforeBeginEverythingComesBackLater) {
  endBackup();
  startBackup();
  const SegmentMaker segment = makeHead(1, {SegmentId(1)});
  EXPECT_EQ(backup->formerServer(), ServerId(kBackupId + 100));
  EXPECT_EQ(put(segment)->outcome(), Status::RetryLater);
  control::FenceServerRequest ask;
  ask.set_server(kMasterId);
  EXPECT_EQ(command(*coordinator, Opcode::FenceServer, ask)->outcome(), Status::RetryLater);
  begin();
  EXPECT_EQ(put(segment)->outcome(), Status::Ok);
}

// For a log whose end is lost.
TEST_F(BackupServiceTest, TheNewestHeadIsListedWithItsMembersAlsoIfItIsClosed) {
  const std::vector<SegmentId> members = {SegmentId(1), SegmentId(2)};
  ASSERT_EQ(put(makeHead(1, {SegmentId(1)}), true)->outcome(), Status::Ok);
  ASSERT_EQ(put(makeHead(2, members), true)->outcome(), Status::Ok);
  const auto answer = fence();
  ASSERT_EQ(answer.replicas_size(), 2);
  EXPECT_EQ(answer.replicas(0).members_size(), 0);
  EXPECT_TRUE(answer.replicas(1).closed());
  EXPECT_EQ(std::vector<uint64_t>(answer.replicas(1).members().begin(), answer.replicas(1).members().end()),
            (std::vector<uint64_t>{1, 2}));
}

TEST_F(BackupServiceTest, AFencedMasterIsRefusedAndItsWholeReplicasAreListed) {
  const std::vector<SegmentId> members = {SegmentId(1), SegmentId(2), SegmentId(4)};
  ASSERT_EQ(put(makeHead(1, {SegmentId(1)}), true)->outcome(), Status::Ok);
  ASSERT_EQ(put(makeHead(4, members))->outcome(), Status::Ok);
  SegmentMaker survivor(kCluster, kMaster, SegmentId(2));
  survivor.addObject(kTable, "key", "value");
  ASSERT_EQ(put(survivor, true)->outcome(), Status::Ok);
  const SegmentMaker uncertified = makeHead(5, {SegmentId(5)});
  ASSERT_EQ(put(uncertified, false, Flags::kOpen)->outcome(), Status::Ok);

  for (int repeated = 0; repeated < 2; ++repeated) {
    const auto answer = fence();
    ASSERT_EQ(answer.replicas_size(), 3);
    EXPECT_EQ(answer.replicas(0).segment(), 1u);
    EXPECT_TRUE(answer.replicas(0).closed());
    EXPECT_TRUE(answer.replicas(0).has_digest());
    EXPECT_EQ(answer.replicas(0).members_size(), 0) << "there is a newer list";
    EXPECT_EQ(answer.replicas(1).segment(), 2u);
    EXPECT_FALSE(answer.replicas(1).has_digest());
    EXPECT_EQ(answer.replicas(2).segment(), 4u);
    EXPECT_FALSE(answer.replicas(2).closed());
    EXPECT_EQ(answer.replicas(2).replica_epoch(), 1u);
    EXPECT_EQ(answer.replicas(2).previous_head(), 2u);
    EXPECT_EQ(answer.replicas(2).length_bytes(), makeHead(4, members).length());
    EXPECT_EQ(std::vector<uint64_t>(answer.replicas(2).members().begin(), answer.replicas(2).members().end()),
              (std::vector<uint64_t>{1, 2, 4}));
  }
  EXPECT_EQ(fences_told, 1) << "the second one was no news";
  EXPECT_EQ(put(makeHead(6, {SegmentId(6)}))->outcome(), Status::Fenced);
  EXPECT_EQ(backup->service().fencedRefusals(), 1u);
  const wire::FreeReplica::Request free{
      .header = header(Opcode::FreeReplica), .master = kMaster, .segment = SegmentId(1)};
  EXPECT_EQ(send(*master, bytesOf(free))->outcome(), Status::Fenced);
}

TEST_F(BackupServiceTest, FencesAtTheSameTimeShareTheWork) {
  for (uint64_t id = 1; id <= 6; ++id) ASSERT_EQ(put(makeHead(id, {SegmentId(id)}), true)->outcome(), Status::Ok);
  control::FenceServerRequest ask;
  ask.set_server(kMasterId);
  const std::string body = ask.SerializeAsString();
  std::vector<std::byte> bytes(sizeof(wire::RequestHeader) + body.size());
  storeAs(bytes.data(), header(Opcode::FenceServer));
  std::ranges::copy(asBytes(body), bytes.begin() + sizeof(wire::RequestHeader));
  std::vector<std::unique_ptr<NotedCall>> calls;
  for (int i = 0; i < 3; ++i) calls.push_back(start(*coordinator, bytes));
  for (const auto& call : calls) {
    ASSERT_TRUE(runUntil([&] { return call->ended != 0; }));
    control::FenceServerResponse answer;
    EXPECT_TRUE(answer.ParseFromString(call->text()));
    EXPECT_EQ(answer.replicas_size(), 6);
  }
}

TEST_F(BackupServiceTest, EntriesOfSomeRangesAreRead) {
  SegmentMaker segment = makeHead(8, {SegmentId(8)}, 100);
  segment.addTombstone(kTable, "key3");
  segment.addResult(kTable, hashKey(kTable, asBytes("key4")));
  segment.addObject(TableId(9), "of another table", "value");
  segment.addObject(kTable, "grouped1", "value", true);
  segment.addObject(kTable, "grouped2", "value");
  ASSERT_EQ(put(segment)->outcome(), Status::Ok);
  const uint64_t middle = uint64_t{1} << 63;
  const Range lower{.table = kTable, .hashes = {.first = 0, .last = middle - 1}, .first_segment = SegmentId(8)};
  const Range upper{.table = kTable, .hashes = {.first = middle}, .first_segment = SegmentId(1)};
  const Range later{.table = kTable, .hashes = {}, .first_segment = SegmentId(9)};
  EXPECT_EQ(read(readBytes(segment.id(), {lower})).status, Status::RetryLater) << "is not fenced";
  fence();
  EXPECT_EQ(read(readBytes(SegmentId(77), {lower})).status, Status::NotFound);

  size_t counts[2] = {0, 0};
  for (const bool is_upper : {false, true}) {
    const Page page = read(readBytes(segment.id(), {is_upper ? upper : lower}));
    ASSERT_EQ(page.status, Status::Ok);
    EXPECT_EQ(page.response.done, 1);
    EXPECT_EQ(page.response.safe_version, 48u);
    for (const log::EntryView& entry : entriesOf(page.entries)) {
      EXPECT_EQ(entry.table(), kTable);
      EXPECT_FALSE(entry.groupContinues());
      const KeyHash hash = entry.type() == log::EntryType::ResultRecord
                               ? entry.payloadAs<log::ResultRecordPayload>().key_hash
                               : hashKey(kTable, entry.key());
      EXPECT_EQ(hash >= middle, is_upper);
      ++counts[is_upper ? 1 : 0];
    }
    EXPECT_EQ(page.response.entry_count, counts[is_upper ? 1 : 0]);
  }
  EXPECT_EQ(counts[0] + counts[1], 104u);
  EXPECT_GT(counts[0], 20u);
  EXPECT_GT(counts[1], 20u);

  const Page nothing = read(readBytes(segment.id(), {later}));
  EXPECT_EQ(nothing.response.entry_count, 0u);
  EXPECT_EQ(nothing.response.done, 1);
  EXPECT_EQ(read(readBytes(segment.id(), {lower, upper, later})).response.entry_count, 104u);
  Range all = lower;
  all.hashes = {};
  EXPECT_EQ(read(readBytes(segment.id(), {lower, all, upper})).response.entry_count, 104u) << "overlapping ones";

  // Page by page, with pages that end inside the group.
  std::string together;
  uint32_t offset = 0;
  size_t pages = 0;
  for (bool done = false; !done; ++pages) {
    const Page page = read(readBytes(segment.id(), {lower, upper}, offset, 200));
    ASSERT_EQ(page.status, Status::Ok);
    ASSERT_TRUE(page.response.done == 1 || page.response.next_offset_bytes > offset);
    ASSERT_LT(page.entries.size(), 400u);
    together += page.entries;
    offset = page.response.next_offset_bytes;
    done = page.response.done == 1;
  }
  EXPECT_GT(pages, 20u);
  EXPECT_EQ(together, read(readBytes(segment.id(), {lower, upper})).entries);
  EXPECT_EQ(offset, segment.length());
  EXPECT_EQ(read(readBytes(segment.id(), {lower}, offset + 8)).status, Status::BadRequest);
  EXPECT_EQ(read(readBytes(segment.id(), {lower}, 3)).status, Status::BadRequest);
}

/// A recovery reads the replica that was chosen or none, whatever has become of that.
TEST_F(BackupServiceTest, NoOtherReplicaThanTheChosenOneIsRead) {
  const SegmentMaker segment = makeHead(1, {SegmentId(1)});
  ASSERT_EQ(put(segment)->outcome(), Status::Ok);
  ASSERT_EQ(fence().replicas_size(), 1);
  const wire::ReplicaVersion chosen = listedVersion(segment.id());
  const auto readVersion = [&](auto&& change) {
    wire::ReplicaVersion version = chosen;
    change(version);
    return read(readBytes(segment.id(), {}, 0, 1 << 20, &version)).status;
  };
  EXPECT_EQ(readVersion([](wire::ReplicaVersion&) {}), Status::Ok);
  EXPECT_EQ(readVersion([](wire::ReplicaVersion& version) { version.length_bytes += 8; }), Status::NotFound);
  EXPECT_EQ(readVersion([](wire::ReplicaVersion& version) { version.length_bytes -= 8; }), Status::NotFound);
  EXPECT_EQ(readVersion([](wire::ReplicaVersion& version) { version.closed = 1; }), Status::NotFound);
  EXPECT_EQ(readVersion([](wire::ReplicaVersion& version) { ++version.epoch; }), Status::NotFound);
  EXPECT_EQ(readVersion([](wire::ReplicaVersion& version) { version.reserved[0] = 1; }), Status::NotFound);
}

/// Or a recovery would choose it again and again.
TEST_F(BackupServiceTest, WhatIsLostAfterItWasListedIsNotListedAgain) {
  ASSERT_EQ(put(makeHead(1, {SegmentId(1)}), true)->outcome(), Status::Ok);
  ASSERT_EQ(put(makeHead(2, {SegmentId(1), SegmentId(2)}), true)->outcome(), Status::Ok);
  ASSERT_EQ(fence().replicas_size(), 2);
  disk.flipBit("frames", (8192 + 4096 + 200) * 8);  // in the first frame
  ASSERT_EQ(fence().replicas_size(), 2) << "nobody has looked";
  EXPECT_EQ(read(readBytes(SegmentId(2), {})).status, Status::Ok);
  EXPECT_EQ(read(readBytes(SegmentId(1), {})).status, Status::NotFound);
  const auto answer = fence();
  ASSERT_EQ(answer.replicas_size(), 1);
  EXPECT_EQ(answer.replicas(0).segment(), 2u);
}

TEST_F(BackupServiceTest, WhatAFlippedBitHasHitIsNeitherListedNorRead) {
  const SegmentMaker segment = makeHead(1, {SegmentId(1)});
  ASSERT_EQ(put(segment, true)->outcome(), Status::Ok);
  disk.flipBit("frames", (8192 + 4096 + 200) * 8);  // in the first frame
  EXPECT_EQ(fence().replicas_size(), 0);
  EXPECT_EQ(read(readBytes(SegmentId(1), {})).status, Status::NotFound);
  EXPECT_EQ(backup->store().stats().corrupt_frames.load(), 1u);
}

TEST_F(BackupServiceTest, ALivingMasterGetsTheBytesOfItsClosedReplicas) {
  const SegmentMaker closed = makeHead(3, {SegmentId(3)}, 50);
  const SegmentMaker open = makeHead(4, {SegmentId(3), SegmentId(4)}, 5);
  ASSERT_EQ(put(closed, true)->outcome(), Status::Ok);
  ASSERT_EQ(put(open)->outcome(), Status::Ok);
  const auto ask = [this](SegmentId segment, uint32_t offset, uint32_t bytes) {
    return wire::FetchReplica::Request{.header = header(Opcode::FetchReplica),
                                       .master = kMaster,
                                       .segment = segment,
                                       .offset_bytes = offset,
                                       .data_bytes = bytes};
  };
  const auto fetch = [&](RpcProcess& from, const wire::FetchReplica::Request& request) {
    return send(from, bytesOf(request));
  };
  const uint32_t length = closed.length();
  const auto whole = fetch(*master, ask(closed.id(), 200, 1 << 20));
  ASSERT_EQ(whole->outcome(), Status::Ok);
  const std::string body = whole->text();
  EXPECT_EQ(loadAs<uint32_t>(asBytes(body).data()), length);
  EXPECT_TRUE(std::ranges::equal(asBytes(body).subspan(8), closed.bytes(200, length)));
  const auto part = fetch(*master, ask(closed.id(), 200, 300));
  EXPECT_TRUE(std::ranges::equal(asBytes(part->text()).subspan(8), closed.bytes(200, 500)));

  EXPECT_EQ(fetch(*other, ask(closed.id(), 0, 100))->outcome(), Status::BadRequest) << "another one's log";
  EXPECT_EQ(fetch(*master, ask(closed.id(), length, 1))->outcome(), Status::BadRequest);
  EXPECT_EQ(fetch(*master, ask(closed.id(), UINT32_MAX, 1))->outcome(), Status::BadRequest);
  EXPECT_EQ(fetch(*master, ask(closed.id(), 0, 0))->outcome(), Status::BadRequest);
  EXPECT_EQ(fetch(*master, ask(SegmentId(9), 0, 1))->outcome(), Status::NotFound);
  EXPECT_EQ(fetch(*master, ask(open.id(), 0, 1))->outcome(), Status::RetryLater) << "it may end anywhere";
  EXPECT_EQ(fetch(*client, ask(closed.id(), 0, 1))->outcome(), Status::BadRequest) << "a client";
  fence();
  EXPECT_EQ(fetch(*master, ask(closed.id(), 0, 100))->outcome(), Status::Fenced);
}

TEST_F(BackupServiceTest, ReplicasOfFormerLivesServeARecovery) {
  const SegmentMaker segment = makeHead(1, {SegmentId(1)});
  ASSERT_EQ(put(segment, false, Flags::kOpen | Flags::kCertified | Flags::kFlush)->outcome(), Status::Ok);
  endBackup();
  disk.losePower();
  startBackup();
  begin();
  const auto answer = fence();
  ASSERT_EQ(answer.replicas_size(), 1);
  EXPECT_EQ(answer.replicas(0).length_bytes(), segment.length());
  EXPECT_FALSE(answer.replicas(0).maybe_short()) << "the backup had been stopped before";
  EXPECT_EQ(read(readBytes(SegmentId(1), {{.table = kTable, .hashes = {}, .first_segment = {}}})).response.entry_count,
            10u);
}

TEST_F(BackupServiceTest, WhatIsOpenAfterALossOfPowerIsSaidToBeShort) {
  const SegmentMaker open = makeHead(2, {SegmentId(1), SegmentId(2)});
  ASSERT_EQ(put(makeHead(1, {SegmentId(1)}), true, Flags::kOpen | Flags::kCertified | Flags::kFlush)->outcome(),
            Status::Ok);
  ASSERT_EQ(put(open, false, Flags::kOpen | Flags::kCertified | Flags::kFlush)->outcome(), Status::Ok);
  disk.losePower();
  endBackup();
  startBackup();
  begin();
  const auto answer = fence();
  ASSERT_EQ(answer.replicas_size(), 2);
  EXPECT_TRUE(answer.replicas(0).closed());
  EXPECT_FALSE(answer.replicas(0).maybe_short());
  EXPECT_FALSE(answer.replicas(1).closed());
  EXPECT_TRUE(answer.replicas(1).maybe_short());
  EXPECT_EQ(answer.replicas(1).length_bytes(), open.length()) << "it had been flushed";
}

TEST_F(BackupServiceTest, ABackupThatStopsTakesNothingMore) {
  const SegmentMaker segment = makeHead(1, {SegmentId(1)});
  ASSERT_EQ(put(segment, false, Flags::kOpen | Flags::kCertified)->outcome(), Status::Ok);
  disk.setFlushTime(runtime::kNanosPerSecond, runtime::kNanosPerSecond);
  process->onDispatch([this] { backup->stop(); });
  EXPECT_EQ(put(makeHead(2, {SegmentId(2)}), false, Flags::kOpen | Flags::kCertified)->outcome(), Status::RetryLater);
  EXPECT_FALSE(backup->stopped()) << "it is being flushed";
  endBackup();
  EXPECT_GE(scheduler.nowNs(), 2 * runtime::kNanosPerSecond);
}

TEST_F(BackupServiceTest, FramesGoWhenTheirMasterIsReleased) {
  ASSERT_EQ(put(makeHead(1, {SegmentId(1)}), true)->outcome(), Status::Ok);
  const auto free_frames = [this] { return backup->store().stats().frames_free.load(); };
  runFor(20 * runtime::kNanosPerSecond);
  EXPECT_EQ(knowing.questions, 0) << "it writes here, so nobody asks";
  fence();
  knowing.standings[kMasterId] = control::STANDING_NEEDED;
  runFor(11 * runtime::kNanosPerSecond);
  EXPECT_GE(knowing.questions, 1);
  EXPECT_EQ(free_frames(), 15u);
  knowing.standings[kMasterId] = control::STANDING_RELEASED;
  runFor(6 * runtime::kNanosPerSecond);
  EXPECT_EQ(free_frames(), 16u);
  EXPECT_EQ(fence().replicas_size(), 0);
  const int questions = knowing.questions;
  runFor(20 * runtime::kNanosPerSecond);
  EXPECT_EQ(knowing.questions, questions) << "nothing is left to ask about";
}

TEST_F(BackupServiceTest, AServerThatIsStartedAgainAndAgainDoesNotFillUp) {
  ASSERT_EQ(put(makeHead(1, {SegmentId(1)}), true)->outcome(), Status::Ok);
  knowing.standings[kMasterId] = control::STANDING_RELEASED;
  restart();
  runFor(500 * runtime::kNanosPerMilli);
  EXPECT_TRUE(backup->store().masters().empty()) << "it is asked at once, not when some time has passed";
}

TEST_F(BackupServiceTest, AWriteThatFindsNoFrameHasReleasedOnesFreedSoon) {
  uint64_t id = 0;
  const auto open = [&](RpcProcess& from, ServerId by) {
    const SegmentMaker segment(kCluster, by, SegmentId(++id));
    std::vector<std::byte> bytes = writeBytes(segment, 1, 0, 0, Flags::kOpen);
    auto request = loadAs<wire::WriteReplica::Request>(bytes.data());
    request.master = by;
    storeAs(bytes.data(), request);
    return send(from, bytes)->outcome();
  };
  while (open(*master, kMaster) == Status::Ok) ASSERT_LE(id, 16u);
  runFor(runtime::kNanosPerSecond);
  fence();
  knowing.standings[kMasterId] = control::STANDING_RELEASED;
  ASSERT_EQ(open(*other, ServerId(6)), Status::NoSpace);
  runFor(500 * runtime::kNanosPerMilli);
  EXPECT_EQ(open(*other, ServerId(6)), Status::Ok) << "long before it would have been asked anyway";
}

TEST_F(BackupServiceTest, ALivingMasterSaysWhichReplicasOfFormerLivesItNeeds) {
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_EQ(put(makeHead(id, {SegmentId(id)}), true)->outcome(), Status::Ok);
  restart();
  ASSERT_EQ(put(makeHead(4, {SegmentId(4)}))->outcome(), Status::Ok);
  knowing.standings[kMasterId] = control::STANDING_ALIVE;
  knowing.alive_at[kMasterId] = master->locator().toString();
  knowing.needed = {2};
  runFor(6 * runtime::kNanosPerSecond);
  EXPECT_EQ(knowing.asked_segments, (std::vector<uint64_t>{1, 2, 3})) << "not about those of this life";
  EXPECT_EQ(backup->store().segments(kMaster), (std::vector<SegmentId>{SegmentId(2), SegmentId(4)}));
}

TEST_F(BackupServiceTest, ASilentMasterThatWasReleasedLosesItsFramesWithoutAFence) {
  ASSERT_EQ(put(makeHead(1, {SegmentId(1)}), true)->outcome(), Status::Ok);
  knowing.standings[kMasterId] = control::STANDING_RELEASED;
  runFor(70 * runtime::kNanosPerSecond);
  EXPECT_TRUE(backup->store().masters().empty());
  EXPECT_EQ(put(makeHead(2, {SegmentId(2)}))->outcome(), Status::Fenced);
}

}  // namespace
}  // namespace ramcore::backup
