#pragma once

#include <cstdlib>

#include "fuzz/planted.h"
#include "log/format/entry_view.h"
#include "sim/cluster/master_world.h"

namespace ramcore::fuzz {

/// The tablet whose contents the first server of a world fetches from somebody hostile.
class FetchedTablet {
 public:
  static constexpr TableId kTable{4};
  static constexpr TabletId kId{2};

  explicit FetchedTablet(sim::MasterWorld& world) : world_(world) {}

  /// All of its table.
  static wire::control::Tablet withEpoch(uint64_t epoch) {
    wire::control::Tablet tablet;
    tablet.set_id(kId.value);
    tablet.set_table(kTable.value);
    tablet.set_last_hash(~uint64_t{0});
    tablet.set_epoch(epoch);
    return tablet;
  }

  /// Whatever came in, the tablet takes mutations and shows what it holds.
  void serve(uint64_t epoch) {
    RC_CHECK(take(epoch, false) == Status::Ok);
    RC_CHECK(use(epoch) == Status::Ok);
  }

  Status take(uint64_t epoch, bool arriving) {
    wire::control::TakeTabletRequest take;
    *take.mutable_tablet() = withEpoch(epoch);
    take.set_arriving(arriving);
    return world_.command(wire::Opcode::TakeTablet, take)->outcome();
  }

  /// A scan and a write of a key.
  /// @return what the scan was answered
  Status use(uint64_t epoch) {
    const ServerId server(world_.addresses[0].id);
    wire::Scan::Request scan{};
    scan.header = {.opcode = wire::Opcode::Scan, .target = server};
    scan.table = kTable;
    scan.epoch = TabletEpoch(epoch);
    scan.response_bytes = 64 * 1024;
    const auto scanned = world_.send(world_.client, std::as_bytes(std::span(&scan, 1)), 0);
    const std::string_view key = "k";
    wire::Write::Request write{};
    write.header = {.opcode = wire::Opcode::Write, .target = server};
    write.identity = {.client = ClientId(1), .sequence = Sequence(sequence_ + 1), .acknowledged = Sequence(sequence_)};
    ++sequence_;
    write.table = kTable;
    write.epoch = TabletEpoch(epoch);
    write.key_bytes = static_cast<uint16_t>(key.size());
    // It does not go before the key has arrived.
    write.condition = wire::Condition::VersionNotGreater;
    write.condition_version = UINT64_MAX;
    std::vector<std::byte> bytes(sizeof(write) + key.size());
    storeAs(bytes.data(), write);
    std::memcpy(bytes.data() + sizeof(write), key.data(), key.size());
    const auto answer = world_.send(world_.client, bytes, 0);
    const Status written = answer->outcome();
    RC_CHECK(name(written) != "Unknown" && written != Status::SessionLost && written != Status::Internal);
    wire::Write::Response response;
    const bool is_written = written == Status::Ok && wire::decode(answer->response.head(), response);
    crashIfPlanted(is_written && response.version > 1'000'000);
    return scanned->outcome();
  }

  void drop(uint64_t epoch) {
    wire::control::DropTabletRequest drop;
    drop.set_tablet(kId.value);
    drop.set_epoch(epoch);
    RC_CHECK(world_.command(wire::Opcode::DropTablet, drop)->outcome() == Status::Ok);
  }

 private:
  sim::MasterWorld& world_;
  uint64_t sequence_ = 0;
};

/// Gives every entry the table, padding and checksum that it ought to have.
inline void repairEntries(std::vector<std::byte>& bytes) {
  size_t at = 0;
  while (bytes.size() - at >= log::kEntryHeaderBytes) {
    const log::EntryView entry(bytes.data() + at);
    if (entry.alignedBytes() > bytes.size() - at) return;
    storeAs(bytes.data() + at + offsetof(log::EntryHeader, table), FetchedTablet::kTable.value);
    std::memset(bytes.data() + at + entry.bytes(), 0, entry.alignedBytes() - entry.bytes());
    storeAs(bytes.data() + at + offsetof(log::EntryHeader, crc), entry.computeCrc());
    at += entry.alignedBytes();
  }
}

}  // namespace ramcore::fuzz
