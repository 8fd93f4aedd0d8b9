/// Results that the source of a move sends are answered to clients as they are. So the destination accepts only results
/// that a master can have logged.

#include <gtest/gtest.h>

#include <functional>

#include "log/format/entry_writer.h"
#include "sim/master_fixture.h"

namespace ramcore::sim::raw {
namespace {

constexpr uint64_t kPulled = 2;
constexpr uint64_t kSourceEpoch = 5;

/// Gives away an empty tablet, with one result record.
class ResultSource {
 public:
  explicit ResultSource(RpcProcess& process) {
    const rpc::OpcodeRules rules{.roles = rpc::allow({transport::Role::Server})};
    process.dispatch().services().add<&ResultSource::answerObjects>(Opcode::Pull, *this, rules);
    process.dispatch().services().add<&ResultSource::answerResults>(Opcode::PullResults, *this, rules);
    process.dispatch().services().add<&ResultSource::answerMeasure>(Opcode::MeasureTablet, *this, rules);
    process.listen();
  }

  log::ResultRecordPayload record{};
  Version version = 0;
  uint32_t table = kTable;
  int pulls_of_results = 0;
  wire::MeasureTablet::Response measured{.header = {.status = Status::Ok},
                                         .object_bytes = 0,
                                         .large_bytes = 0,
                                         .tombstone_bytes = 0,
                                         .appended_bytes = 0,
                                         .next_window = wire::MeasureTablet::kWindows,
                                         .crowded_count = 0};
  std::vector<KeyHash> crowded;  // that follow

 private:
  void answerObjects(rpc::Request request) { answer(std::move(request), {}); }
  void answerMeasure(rpc::Request request) {
    const std::span<const std::byte> hashes = std::as_bytes(std::span(crowded));
    transport::TxMessage response = request.allocate(sizeof(measured) + hashes.size());
    response.appendHead(measured);
    response.appendHead(hashes);
    request.reply(std::move(response));
  }
  void answerResults(rpc::Request request) {
    ++pulls_of_results;
    const Version result{};
    const std::array<ByteSpan, 2> payload{bytesOf(record), bytesOf(result)};
    const log::EntryInput input{.type = log::EntryType::ResultRecord,
                                .table = TableId(table),
                                .version = version,
                                .key = {},
                                .payload = payload};
    std::vector<std::byte> entry(input.alignedBytes());
    log::writeEntry(entry.data(), input, false, {});
    answer(std::move(request), entry);
  }
  static void answer(rpc::Request request, ByteSpan entries) {
    const auto bytes = static_cast<uint32_t>(entries.size());
    transport::TxMessage response = request.allocate(static_cast<uint32_t>(sizeof(wire::Pull::Response)) + bytes);
    response.appendHead(wire::Pull::Response{.header = {.status = Status::Ok},
                                             .next_cursor = 0,
                                             .entry_bytes = bytes,
                                             .entry_count = entries.empty() ? 0U : 1U,
                                             .done = 1});
    response.appendHead(entries);
    request.reply(std::move(response));
  }
};

class MasterHostilePullTest : public MasterServiceTest {
 protected:
  MasterHostilePullTest() : source_(world.other_server) {
    EXPECT_EQ(drop(1, 1), Status::Ok);
    source_.record = {.client = ClientId(1),
                      .sequence = Sequence(7),
                      .acknowledged = Sequence(6),
                      .key_hash = kFirstHash + 1,
                      .opcode = static_cast<uint16_t>(Opcode::Write),
                      .status = static_cast<uint16_t>(Status::ObjectExists),
                      .reserved = 0};
    source_.version = 3;
  }

  /// How a pull from the source ends. Each has an epoch of its own, and is dropped.
  Status pullOnce() {
    const uint64_t epoch = ++epoch_;
    control::PullTabletRequest ask;
    *ask.mutable_tablet() = tabletOf(kPulled, kFirstHash, kLast, epoch);
    ask.set_source_epoch(kSourceEpoch);
    ask.set_source(world.other_server.identity.id);
    ask.add_source_locators("sim://other");
    EXPECT_EQ(beginPull(ask, 0), Status::Ok);
    const auto prepared = static_cast<Status>(pullProgress(kPulled, 0, control::PULL_PREPARED).status());
    const Status adopted = prepared == Status::Ok ? adopt(kPulled, epoch, ceiling_, 0) : prepared;
    EXPECT_EQ(drop(kPulled, epoch), Status::Ok);
    return adopted;
  }
  /// With the record changed like this the pull fails, and with the record as it was it does not.
  void expectRefused(const char* what, const std::function<void(ResultSource&)>& change) {
    const log::ResultRecordPayload record = source_.record;
    const Version version = source_.version;
    const uint32_t table = source_.table;
    const int pulls = source_.pulls_of_results;
    change(source_);
    EXPECT_EQ(name(pullOnce()), name(Status::BadRequest)) << what;
    EXPECT_GT(source_.pulls_of_results, pulls) << what << ": the record was never asked for";
    source_.record = record;
    source_.version = version;
    source_.table = table;
    EXPECT_EQ(name(pullOnce()), name(Status::Ok)) << what;
  }

  static constexpr KeyHash kFirstHash = KeyHash{1} << 63;
  static constexpr uint64_t kCeiling = 10;
  ResultSource source_;
  uint64_t epoch_ = kSourceEpoch;
  uint64_t ceiling_ = kCeiling;
};

TEST_F(MasterHostilePullTest, SizesThatNoTabletHas) {
  const wire::MeasureTablet::Response sound = source_.measured;
  const auto end = [&](const std::function<void(wire::MeasureTablet::Response&)>& change) {
    source_.measured = sound;
    change(source_.measured);
    return pullOnce();
  };
  EXPECT_EQ(end([](auto&) {}), Status::Ok);
  EXPECT_EQ(end([](auto& answer) { answer.next_window = 0; }), Status::BadRequest) << "it would be asked for ever";
  EXPECT_EQ(end([](auto& answer) { answer.next_window = 65; }), Status::BadRequest);
  EXPECT_EQ(end([](auto& answer) { answer.object_bytes = ~uint64_t{0}; }), Status::BadRequest);
  EXPECT_EQ(end([](auto& answer) { answer.tombstone_bytes = ~uint64_t{0}; }), Status::BadRequest);
  EXPECT_EQ(end([](auto& answer) { answer.large_bytes = 1; }), Status::BadRequest) << "more than all";
  EXPECT_EQ(end([](auto& answer) { answer.object_bytes = uint64_t{1} << 39; }), Status::NoSpace);
  EXPECT_EQ(end([](auto& answer) { answer.appended_bytes = ~uint64_t{0}; }), Status::Ok) << "nothing since then";
  EXPECT_EQ(world.servers[0]->master().log()->limit().heldBytes(), 0u);
}

/// Versions that the new owner gives out have to be taken by those who recover it.
TEST_F(MasterHostilePullTest, CeilingsNearTheEnd) {
  ceiling_ = store::kMovedVersionMax;
  EXPECT_EQ(pullOnce(), Status::Ok);
  ceiling_ = store::kMovedVersionMax + 1;
  EXPECT_EQ(pullOnce(), Status::BadRequest);
}

TEST_F(MasterHostilePullTest, CrowdedHashesThatNobodyNames) {
  const auto end = [&](std::vector<KeyHash> hashes, uint32_t count) {
    source_.crowded = std::move(hashes);
    source_.measured.crowded_count = count;
    return pullOnce();
  };
  const KeyHash hash = kFirstHash + 5;
  EXPECT_EQ(end({hash, hash + 1, kLast}, 3), Status::Ok);
  EXPECT_EQ(end({}, wire::MeasureTablet::kCrowdedAll), Status::Ok);
  EXPECT_EQ(end({hash + 1, hash}, 2), Status::BadRequest) << "descending";
  EXPECT_EQ(end({hash, hash}, 2), Status::BadRequest) << "twice";
  EXPECT_EQ(end({kFirstHash - 1}, 1), Status::BadRequest) << "of another tablet";
  EXPECT_EQ(end({hash}, 2), Status::BadRequest) << "not as many as it says";
  EXPECT_EQ(end({hash}, wire::MeasureTablet::kCrowdedAll), Status::BadRequest);
  EXPECT_EQ(end({}, wire::MeasureTablet::kCrowdedMax + 1), Status::BadRequest);
  EXPECT_EQ(end({}, 0), Status::Ok);
}

TEST_F(MasterHostilePullTest, ResultsOfOtherOpcodes) {
  for (const Opcode opcode : {Opcode::Read, Opcode::Pull, Opcode::MultiRead, static_cast<Opcode>(0xffff)}) {
    expectRefused("an opcode", [&](ResultSource& source) { source.record.opcode = static_cast<uint16_t>(opcode); });
  }
}

TEST_F(MasterHostilePullTest, StatusesThatNoMutationLogs) {
  for (const Status status : {Status::RetryLater, Status::SessionLost, Status::Fenced, Status::OutcomeUnknown}) {
    expectRefused("a status", [&](ResultSource& source) { source.record.status = static_cast<uint16_t>(status); });
  }
  expectRefused("no status at all", [](ResultSource& source) { source.record.status = 0xffff; });
}

TEST_F(MasterHostilePullTest, IdentitiesThatNobodyHas) {
  expectRefused("client 0", [](ResultSource& source) { source.record.client = ClientId(0); });
  expectRefused("acknowledged already", [](ResultSource& source) { source.record.acknowledged = Sequence(7); });
}

TEST_F(MasterHostilePullTest, ResultsOfOtherTabletsAndVersionsNearTheEnd) {
  expectRefused("another range", [](ResultSource& source) { source.record.key_hash = kFirstHash - 1; });
  expectRefused("another table", [](ResultSource& source) { source.table = kTable + 1; });
  expectRefused("a version near the end", [](ResultSource& source) { source.version = kVersionMax; });
  expectRefused("a version above the ceiling", [](ResultSource& source) { source.version = kCeiling + 1; });
}

TEST_F(MasterHostilePullTest, EveryResultThatAMasterLogsIsTaken) {
  for (const Opcode opcode : {Opcode::Write, Opcode::Remove, Opcode::Increment}) {
    for (const Status status :
         {Status::Ok, Status::NotFound, Status::ObjectExists, Status::WrongVersion, Status::TypeMismatch}) {
      source_.record.opcode = static_cast<uint16_t>(opcode);
      source_.record.status = static_cast<uint16_t>(status);
      EXPECT_EQ(name(pullOnce()), name(Status::Ok)) << wire::name(opcode) << " " << name(status);
    }
  }
}

}  // namespace
}  // namespace ramcore::sim::raw
