/// What a server that gives a tablet away may answer to the one that pulls it: slices with any header and any bytes as
/// entries. The pull ends, well or not, and the puller goes on serving.
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
  uint8_t next_cursor;  // its highest byte
  uint8_t status;       // 0 is Ok
  uint32_t unused;
  uint64_t safe_version;
};
static_assert(sizeof(AnswerHead) == 16);
constexpr uint8_t kDone = 1;
constexpr uint8_t kAsItIs = 2;
constexpr uint8_t kWrongLength = 4;

/// The source of the pulls: answers with what the input says.
class HostileSource {
 public:
  explicit HostileSource(sim::RpcProcess& process) {
    const rpc::OpcodeRules rules{.roles = rpc::allow({transport::Role::Server})};
    process.dispatch().services().add<&HostileSource::answer>(Opcode::Pull, *this, rules);
    process.dispatch().services().add<&HostileSource::answer>(Opcode::PullResults, *this, rules);
    process.listen();
  }
  ByteSpan rest;

 private:
  void answer(rpc::Request request) {
    if (rest.size() < sizeof(AnswerHead)) return request.reply(Status::BadRequest);
    const auto head = loadAs<AnswerHead>(rest.data());
    rest = rest.subspan(sizeof(head));
    const ByteSpan taken = rest.first(std::min<size_t>(rest.size(), head.entry_units * size_t{8}));
    rest = rest.subspan(taken.size());
    if (head.status != 0) return request.reply(static_cast<Status>(head.status));
    std::vector<std::byte> entries(taken.begin(), taken.end());
    if ((head.flags & kAsItIs) == 0) fuzz::repairEntries(entries);
    const auto bytes = static_cast<uint32_t>(entries.size());
    transport::TxMessage response = request.allocate(static_cast<uint32_t>(sizeof(wire::Pull::Response)) + bytes);
    response.appendHead(wire::Pull::Response{.header = {.status = Status::Ok},
                                             .next_cursor = KeyHash{head.next_cursor} << 56,
                                             .entry_bytes = bytes + ((head.flags & kWrongLength) != 0 ? 8 : 0),
                                             .entry_count = 0,
                                             .done = static_cast<uint8_t>(head.flags & kDone),
                                             .safe_version = head.safe_version});
    response.appendHead(ByteSpan(entries));
    request.reply(std::move(response));
  }
};

class PullWorld {
 public:
  PullWorld() : world_(1), source_(world_.other_server), tablet_(world_) { world_.addServer(); }

  /// Pulls with these answers, puts the tablet into service if that went well, and drops it.
  void run(ByteSpan answers) {
    source_.rest = answers;
    const uint64_t epoch = ++epoch_;
    wire::control::PullTabletRequest pull;
    *pull.mutable_tablet() = fuzz::FetchedTablet::withEpoch(epoch);
    pull.set_source_epoch(epoch - 1);
    pull.set_source(world_.other_server.identity.id);
    pull.add_source_locators("sim://other");
    RC_CHECK(world_.command(Opcode::PullTablet, pull)->outcome() == Status::Ok);
    const master::MigrationTarget& target = *world_.servers[0]->master().migrationTarget();
    RC_CHECK(world_.runUntil([&] { return target.progress(fuzz::FetchedTablet::kId).value().done; }));
    const master::MigrationTarget::Progress progress = target.progress(fuzz::FetchedTablet::kId).value();
    if (progress.status == Status::Ok) tablet_.serve(epoch);
    tablet_.drop(epoch);
  }

 private:
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
