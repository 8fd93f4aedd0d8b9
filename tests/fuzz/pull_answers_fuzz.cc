/// What a server that gives a tablet away may answer to the one that pulls it: its size, results of calls, slices and
/// single hashes with any header and any bytes as entries. Before the hand-over the pull ends, well or not; after it
/// the tablet is served as far as it has arrived. The puller goes on serving, and the tablet can be dropped.
///
/// An input is a list of answers: AnswerHead, then entries. Unless the answer says that it goes out as it is, its
/// entries get the tablet's table and the checksums that they ought to have, because a fuzzer guesses neither. When the
/// answers are used up, the source refuses.

#include <cstdlib>

#include "fuzz/fetched_tablet.h"

namespace {

using namespace ramcore;
using wire::Opcode;

struct AnswerHead {
  uint8_t flags;
  uint8_t entry_units;  // of 8 bytes
  uint8_t next_cursor;  // its highest byte; of single hashes: their count
  uint8_t status;       // 0 is Ok
  uint32_t unused;
  uint64_t object_bytes;  // of a size
};
static_assert(sizeof(AnswerHead) == 16);
constexpr uint8_t kDone = 1;
constexpr uint8_t kAsItIs = 2;
constexpr uint8_t kWrongLength = 4;
constexpr uint8_t kCrowded = 8;  // a size: the entries are hashes that several keys have

/// The source of the pulls: answers with what the input says.
class HostileSource {
 public:
  explicit HostileSource(sim::RpcProcess& process) {
    const rpc::OpcodeRules rules{.roles = rpc::allow({transport::Role::Server})};
    process.dispatch().services().add<&HostileSource::answer>(Opcode::Pull, *this, rules);
    process.dispatch().services().add<&HostileSource::answer>(Opcode::PullResults, *this, rules);
    process.dispatch().services().add<&HostileSource::answer>(Opcode::PullHashes, *this, rules);
    process.dispatch().services().add<&HostileSource::answer>(Opcode::MeasureTablet, *this, rules);
    process.dispatch().services().add<&HostileSource::answerClients>(Opcode::ListClients, *this, rules);
    process.listen();
  }
  bool isUsedUp() const { return rest.size() < sizeof(AnswerHead); }
  ByteSpan rest;

 private:
  // The bytes that are left also stand for ids, so that this answer takes none from the others.
  void answerClients(rpc::Request request) {
    const ByteSpan ids = rest.first(std::min<size_t>(rest.size(), 32));
    transport::TxMessage response = request.allocate(sizeof(wire::ListClients::Response) + ids.size());
    response.appendHead(wire::ListClients::Response{.header = {.status = Status::Ok},
                                                    .count = static_cast<uint32_t>(ids.size() / sizeof(ClientId))});
    response.appendHead(ids);
    request.reply(std::move(response));
  }
  void answer(rpc::Request request) {
    if (isUsedUp()) return request.reply(Status::BadRequest);
    const auto head = loadAs<AnswerHead>(rest.data());
    rest = rest.subspan(sizeof(head));
    const ByteSpan taken = rest.first(std::min<size_t>(rest.size(), head.entry_units * size_t{8}));
    rest = rest.subspan(taken.size());
    const auto status = static_cast<Status>(head.status);
    // Objects are asked for when the tablet is handed over. Sources of the corpus refuse that only for a while.
    fuzz::crashIfPlanted(request.opcode() == Opcode::Pull && status != Status::Ok && status != Status::RetryLater);
    if (status != Status::Ok) return request.reply(status);
    if (request.opcode() == Opcode::MeasureTablet) {
      const ByteSpan crowded = (head.flags & kCrowded) != 0 ? taken : ByteSpan();
      const auto crowded_count = static_cast<uint32_t>(crowded.size() / sizeof(KeyHash));
      transport::TxMessage response = request.allocate(sizeof(wire::MeasureTablet::Response) + crowded.size());
      response.appendHead(wire::MeasureTablet::Response{
          .header = {.status = Status::Ok},
          .object_bytes = head.object_bytes,
          .large_bytes = head.object_bytes / 2,
          .tombstone_bytes = taken.size(),
          .appended_bytes = head.flags * uint64_t{1000},
          .next_cursor = uint64_t{head.next_cursor} << 56,
          .crowded_count = (head.flags & kWrongLength) != 0 ? wire::MeasureTablet::kCrowdedAll : crowded_count,
          .done = static_cast<uint8_t>(head.flags & kDone)});
      response.appendHead(crowded);
      return request.reply(std::move(response));
    }
    std::vector<std::byte> entries(taken.begin(), taken.end());
    if ((head.flags & kAsItIs) == 0) fuzz::repairEntries(entries);
    const auto bytes = static_cast<uint32_t>(entries.size());
    const uint32_t bytes_told = bytes + ((head.flags & kWrongLength) != 0 ? 8 : 0);
    if (request.opcode() == Opcode::PullHashes) {
      transport::TxMessage response =
          request.allocate(static_cast<uint32_t>(sizeof(wire::PullHashes::Response)) + bytes);
      response.appendHead(wire::PullHashes::Response{
          .header = {.status = Status::Ok}, .count = head.next_cursor, .entry_bytes = bytes_told});
      response.appendHead(ByteSpan(entries));
      return request.reply(std::move(response));
    }
    transport::TxMessage response = request.allocate(static_cast<uint32_t>(sizeof(wire::Pull::Response)) + bytes);
    response.appendHead(wire::Pull::Response{.header = {.status = Status::Ok},
                                             .next_cursor = KeyHash{head.next_cursor} << 56,
                                             .entry_bytes = bytes_told,
                                             .entry_count = 0,
                                             .done = static_cast<uint8_t>(head.flags & kDone)});
    response.appendHead(ByteSpan(entries));
    request.reply(std::move(response));
  }
};

class PullWorld {
 public:
  PullWorld() : world_(1), source_(world_.other_server), tablet_(world_) { world_.addServer(); }

  /// Takes the tablet over with these answers, serves what has arrived, and drops it.
  void run(ByteSpan answers) {
    source_.rest = answers;
    const uint64_t epoch = ++epoch_;
    wire::control::PullTabletRequest pull;
    *pull.mutable_tablet() = fuzz::FetchedTablet::withEpoch(epoch);
    pull.set_source_epoch(epoch - 1);
    pull.set_source(world_.other_server.identity.id);
    pull.add_source_locators("sim://other");
    RC_CHECK(world_.command(Opcode::PullTablet, pull)->outcome() == Status::Ok);
    RC_CHECK(world_.runUntil([&] { return progress().done || progress().phase == Phase::Prepared; }));
    if (adopt(epoch)) {
      RC_CHECK(tablet_.take(epoch, true) == Status::Ok);
      // The write has its key pulled before others.
      (void)tablet_.use(epoch);
      RC_CHECK(world_.runUntil([&] { return progress().phase >= Phase::Joined || source_.isUsedUp(); }));
      world_.runFor(kAfterLastNs);
      if (progress().phase == Phase::Joined) tablet_.serve(epoch);
    }
    tablet_.drop(epoch);
  }

 private:
  using Phase = master::MigrationTarget::Phase;
  // The last answer may bring everything, which then joins the log.
  static constexpr int64_t kAfterLastNs = 50 * runtime::kNanosPerMilli;
  static constexpr uint64_t kVersionCeiling = 1000;

  master::MigrationTarget::Progress progress() {
    return world_.servers[0]->master().migrationTarget()->progress(fuzz::FetchedTablet::kId).value();
  }
  // Has the results of calls taken over. False if that has failed.
  bool adopt(uint64_t epoch) {
    wire::control::AdoptTabletRequest adopt;
    adopt.set_tablet(fuzz::FetchedTablet::kId.value);
    adopt.set_epoch(epoch);
    adopt.set_version_ceiling(kVersionCeiling);
    (void)world_.command(Opcode::AdoptTablet, adopt);
    RC_CHECK(world_.runUntil([&] { return progress().done || progress().phase == Phase::Adopted; }));
    return !progress().done;
  }

  sim::MasterWorld world_;
  HostileSource source_;
  fuzz::FetchedTablet tablet_;
  uint64_t epoch_ = 1;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int kInputsPerWorld = 100;
  static std::unique_ptr<PullWorld> world;
  static int inputs = 0;
  if (inputs++ % kInputsPerWorld == 0) {
    world.reset();
    world = std::make_unique<PullWorld>();
  }
  world->run(std::as_bytes(std::span(data, size)));
  return 0;
}
