#include "sim/cluster/loss_trial.h"

#include <algorithm>
#include <cstddef>

#include "backup/frame_file.h"
#include "base/hash.h"
#include "log/format/segment_format.h"
#include "sim/cluster/peek_storage.h"
#include "sim/workload/values.h"

namespace ramcore::sim {
namespace {

bool isSettledRead(Status status) { return status == Status::Ok || status == Status::NotFound; }

}  // namespace

LossTrial::LossTrial(SimCluster& cluster, SimClient& admin, const SimTables& tables, const History& history,
                     const std::vector<FinalObject>& end)
    : cluster_(cluster),
      admin_(admin),
      tables_(tables),
      random_(cluster.scheduler.stream("loss trial")),
      start_(*this) {
  for (const FinalObject& object : end) known_[object.key].end = object;
  for (const Operation& operation : history.operations()) {
    if (operation.outcome == Outcome::NotRun) continue;
    Known& known = known_[operation.key];
    known.version_max = std::max(known.version_max, operation.version);
    if (operation.kind == OperationKind::Write) known.values.push_back(operation.argument);
    if (operation.kind == OperationKind::Increment) known.has_increments = true;
  }
}

void LossTrial::start() {
  admin_.dispatch().post(start_, runtime::Priority::Client);
  admin_.wake();
}

void LossTrial::fail(HistoryKey key, const std::string& what) {
  constexpr size_t kFailuresMax = 5;
  if (failures_.size() < kFailuresMax) {
    failures_.push_back("after the loss, key " + std::to_string(key) +
                        (known_[key].is_concerned ? " (concerned): " : ": ") + what);
  }
}

runtime::Task<void> LossTrial::run() {
  const bool is_chosen = co_await chooseVictim();
  if (is_chosen) {
    std::set<SegmentId> segments;
    std::vector<SegmentId> all;
    for (const auto& known : cluster_.servers[victim_]->master().replicas()->replicas()) {
      if (known.certified_bytes != 0 && std::find(all.begin(), all.end(), known.segment) == all.end()) {
        all.push_back(known.segment);
      }
    }
    // From one of them to all.
    const uint64_t of = 1 + random_.below(4);
    for (const SegmentId segment : all) {
      if (random_.below(of) == 0) segments.insert(segment);
    }
    if (segments.empty() && !all.empty()) segments.insert(all[random_.below(all.size())]);
    damage(segments);
    killVictim();
    co_await acceptUntilRecovered();
  }
  co_await readAll();
  co_await writeAll();
  // The victim is started again by a timer of this trial, which has to run before the trial ends.
  while (!is_victim_back_) co_await runtime::sleepFor(admin_.dispatch(), 100 * kMilli);
  is_over_ = true;
}

// A server that lives and has tablets.
runtime::Task<bool> LossTrial::chooseVictim() {
  for (;;) {
    auto tables = co_await admin_.core().coordinator().allTablets(soon());
    if (!tables.ok() && tables.error() == Status::Shutdown) co_return false;
    if (!tables.ok()) continue;
    const size_t first = random_.below(cluster_.servers.size());
    for (size_t i = 0; i < cluster_.servers.size(); ++i) {
      victim_ = (first + i) % cluster_.servers.size();
      const SimServer& server = *cluster_.servers[victim_];
      if (cluster_.isDown(victim_) || !server.isServing() || !server.rejected().empty()) continue;
      victim_id_ = server.master().id();
      for (auto& [key, known] : known_) {
        const std::string bytes = keyBytes(key);
        for (const client::TableMap& table : *tables) {
          table_ids_[table.name] = table.table;
          if (table.name != tables_.all()[tables_.indexOf(key)].name) continue;
          known.is_concerned = std::any_of(table.tablets.begin(), table.tablets.end(), [&](const auto& tablet) {
            return tablet.owner == victim_id_ && tablet.range.contains(hashKey(table.table, asBytes(bytes)));
          });
        }
      }
      const bool is_any =
          std::any_of(known_.begin(), known_.end(), [](const auto& one) { return one.second.is_concerned; });
      if (is_any) co_return true;
    }
    co_return false;
  }
}

void LossTrial::damage(const std::set<SegmentId>& segments) {
  for (size_t machine = 0; machine < cluster_.disks.size(); ++machine) damageOn(machine, segments);
}

// One bit of the header, which every certificate covers but for the state byte.
void LossTrial::damageOn(size_t machine, const std::set<SegmentId>& segments) {
  runtime::SimDisk& disk = *cluster_.disks[machine];
  const uint32_t segment_bytes = cluster_.options.log.segment_bytes;
  std::vector<uint32_t> frames;
  {
    PeekStorage storage(disk.cachedBytes(backup::FrameFile::kFileName), disk.powerEpoch());
    auto file = backup::FrameFile::open(
        storage, {.storage_bytes = cluster_.options.storage_bytes, .segment_bytes = segment_bytes});
    if (!file.ok()) return;
    backup::FrameFile::Header header;
    for (uint32_t frame = 0; frame < (*file)->frameCount(); ++frame) {
      if ((*file)->readHeader(frame, header) != Status::Ok) continue;
      const bool is_its = std::any_of(header.slots.begin(), header.slots.end(), [&](const auto& slot) {
        return slot && slot->master == victim_id_ && segments.contains(slot->segment);
      });
      if (is_its) frames.push_back(frame);
    }
  }
  for (const uint32_t frame : frames) {
    const uint64_t byte = random_.below(16);
    const uint64_t at = backup::FrameFile::fileBytes(frame, segment_bytes) + backup::kBlockBytes +
                        (byte == offsetof(log::EntryHeader, state) ? 0 : byte);
    disk.flipBit(backup::FrameFile::kFileName, at * 8 + random_.below(8));
  }
}

// Kills the victim. A timer starts it again, before the loss is accepted or later.
void LossTrial::killVictim() {
  cluster_.killServer(victim_, false);
  const auto back_ns = static_cast<int64_t>(random_.between(50 * kMilli, 8'000 * kMilli));
  is_victim_back_ = false;
  cluster_.scheduler.call(cluster_.scheduler.nowNs() + back_ns, [this, trial = std::weak_ptr(alive_)] {
    if (trial.expired()) return;  // the run is over
    if (cluster_.isDown(victim_)) cluster_.restartServer(victim_);
    is_victim_back_ = true;
  });
}

runtime::Task<void> LossTrial::acceptUntilRecovered() {
  client::CoordinatorStub& coordinator = admin_.core().coordinator();
  for (;;) {
    co_await runtime::sleepFor(admin_.dispatch(), 100 * kMilli);
    const coordinator::Coordinator& there = cluster_.coordinator->coordinator();
    if (there.isServing() && there.isReleased(victim_id_)) co_return;
    auto status = co_await coordinator.clusterStatus(soon());
    if (!status.ok()) continue;
    for (const client::RecoveryProgress& recovery : status->recoveries) {
      if (recovery.server != victim_id_ || recovery.loss_token == 0 || recovery.loss_accepted) continue;
      const Status accepted = co_await coordinator.acceptLoss(recovery.server, recovery.loss_token, soon());
      was_accepted_ = was_accepted_ || accepted == Status::Ok || accepted == Status::OutcomeUnknown;
    }
  }
}

runtime::Task<void> LossTrial::readAll() {
  for (auto& [key, known] : known_) {
    const std::string bytes = keyBytes(key);
    for (;;) {
      const client::PointResult result = co_await admin_.core().read(tableOf(key), asBytes(bytes), soon());
      if (result.status == Status::Shutdown) co_return;
      if (!isSettledRead(result.status)) continue;
      judgeRead(key, known, result);
      break;
    }
  }
}

bool LossTrial::wasWritten(const Known& known, const ObservedValue& value) const {
  if (known.has_increments && value.is_integer) return true;
  return std::find(known.values.begin(), known.values.end(), value) != known.values.end();
}

void LossTrial::judgeRead(HistoryKey key, Known& known, const client::PointResult& result) {
  const bool is_there = result.status == Status::Ok;
  std::string bytes;
  if (is_there) result.takeValue(bytes);
  const ObservedValue value = is_there ? observe(bytes) : ObservedValue{};
  const bool is_same = is_there == known.end.present && (!is_there || value == known.end.value);
  if (!known.is_concerned || !was_accepted_) {
    if (!is_same || (is_there && result.version != known.end.version)) {
      fail(key, "has changed, and it was not lost; it is " +
                    (is_there ? describe(value) + ", version " + std::to_string(result.version) : "absent"));
    }
    return;
  }
  if (!is_same) ++changed_;
  if (!is_there) return;
  if (!wasWritten(known, value)) fail(key, "has a value that nobody wrote: " + describe(value));
  if (result.version <= known.version_max) {
    fail(key, "came back under version " + std::to_string(result.version) + ", and " +
                  std::to_string(known.version_max) + " was shown before");
  }
  known.version_max = std::max(known.version_max, result.version);
}

// Many of the keys were absent, so what is written to all of them may be more than the memory holds.
runtime::Task<void> LossTrial::removeAll() {
  for (const auto& [key, known] : known_) {
    const std::string bytes = keyBytes(key);
    const client::PointResult removed = co_await admin_.core().remove(tableOf(key), asBytes(bytes), {}, soon());
    if (removed.status == Status::Shutdown) co_return;
    if (!isSettledRead(removed.status)) fail(key, "cannot be removed");
  }
}

runtime::Task<void> LossTrial::writeAll() {
  uint64_t number = ~uint64_t{0} / 2;
  for (auto& [key, known] : known_) {
    const std::string bytes = keyBytes(key);
    const std::string value = uniqueValueBytes(++number, 100);
    client::PointResult written =
        co_await admin_.core().write(tableOf(key), asBytes(bytes), asBytes(value), {}, soon());
    if (written.status == Status::NoSpace) {
      co_await removeAll();
      written = co_await admin_.core().write(tableOf(key), asBytes(bytes), asBytes(value), {}, soon());
    }
    if (written.status == Status::Shutdown) co_return;
    if (written.status != Status::Ok) {
      fail(key, "cannot be written");
    } else if (written.version <= known.version_max) {
      fail(key, "got version " + std::to_string(written.version) + ", and " + std::to_string(known.version_max) +
                    " was shown before");
    }
    client::PointResult read = co_await admin_.core().read(tableOf(key), asBytes(bytes), soon());
    std::string back;
    if (read.status == Status::Ok) read.takeValue(back);
    if (back != value || read.version != written.version) fail(key, "does not have what was just written");
  }
}

}  // namespace ramcore::sim
