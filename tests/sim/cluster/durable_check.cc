#include "sim/cluster/durable_check.h"

#include <algorithm>
#include <utility>

#include "backup/frame_file.h"
#include "base/hash.h"
#include "coordinator/stored_state.h"
#include "log/log_reader.h"
#include "sim/cluster/peek_storage.h"
#include "sim/workload/values.h"

namespace ramcore::sim {
namespace {

constexpr size_t kFailuresMax = 5;
constexpr std::string_view kFrameFile = "frames";

ServerId machineId(size_t machine) { return ServerId(machine + 1); }

bool creates(const Operation& operation) {
  return operation.kind == OperationKind::Write || operation.kind == OperationKind::Increment;
}

}  // namespace

DurableCheck::DurableCheck(const SimCluster& cluster, const SimTables& tables, const History& history,
                           runtime::Random random)
    : cluster_(cluster), tables_(tables), history_(history), random_(random) {}

void DurableCheck::check(const char* when) {
  if (!failures_.empty()) return;
  when_ = when;
  const std::map<ServerId, Owner> all = owners();
  if (all.empty()) return;
  ++moments_;
  absorb();
  readDisks(all);
  for (const auto& [id, owner] : all) judge(owner);
}

void DurableCheck::fail(const std::string& what) {
  if (failures_.size() < kFailuresMax) failures_.push_back("on the disks, " + std::string(when_) + ": " + what);
}

// ---- what clients were told

void DurableCheck::absorb() {
  const std::vector<Operation>& operations = history_.operations();
  for (; absorbed_ < operations.size(); ++absorbed_) unsettled_.push_back(absorbed_);
  std::erase_if(unsettled_, [&](size_t index) {
    if (!operations[index].isSettled()) return false;
    fold(operations[index]);
    return true;
  });
}

void DurableCheck::fold(const Operation& operation) {
  if (operation.outcome == Outcome::NotRun || operation.version == 0) return;
  Facts& facts = facts_[operation.key];
  if (operation.kind == OperationKind::Remove && operation.outcome == Outcome::Ok) {
    facts.removed = std::max(facts.removed, operation.version);
    facts.shown = std::max(facts.shown, operation.version);
    return;
  }
  if (!operation.created() && !operation.observedVersion()) return;
  facts.shown = std::max(facts.shown, operation.version);
  if (operation.outcome != Outcome::Ok) return;
  facts.values[operation.version] = operation.kind == OperationKind::Write ? operation.argument : operation.result;
}

// A call that may have happened, or may still.
bool DurableCheck::hasOpen(HistoryKey key, bool removes) const {
  return std::any_of(unsettled_.begin(), unsettled_.end(), [&](size_t index) {
    const Operation& operation = history_.operations()[index];
    return operation.key == key && (removes ? operation.kind == OperationKind::Remove : creates(operation));
  });
}

bool DurableCheck::mayHaveWritten(HistoryKey key, const ObservedValue& value) const {
  return std::any_of(unsettled_.begin(), unsettled_.end(), [&](size_t index) {
    const Operation& operation = history_.operations()[index];
    if (operation.key != key) return false;
    if (operation.kind == OperationKind::Write) return operation.argument == value;
    return operation.kind == OperationKind::Increment && value.is_integer;
  });
}

// ---- who owns what, as it is stored

std::map<ServerId, DurableCheck::Owner> DurableCheck::owners() {
  using coordinator::decode;
  std::map<ServerId, Owner> owners;
  const auto& records = cluster_.disk.contents();
  const auto each = [&](std::string_view prefix, const auto& take) {
    for (auto at = records.lower_bound(std::string(prefix)); at != records.end() && at->first.starts_with(prefix); ++at)
      take(at->second);
  };
  table_indexes_.clear();
  each(coordinator::kTablePrefix, [&](const std::string& bytes) {
    coordinator::Table table;
    if (!decode(bytes, table)) return;
    for (size_t i = 0; i < tables_.all().size(); ++i) {
      if (tables_.all()[i].name == table.name) table_indexes_[table.id] = i;
    }
  });
  each(coordinator::kTabletPrefix, [&](const std::string& bytes) {
    coordinator::Tablet tablet;
    if (!decode(bytes, tablet) || tablet.logs.empty()) return;
    Owner& owner = owners[tablet.owner];
    owner.tablets.push_back(tablet);
    const auto index = table_indexes_.find(tablet.table);
    owner.is_all_sync = owner.is_all_sync && index != table_indexes_.end() &&
                        tables_.all()[index->second].durability == Durability::Sync;
  });
  if (owners.empty()) return owners;
  each(coordinator::kServerPrefix, [&](const std::string& bytes) {
    coordinator::Server server;
    if (!decode(bytes, server)) return;
    const auto owner = owners.find(server.id);
    if (owner != owners.end()) owner->second.server = server;
  });
  return owners;
}

bool DurableCheck::isOwned(const Owner& owner, HistoryKey key) const {
  const std::string bytes = keyBytes(key);
  return std::any_of(owner.tablets.begin(), owner.tablets.end(), [&](const coordinator::Tablet& tablet) {
    const auto index = table_indexes_.find(tablet.table);
    return index != table_indexes_.end() && index->second == tables_.indexOf(key) &&
           tablet.range.contains(hashKey(tablet.table, asBytes(bytes)));
  });
}

bool DurableCheck::wasAnythingTold(const Owner& owner) const {
  return std::any_of(facts_.begin(), facts_.end(),
                     [&](const auto& one) { return one.second.shown != 0 && isOwned(owner, one.first); });
}

// ---- what the disks hold

DurableCheck::CertificateKey DurableCheck::keyOf(const log::Certificate& certificate) {
  return {certificate.master,       certificate.segment,     certificate.replica_epoch,
          certificate.length_bytes, certificate.headers_crc, certificate.closed};
}

void DurableCheck::readDisks(const std::map<ServerId, Owner>& owners) {
  disks_.assign(cluster_.disks.size(), {});
  power_losses_.resize(disks_.size());
  is_somebody_powerless_ = false;
  for (size_t machine = 0; machine < disks_.size(); ++machine) {
    const runtime::SimDiskCounts& counts = cluster_.disks[machine]->counts();
    was_deceived_ = was_deceived_ || counts.power_losses_after_lies != 0;
    // The certificate may be there still, and not all of its bytes.
    if (std::exchange(power_losses_[machine], counts.power_losses) != counts.power_losses) {
      std::erase_if(verified_, [machine](const auto& known) { return std::get<0>(known) == machine; });
    }
    if (cluster_.isPowerless(machine)) {
      is_somebody_powerless_ = true;
    } else {
      readDisk(machine, owners);
    }
  }
}

void DurableCheck::readDisk(size_t machine, const std::map<ServerId, Owner>& owners) {
  PeekStorage storage(cluster_.disks[machine]->cachedBytes(kFrameFile), cluster_.disks[machine]->powerEpoch());
  auto file = backup::FrameFile::open(storage, {.storage_bytes = cluster_.options.storage_bytes,
                                                .segment_bytes = log::LogConfig::forTest().segment_bytes});
  if (!file.ok()) return;
  std::vector<std::byte> bytes;
  backup::FrameFile::Header header;
  for (uint32_t frame = 0; frame < (*file)->frameCount(); ++frame) {
    if ((*file)->readHeader(frame, header) != Status::Ok) continue;
    slots_.clear();
    for (const auto& slot : header.slots) {
      if (slot && owners.contains(slot->master)) slots_.push_back(*slot);
    }
    std::sort(slots_.begin(), slots_.end(), [](const auto& a, const auto& b) { return a.isNewerThan(b); });
    for (const log::Certificate& certificate : slots_) {
      const std::tuple known{machine, frame, keyOf(certificate)};
      const bool is_known = machine != rotten_ && verified_.contains(known);
      if (!is_known) {
        if ((*file)->readVerified(frame, certificate, bytes) != Status::Ok) continue;
        verified_.insert(known);
        contentsOf(certificate, bytes);
      }
      const bool is_marked = header.mark && header.mark->master == certificate.master &&
                             header.mark->segment == certificate.segment &&
                             certificate.replica_epoch <= header.mark->replica_epoch;
      const bool has_rotten = slots_.front().isNewerThan(certificate);
      const bool maybe_short = !certificate.closed && ((*file)->mayHaveLost() || is_marked || has_rotten);
      Found& found = disks_[machine][certificate.master][certificate.segment];
      if (found.contents == nullptr || certificate.isNewerThan(found.certificate)) {
        found = {certificate, &contents_.at(keyOf(certificate)), maybe_short};
      }
      break;
    }
  }
}

const DurableCheck::Contents& DurableCheck::contentsOf(const log::Certificate& certificate, ByteSpan bytes) {
  const auto [at, is_new] = contents_.try_emplace(keyOf(certificate));
  Contents& contents = at->second;
  if (!is_new) return contents;
  log::SegmentPreamble preamble;
  if (log::readPreamble(bytes, preamble) == Status::Ok && preamble.has_digest) {
    contents.has_digest = true;
    contents.previous_head = preamble.digest.payload.previous_head;
    for (uint32_t i = 0; i < preamble.digest.payload.count; ++i) contents.members.push_back(preamble.digest.at(i));
  }
  log::SegmentReader reader(bytes);
  for (auto group = reader.nextGroup(); !group.empty(); group = reader.nextGroup()) {
    for (const log::EntryView& entry : group) {
      const bool is_tombstone = entry.type() == log::EntryType::Tombstone;
      if (!is_tombstone && entry.type() != log::EntryType::Object) continue;
      const auto key = keyOfBytes(asText(entry.key()));
      contents.entries.push_back({.key = key.value_or(~HistoryKey{0}),
                                  .table = entry.table().value,
                                  .hash = hashKey(entry.table(), entry.key()),
                                  .version = entry.version(),
                                  .is_tombstone = is_tombstone,
                                  .value = is_tombstone ? ObservedValue{} : observe(asText(entry.payload()))});
    }
  }
  return contents;
}

// ---- judging

coordinator::LogSurvey DurableCheck::survey(const Owner& owner, uint32_t machines) const {
  std::map<ServerId, std::vector<coordinator::Replica>> answers;
  for (size_t machine = 0; machine < disks_.size(); ++machine) {
    const auto log = disks_[machine].find(owner.server.id);
    if ((machines & (1U << machine)) == 0 || log == disks_[machine].end()) continue;
    for (const auto& [segment, found] : log->second) {
      coordinator::Replica& replica = answers[machineId(machine)].emplace_back();
      replica.segment = segment;
      replica.epoch = found.certificate.replica_epoch;
      replica.is_closed = found.certificate.closed;
      replica.has_digest = found.contents->has_digest;
      replica.maybe_short = found.maybe_short;
      replica.length_bytes = found.certificate.length_bytes;
      replica.previous_head = found.contents->previous_head;
      if (!replica.is_closed) replica.members = found.contents->members;
    }
  }
  const bool is_all = machines == (1U << disks_.size()) - 1;
  return coordinator::surveyLog(
      owner.server.floor, answers,
      {.flushed_suffices = owner.is_all_sync && !was_deceived_, .nobody_is_away = is_all && !is_somebody_powerless_});
}

void DurableCheck::judge(const Owner& owner) {
  const std::string who = "server " + std::to_string(owner.server.id.value);
  const uint32_t all = (1U << disks_.size()) - 1;
  const coordinator::LogSurvey whole = survey(owner, all);
  if (whole.isComplete()) {
    judgeReplay(owner, whole, who);
  } else if (!is_somebody_powerless_ && wasAnythingTold(owner)) {
    fail("the log of " + who + " is not whole: " +
         (whole.head ? std::to_string(whole.missing.size()) + " segments are missing" : "it has no end"));
  }
  std::vector<uint32_t> parts;
  for (size_t machine = 0; machine < disks_.size(); ++machine) parts.push_back(1U << machine);
  parts.push_back(static_cast<uint32_t>(random_.between(1, all)));
  for (const uint32_t machines : parts) {
    const coordinator::LogSurvey part = survey(owner, machines);
    if (!part.isComplete()) continue;
    ++partial_;
    judgeReplay(owner, part, who + ", of the machines " + std::to_string(machines) + " (bits)");
  }
}

void DurableCheck::judgeReplay(const Owner& owner, const coordinator::LogSurvey& survey, const std::string& who) {
  ++replays_;
  std::vector<const coordinator::SurveyedSegment*> order;
  for (const auto& segment : survey.segments) order.push_back(&segment);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.below(i)]);
  State state;
  for (const coordinator::SurveyedSegment* segment : order) {
    if (segment->is_cut) continue;
    const Found* shortest = nullptr;
    for (const uint32_t place : segment->holders) {
      const Found& found = disks_[survey.holders[place].value - 1].at(owner.server.id).at(segment->id);
      if (shortest == nullptr || found.certificate.length_bytes < shortest->certificate.length_bytes) shortest = &found;
    }
    for (const Entry& entry : shortest->contents->entries) {
      const bool counts = std::any_of(owner.tablets.begin(), owner.tablets.end(), [&](const auto& tablet) {
        return tablet.table.value == entry.table && tablet.range.contains(entry.hash) &&
               segment->id >= tablet.logs.front().first_segment;
      });
      if (!counts) continue;
      Newest& newest = state[entry.key];
      const bool wins = entry.version > newest.version || (entry.version == newest.version && entry.is_tombstone);
      if (wins) newest = {entry.version, entry.is_tombstone, entry.value};
    }
  }
  for (const auto& [key, newest] : state) judgeKey(key, &newest, who);
  for (const auto& [key, facts] : facts_) {
    if (!state.contains(key) && isOwned(owner, key)) judgeKey(key, nullptr, who);
  }
}

void DurableCheck::judgeKey(HistoryKey key, const Newest* found, const std::string& who) {
  const Facts& facts = facts_[key];
  const bool is_there = found != nullptr && !found->is_tombstone;
  const std::string what = "key " + std::to_string(key) + " of " + who + ": ";
  if (!is_there) {
    if (facts.shown <= facts.removed || hasOpen(key, true)) return;
    return fail(what + "version " + std::to_string(facts.shown) + " was shown, and is not there");
  }
  const std::string version = "version " + std::to_string(found->version);
  if (found->version <= facts.removed) return fail(what + version + " was removed, and is there");
  if (found->version < facts.shown) {
    return fail(what + version + " is there, and " + std::to_string(facts.shown) + " was shown");
  }
  const auto known = facts.values.find(found->version);
  if (known != facts.values.end() ? known->second == found->value : mayHaveWritten(key, found->value)) return;
  fail(what + version + " has a value that nobody wrote");
}

}  // namespace ramcore::sim
