/// What a backup may answer to a recovery master: pages with any header and any bytes as entries. The recovery ends,
/// well or not, and the server goes on serving.
///
/// An input is a list of answers: AnswerHead, then entries. Unless the answer says that it goes out as it is, its
/// entries get the tablet's table and the checksums that they ought to have. When the answers are used up, the backup
/// answers nonsense.

#include "fuzz/fetched_tablet.h"
#include "wire/replica_messages.h"

namespace {

using namespace ramcore;
using wire::Opcode;

struct AnswerHead {
  uint8_t flags;
  uint8_t entry_units;    // of 8 bytes
  uint8_t advance_units;  // of 64 bytes
  uint8_t status;         // 0 is Ok
  uint32_t unused;
  uint64_t safe_version;
};
static_assert(sizeof(AnswerHead) == 16);
constexpr uint8_t kDone = 1;
constexpr uint8_t kAsItIs = 2;
constexpr uint8_t kWrongLength = 4;
constexpr uint8_t kWrongCount = 8;

uint32_t countEntries(ByteSpan bytes) {
  uint32_t count = 0;
  log::EntryView entry;
  while (log::decodeEntry(bytes, entry) == log::DecodeError::None) {
    ++count;
    bytes = bytes.subspan(entry.alignedBytes());
  }
  return count;
}

class HostileBackup {
 public:
  explicit HostileBackup(sim::RpcProcess& process) {
    const rpc::OpcodeRules rules{.roles = rpc::allow({transport::Role::Server}),
                                 .request_bytes_min = sizeof(wire::ReadReplica::Request)};
    process.dispatch().services().add<&HostileBackup::answer>(Opcode::ReadReplica, *this, rules);
    process.listen();
  }
  ByteSpan rest;

 private:
  void answer(rpc::Request request) {
    const auto ask = loadAs<wire::ReadReplica::Request>(request.head().data());
    if (rest.size() < sizeof(AnswerHead)) return request.reply(Status::BadRequest);
    const auto head = loadAs<AnswerHead>(rest.data());
    rest = rest.subspan(sizeof(head));
    const ByteSpan taken = rest.first(std::min<size_t>(rest.size(), head.entry_units * size_t{8}));
    rest = rest.subspan(taken.size());
    if (head.status != 0) return request.reply(static_cast<Status>(head.status));
    std::vector<std::byte> entries(taken.begin(), taken.end());
    if ((head.flags & kAsItIs) == 0) fuzz::repairEntries(entries);
    const auto bytes = static_cast<uint32_t>(entries.size());
    wire::ReadReplica::Response answer{.header = {.status = Status::Ok},
                                       .next_offset_bytes = ask.offset_bytes + head.advance_units * 64U,
                                       .entry_bytes = bytes + ((head.flags & kWrongLength) != 0 ? 8 : 0),
                                       .entry_count = countEntries(entries) + ((head.flags & kWrongCount) != 0 ? 1 : 0),
                                       .done = static_cast<uint8_t>(head.flags & kDone),
                                       .safe_version = head.safe_version};
    transport::TxMessage response = request.allocate(static_cast<uint32_t>(sizeof(answer)) + bytes);
    response.appendHead(answer);
    response.appendHead(ByteSpan(entries));
    request.reply(std::move(response));
  }
};

class RecoveryWorld {
 public:
  RecoveryWorld() : world_(1), backup_(world_.other_server), tablet_(world_) { world_.addServer(); }

  /// Recovers two segments with these answers, puts the tablet into service if that went well, and drops it.
  void run(ByteSpan answers) {
    constexpr uint64_t kDead = 1000;
    backup_.rest = answers;
    const uint64_t epoch = ++epoch_;
    wire::control::RecoverTabletsRequest ask;
    ask.set_dead(kDead);
    wire::control::Tablet& tablet = *ask.add_tablets();
    tablet = fuzz::FetchedTablet::withEpoch(epoch);
    wire::control::LogRef& log = *tablet.add_logs();
    log.set_server(kDead);
    log.set_first_segment(1);
    wire::control::ReplicaHolder& holder = *ask.add_holders();
    holder.set_id(world_.other_server.identity.id);
    holder.add_locators("sim://other");
    for (const uint64_t id : {1, 2}) {
      wire::control::RecoverySegment& segment = *ask.add_segments();
      segment.set_segment(id);
      segment.add_holders(0);
      segment.add_replicas();
    }
    RC_CHECK(world_.command(Opcode::RecoverTablets, ask)->outcome() == Status::Ok);
    const master::RecoveryTarget& target = *world_.servers[0]->master().recoveryTarget();
    RC_CHECK(world_.runUntil([&] { return target.progress(fuzz::FetchedTablet::kId).value().done; }));
    if (target.progress(fuzz::FetchedTablet::kId)->status == Status::Ok) tablet_.serve(epoch);
    tablet_.drop(epoch);
  }

 private:
  sim::MasterWorld world_;
  HostileBackup backup_;
  fuzz::FetchedTablet tablet_;
  uint64_t epoch_ = 1;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int kInputsPerWorld = 100;
  static std::unique_ptr<RecoveryWorld> world;
  static int inputs = 0;
  if (inputs++ % kInputsPerWorld == 0) {
    world.reset();
    world = std::make_unique<RecoveryWorld>();
  }
  world->run(std::as_bytes(std::span(data, size)));
  return 0;
}
