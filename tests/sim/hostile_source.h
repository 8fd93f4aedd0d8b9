#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "log/format/entry_writer.h"
#include "sim/master_fixture.h"

namespace ramcore::sim::raw {

inline constexpr uint64_t kPulled = 2;
inline constexpr uint64_t kSourceEpoch = 5;

/// Entries of an answer, and where to go on.
struct Contents {
  std::vector<std::byte> entries;
  KeyHash next = 0;
  bool is_last = true;
  uint32_t count = 0;  // of hashes, of an answer to PullHashes; 0: as many as were asked for
  Status status = Status::Ok;
};
inline std::vector<std::byte> entryOf(const log::EntryInput& input, bool is_followed = false) {
  std::vector<std::byte> bytes(input.alignedBytes());
  log::writeEntry(bytes.data(), input, is_followed, input.anchor);
  return bytes;
}

/// Gives away a tablet with one result record, and with the objects that a test says.
class ResultSource {
 public:
  explicit ResultSource(RpcProcess& process) {
    const rpc::OpcodeRules rules{.roles = rpc::allow({transport::Role::Server})};
    process.dispatch().services().add<&ResultSource::answerObjects>(Opcode::Pull, *this, rules);
    process.dispatch().services().add<&ResultSource::answerHashes>(Opcode::PullHashes, *this, rules);
    process.dispatch().services().add<&ResultSource::answerResults>(Opcode::PullResults, *this, rules);
    process.dispatch().services().add<&ResultSource::answerMeasure>(Opcode::MeasureTablet, *this, rules);
    process.listen();
  }

  log::ResultRecordPayload record{};
  Version version = 0;
  uint32_t table = kTable;
  int copies_of_results = 1;
  int pulls_of_results = 0;
  int pulls_of_objects = 0;
  int pulls_of_hashes = 0;
  std::function<Contents(KeyHash cursor)> objects = [](KeyHash) { return Contents(); };
  std::function<Contents(const std::vector<KeyHash>&)> hashes = [](const auto&) { return Contents(); };
  wire::MeasureTablet::Response measured{.header = {.status = Status::Ok},
                                         .object_bytes = 4096,
                                         .large_bytes = 0,
                                         .tombstone_bytes = 0,
                                         .appended_bytes = 0,
                                         .next_cursor = 0,
                                         .crowded_count = 0,
                                         .done = 1};
  std::vector<KeyHash> crowded;  // that follow

 private:
  void answerObjects(rpc::Request request) {
    wire::Pull::Request ask;
    EXPECT_TRUE(request.read(ask));
    ++pulls_of_objects;
    answer(std::move(request), objects(ask.cursor));
  }
  void answerHashes(rpc::Request request) {
    wire::PullHashes::Request ask;
    EXPECT_TRUE(request.read(ask));
    ++pulls_of_hashes;
    std::vector<KeyHash> wanted(ask.count);
    std::memcpy(wanted.data(), request.head().data() + sizeof(ask), wanted.size() * sizeof(KeyHash));
    const Contents contents = hashes(wanted);
    if (contents.status != Status::Ok) return request.reply(contents.status);
    const auto bytes = static_cast<uint32_t>(contents.entries.size());
    transport::TxMessage response = request.allocate(sizeof(wire::PullHashes::Response) + bytes);
    response.appendHead(wire::PullHashes::Response{.header = {.status = Status::Ok},
                                                   .count = contents.count != 0 ? contents.count : ask.count,
                                                   .entry_bytes = bytes});
    response.appendHead(contents.entries);
    request.reply(std::move(response));
  }
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
    Contents contents;
    for (int i = 0; i < copies_of_results; ++i) {
      const std::vector<std::byte> entry = entryOf(input);
      contents.entries.insert(contents.entries.end(), entry.begin(), entry.end());
    }
    answer(std::move(request), contents);
  }
  static void answer(rpc::Request request, const Contents& contents) {
    const auto bytes = static_cast<uint32_t>(contents.entries.size());
    transport::TxMessage response = request.allocate(static_cast<uint32_t>(sizeof(wire::Pull::Response)) + bytes);
    response.appendHead(wire::Pull::Response{.header = {.status = Status::Ok},
                                             .next_cursor = contents.next,
                                             .entry_bytes = bytes,
                                             .entry_count = contents.entries.empty() ? 0U : 1U,
                                             .done = static_cast<uint8_t>(contents.is_last ? 1 : 0)});
    response.appendHead(contents.entries);
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

}  // namespace ramcore::sim::raw
