/// Wrong answers of backups to a recovery master: they fail that recovery, and nothing else.

#include <gtest/gtest.h>

#include "sim/recovery_fixture.h"

namespace ramcore::sim::raw {
namespace {

class HostileBackupTest : public MasterRecoveryTest {
 protected:
  using Request = wire::ReadReplica::Request;
  using Page = ScriptedBackup::Page;

  HostileBackupTest() {
    EXPECT_EQ(drop(1, 1), Status::Ok);
    EXPECT_EQ(take(2, 0, kLast, 1), Status::Ok);
  }
  void prepare() {
    runtime::Random random(13);
    mutateRandomly(random, 20, 60);
    die();
    addBackup();
  }
  /// The first entry of this type, and its key or payload, can be changed and is given its checksum again.
  static void changeEntry(Page& page, log::EntryType type, const std::function<void(std::byte* entry)>& change) {
    for (size_t at = 0; at < page.entries.size();) {
      std::byte* const bytes = page.entries.data() + at;
      const log::EntryView entry(bytes);
      at += entry.alignedBytes();
      if (entry.type() != type) continue;
      change(bytes);
      storeAs(bytes + offsetof(log::EntryHeader, crc), log::EntryView(bytes).computeCrc());
      return;
    }
  }
  static void setVersion(std::byte* entry, Version version) {
    std::memcpy(entry + offsetof(log::EntryHeader, version), &version, 7);
  }
  /// Answers like this end the recovery soon; with an honest backup beside it, or alone the next time, it is all there.
  void expectRefused(const char* what, const std::function<void(const Request&, Page&)>& twist) {
    SCOPED_TRACE(what);
    backups[0]->twist = twist;
    const int64_t before_ns = world.scheduler.nowNs();
    const Status status = recoverAll(++epoch_);
    EXPECT_TRUE(status == Status::BadRequest || status == Status::Corrupt) << name(status);
    EXPECT_LT(world.scheduler.nowNs() - before_ns, 5 * kNanosPerSecond);
    if (backups.size() == 1) addBackup();
    ASSERT_EQ(recoverAll(++epoch_), Status::Ok);
    ASSERT_EQ(take(5, 0, kLast, epoch_, 1, false), Status::Ok);
    expectModel(epoch_);
    ASSERT_EQ(drop(5, epoch_, 1), Status::Ok);
    backups.pop_back();
  }

  uint64_t epoch_ = 1;
};

TEST_F(HostileBackupTest, EntriesOfOthers) {
  prepare();
  for (const auto type : {log::EntryType::Object, log::EntryType::Tombstone, log::EntryType::ResultRecord}) {
    expectRefused("another table", [type](const Request&, Page& page) {
      changeEntry(page, type,
                  [](std::byte* entry) { storeAs(entry + offsetof(log::EntryHeader, table), uint32_t{kTable + 1}); });
    });
    expectRefused("a version near the end", [type](const Request&, Page& page) {
      changeEntry(page, type, [](std::byte* entry) { setVersion(entry, kVersionMax); });
    });
  }
  expectRefused("a safe version near the end",
                [](const Request&, Page& page) { page.header.safe_version = ~uint64_t{0}; });
  expectRefused("a result of another kind", [](const Request&, Page& page) {
    changeEntry(page, log::EntryType::ResultRecord, [](std::byte* entry) {
      const size_t at = log::kEntryHeaderBytes + offsetof(log::ResultRecordPayload, opcode);
      storeAs(entry + at, static_cast<uint16_t>(Opcode::Read));
    });
  });
  expectRefused("other types of entries", [this](const Request& ask, Page& page) {
    const auto& segment = log.at(ask.segment.value);
    const log::EntryView header(segment.data());
    page.entries.assign(segment.begin(), segment.begin() + header.alignedBytes());
    page.header.entry_bytes = header.alignedBytes();
    page.header.entry_count = 1;
  });
}

TEST_F(HostileBackupTest, EntriesOutsideTheRanges) {
  prepare();
  control::RecoverTabletsRequest ask = request();
  addTablet(ask, 5, 0, kMiddle - 1, 2);
  const auto everything = [&](const Request& part, Page& page) {
    // As if it had not looked at the ranges.
    const auto& segment = log.at(part.segment.value);
    log::SegmentReader reader(segment);
    page = {};
    for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
      for (const log::EntryView& entry : group) {
        if (entry.type() != log::EntryType::Object) continue;
        page.entries.insert(page.entries.end(), entry.address(), entry.address() + entry.alignedBytes());
        ++page.header.entry_count;
      }
    }
    page.header.entry_bytes = static_cast<uint32_t>(page.entries.size());
  };
  backups[0]->twist = everything;
  ASSERT_EQ(recover(ask), Status::Ok);
  EXPECT_EQ(pullEnd(5, 1).status(), static_cast<uint32_t>(Status::BadRequest));

  ask = request();
  addTablet(ask, 5, 0, kLast, 3, 1'000'000);
  ASSERT_EQ(recover(ask), Status::Ok);
  EXPECT_EQ(pullEnd(5, 1).status(), static_cast<uint32_t>(Status::BadRequest)) << "entries of an earlier ownership";
  backups[0]->twist = nullptr;
  ask = request();
  addTablet(ask, 5, 0, kLast, 4, 1'000'000);
  ASSERT_EQ(recover(ask), Status::Ok);
  ASSERT_EQ(pullEnd(5, 1).status(), 0u);
  EXPECT_EQ(pullEnd(5, 1).objects(), 0u);
  EXPECT_EQ(world.servers[1]->master().index().entryCount(), 0u);
}

TEST_F(HostileBackupTest, PagesThatMakeNoSense) {
  prepare();
  expectRefused("a broken entry", [](const Request&, Page& page) {
    if (!page.entries.empty()) page.entries[page.entries.size() / 2] ^= std::byte{1};
  });
  expectRefused("half an entry", [](const Request&, Page& page) {
    if (page.entries.empty()) return;
    page.entries.resize(page.entries.size() - 8);
    page.header.entry_bytes -= 8;
  });
  expectRefused("fewer bytes than it says", [](const Request&, Page& page) { page.header.entry_bytes += 8; });
  expectRefused("fewer entries than it says", [](const Request&, Page& page) { page.header.entry_count += 1; });
  expectRefused("pages that never advance", [](const Request& ask, Page& page) {
    page.header.done = 0;
    page.header.next_offset_bytes = ask.offset_bytes;
  });
  expectRefused("pages that go back", [](const Request& ask, Page& page) {
    page.header.done = 0;
    page.header.next_offset_bytes = ask.offset_bytes == 0 ? 8 : 0;
  });
  expectRefused("more entries than the page is long", [](const Request& ask, Page& page) {
    page.header.done = 0;
    page.header.next_offset_bytes = ask.offset_bytes + 8;
  });
  expectRefused("pages behind the end of any segment", [](const Request&, Page& page) {
    page.header.done = 0;
    page.header.next_offset_bytes = ~uint32_t{0};
  });
}

TEST_F(HostileBackupTest, CommandsThatMakeNoSense) {
  prepare();
  const auto refused = [&](const char* what, const std::function<void(control::RecoverTabletsRequest&)>& change) {
    control::RecoverTabletsRequest ask = wholeTable(2);
    change(ask);
    EXPECT_EQ(recover(ask), Status::BadRequest) << what;
  };
  refused("no dead server", [](auto& ask) { ask.set_dead(0); });
  refused("no tablets", [](auto& ask) { ask.clear_tablets(); });
  refused("no segments", [](auto& ask) { ask.clear_segments(); });
  refused("segment 0", [](auto& ask) { ask.mutable_segments(0)->set_segment(0); });
  refused("nobody has a segment", [](auto& ask) { ask.mutable_segments(0)->clear_holders(); });
  refused("a holder that is not listed", [](auto& ask) {
    ask.mutable_segments(0)->add_holders(1);
    ask.mutable_segments(0)->add_replicas();
  });
  refused("a holder of nothing in particular", [](auto& ask) { ask.mutable_segments(0)->clear_replicas(); });
  refused("a holder without an id", [](auto& ask) { ask.mutable_holders(0)->set_id(0); });
  refused("a holder without a place", [](auto& ask) { ask.mutable_holders(0)->clear_locators(); });
  refused("a log of others", [](auto& ask) { ask.mutable_tablets(0)->mutable_logs(1)->set_server(1); });
  refused("tablets that overlap", [&](auto& ask) { addTablet(ask, 6, kMiddle, kLast, 2); });
  refused("a tablet twice", [&](auto& ask) { addTablet(ask, 5, kMiddle, kLast, 2); });
  EXPECT_TRUE(world.servers[1]->master().recoveryTarget()->idle());
  ASSERT_EQ(recoverAll(2), Status::Ok);
}

}  // namespace
}  // namespace ramcore::sim::raw
