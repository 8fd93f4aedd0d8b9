/// What a server that gives a tablet away may answer to the one that pulls it: slices with any header and any bytes as
/// entries. The pull ends, well or not, and the puller goes on serving.
///
/// An input is a list of answers: AnswerHead, then entries. Unless the answer says that it goes out as it is, its
/// entries get the tablet's table and the checksums that they ought to have, because a fuzzer guesses neither. When the
/// answers are used up, the source refuses.

#include <cstdlib>

#include "fuzz/planted.h"
#include "log/entry_view.h"
#include "sim/cluster/master_world.h"

namespace {

using namespace ramcore;
using wire::Opcode;

constexpr TableId kTable{4};
constexpr uint64_t kTablet = 2;

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

// Gives every entry the table, padding and checksum that it ought to have.
void repair(std::vector<std::byte>& bytes) {
  size_t at = 0;
  while (bytes.size() - at >= log::kEntryHeaderBytes) {
    const log::EntryView entry(bytes.data() + at);
    if (entry.alignedBytes() > bytes.size() - at) return;
    storeAs(bytes.data() + at + offsetof(log::EntryHeader, table), kTable.value);
    std::memset(bytes.data() + at + entry.bytes(), 0, entry.alignedBytes() - entry.bytes());
    storeAs(bytes.data() + at + offsetof(log::EntryHeader, crc), entry.computeCrc());
    at += entry.alignedBytes();
  }
}

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
    if ((head.flags & kAsItIs) == 0) repair(entries);
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
  PullWorld() : world_(1), source_(world_.other_server) { world_.addServer(); }

  /// Pulls with these answers, puts the tablet into service if that went well, and drops it.
  void run(ByteSpan answers) {
    source_.rest = answers;
    const uint64_t epoch = ++epoch_;
    wire::control::PullTabletRequest pull;
    fill(*pull.mutable_tablet(), epoch);
    pull.set_source_epoch(epoch - 1);
    pull.set_source(world_.other_server.identity.id);
    pull.add_source_locators("sim://other");
    RC_CHECK(world_.command(Opcode::PullTablet, pull)->outcome() == Status::Ok);
    const master::MigrationTarget& target = *world_.servers[0]->master().migrationTarget();
    RC_CHECK(world_.runUntil([&] { return target.progress(TabletId(kTablet)).value().done; }));
    const master::MigrationTarget::Progress progress = target.progress(TabletId(kTablet)).value();
    if (progress.status == Status::Ok) serve(epoch);
    wire::control::DropTabletRequest drop;
    drop.set_tablet(kTablet);
    drop.set_epoch(epoch);
    RC_CHECK(world_.command(Opcode::DropTablet, drop)->outcome() == Status::Ok);
  }

 private:
  static void fill(wire::control::Tablet& tablet, uint64_t epoch) {
    tablet.set_id(kTablet);
    tablet.set_table(kTable.value);
    tablet.set_last_hash(~uint64_t{0});
    tablet.set_epoch(epoch);
  }

  // Whatever came in, the tablet takes mutations and shows what it holds.
  void serve(uint64_t epoch) {
    wire::control::TakeTabletRequest take;
    fill(*take.mutable_tablet(), epoch);
    RC_CHECK(world_.command(Opcode::TakeTablet, take)->outcome() == Status::Ok);
    const ServerId server(world_.addresses[0].id);
    wire::Scan::Request scan{};
    scan.header = {.opcode = Opcode::Scan, .target = server};
    scan.table = kTable;
    scan.epoch = TabletEpoch(epoch);
    scan.response_bytes = 64 * 1024;
    const auto scanned = world_.send(world_.client, std::as_bytes(std::span(&scan, 1)), 0);
    RC_CHECK(scanned->outcome() == Status::Ok);
    const std::string_view key = "k";
    wire::Write::Request write{};
    write.header = {.opcode = Opcode::Write, .target = server};
    write.identity = {.client = ClientId(1), .sequence = Sequence(sequence_ + 1), .acknowledged = Sequence(sequence_)};
    ++sequence_;
    write.table = kTable;
    write.epoch = TabletEpoch(epoch);
    write.key_bytes = static_cast<uint16_t>(key.size());
    std::vector<std::byte> bytes(sizeof(write) + key.size());
    storeAs(bytes.data(), write);
    std::memcpy(bytes.data() + sizeof(write), key.data(), key.size());
    const auto answer = world_.send(world_.client, bytes, 0);
    const Status written = answer->outcome();
    RC_CHECK(name(written) != "Unknown" && written != Status::SessionLost && written != Status::Internal);
    wire::Write::Response response;
    const bool is_written = written == Status::Ok && wire::decode(answer->response.head(), response);
    fuzz::crashIfPlanted(is_written && response.version > 1'000'000);
  }

  sim::MasterWorld world_;
  HostileSource source_;
  uint64_t epoch_ = 1;
  uint64_t sequence_ = 0;
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
