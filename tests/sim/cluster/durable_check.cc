#include "sim/cluster/durable_check.h"

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "coordinator/state/stored_state.h"
#include "log/format/log_reader.h"
#include "sim/cluster/peek_storage.h"
#include "sim/workload/values.h"

namespace ramcore::sim {
namespace {

constexpr size_t kFailuresMax = 5;
constexpr uint64_t kJudgedOf = 64;          ///< of so many moments one is shown to the other judge
constexpr uint64_t kOtherBoot = 1'000'000;  ///< a power epoch that no simulated machine has

ServerId machineId(size_t machine) { return ServerId(machine + 1); }

bool creates(const Operation& operation) {
  return operation.kind == OperationKind::Write || operation.kind == OperationKind::Increment;
}

}  // namespace

DurableCheck::DurableCheck(const SimCluster& cluster, const SimTables& tables, const History& history,
                           runtime::Random random)
    : cluster_(cluster),
      tables_(tables),
      history_(history),
      random_(random),
      judge_random_(cluster.scheduler.stream("frame judge")) {}

void DurableCheck::check(const char* when) {
  if (!failures_.empty()) return;
  when_ = when;
  std::map<ServerId, Owner> all = owners();
  if (all.empty()) return;
  ++moments_;
  absorb();
  readDisks(all);
  alone_now_ = alone_ ? alone_() : std::nullopt;
  for (auto& [id, owner] : all) judge(owner);
  for (const coordinator::Tablet& tablet : lent_) judgeLent(tablet, all);
  if (judge_ != nullptr && judge_random_.below(kJudgedOf) == 0) askJudge(all);
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
  Facts& facts = facts_[placeOf(operation.key)];
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
  table_ids_.assign(tables_.all().size(), TableId());
  lent_.clear();
  std::set<TableId> sync_tables;
  each(coordinator::kTablePrefix, [&](const std::string& bytes) {
    coordinator::Table table;
    if (!decode(bytes, table)) return;
    if (table.durability == Durability::Sync) sync_tables.insert(table.id);
    for (size_t i = 0; i < tables_.all().size(); ++i) {
      if (tables_.all()[i].name == table.name) table_ids_[i] = table.id;
    }
  });
  each(coordinator::kTabletPrefix, [&](const std::string& bytes) {
    coordinator::Tablet tablet;
    if (!decode(bytes, tablet) || tablet.logs.empty()) return;
    (tablet.isLent() ? lent_ : owners[tablet.owner].tablets).push_back(tablet);
    for (const coordinator::LogRef& log : tablet.logs) {
      Owner& owner = owners[log.server];
      owner.is_all_sync = owner.is_all_sync && sync_tables.contains(tablet.table);
    }
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

bool DurableCheck::isIn(const std::vector<coordinator::Tablet>& tablets, Facts& facts) const {
  const TableId table = table_ids_[tables_.indexOf(facts.key)];
  if (table != facts.table) {
    facts.table = table;
    facts.hash = hashKey(table, asBytes(facts.bytes));
  }
  return table != TableId() && std::any_of(tablets.begin(), tablets.end(), [&](const auto& tablet) {
           return tablet.table == table && tablet.range.contains(facts.hash);
         });
}

std::vector<size_t> DurableCheck::keysOf(const std::vector<coordinator::Tablet>& tablets) {
  std::vector<size_t> keys;
  for (size_t place = 0; place < facts_.size(); ++place) {
    if (isIn(tablets, facts_[place])) keys.push_back(place);
  }
  return keys;
}

bool DurableCheck::wasAnythingTold(const std::vector<size_t>& keys) const {
  return std::any_of(keys.begin(), keys.end(), [&](size_t place) { return facts_[place].shown != 0; });
}

size_t DurableCheck::placeOf(HistoryKey key) {
  const auto [at, is_new] = places_.try_emplace(key, facts_.size());
  if (!is_new) return at->second;
  Facts& facts = facts_.emplace_back();
  facts.key = key;
  facts.bytes = keyBytes(key);
  return at->second;
}

// ---- what the disks hold

DurableCheck::CertificateKey DurableCheck::keyOf(const log::Certificate& certificate) {
  return {certificate.master,       certificate.segment,     certificate.replica_epoch,
          certificate.length_bytes, certificate.headers_crc, certificate.closed};
}

void DurableCheck::readDisks(const std::map<ServerId, Owner>& owners) {
  disks_.assign(cluster_.disks.size(), {});
  frames_.resize(disks_.size());
  is_somebody_powerless_ = false;
  for (size_t machine = 0; machine < disks_.size(); ++machine) {
    was_deceived_ = was_deceived_ || cluster_.disks[machine]->counts().power_losses_after_lies != 0;
    if (cluster_.isPowerless(machine)) {
      is_somebody_powerless_ = true;
    } else {
      readDisk(machine, owners);
    }
  }
}

uint64_t DurableCheck::headerAt(uint32_t frame) const {
  return backup::FrameFile::fileBytes(frame, cluster_.options.log.segment_bytes);
}

void DurableCheck::readDisk(size_t machine, const std::map<ServerId, Owner>& owners) {
  const runtime::SimDisk& disk = *cluster_.disks[machine];
  PeekStorage storage(disk.cachedBytes(backup::FrameFile::kFileName), disk.powerEpoch());
  auto file = backup::FrameFile::open(
      storage, {.storage_bytes = cluster_.options.storage_bytes, .segment_bytes = cluster_.options.log.segment_bytes});
  if (!file.ok()) return;
  frames_[machine].resize((*file)->frameCount());
  for (uint32_t number = 0; number < (*file)->frameCount(); ++number) {
    Frame& frame = frames_[machine][number];
    const uint64_t change = disk.lastChange(backup::FrameFile::kFileName, headerAt(number), backup::kBlockBytes);
    if (change != frame.header_change) {
      if ((*file)->readHeader(number, frame.header) != Status::Ok) continue;
      frame.header_change = change;
    }
    const backup::FrameFile::Header& header = frame.header;
    slots_.clear();
    for (const auto& slot : header.slots) {
      if (slot) slots_.push_back(*slot);
    }
    std::sort(slots_.begin(), slots_.end(), [](const auto& a, const auto& b) { return a.isNewerThan(b); });
    // A disk that lied may hold slots of several segments. To a server the frame is of the newest one, whole or not.
    std::erase_if(slots_, [newest = slots_.empty() ? log::Certificate{} : slots_.front()](const auto& slot) {
      return slot.master != newest.master || slot.segment != newest.segment;
    });
    if (slots_.empty() || !owners.contains(slots_.front().master)) continue;
    for (const log::Certificate& certificate : slots_) {
      if (!isVerified(machine, number, **file, certificate)) continue;
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

bool DurableCheck::isVerified(size_t machine, uint32_t number, backup::FrameFile& file,
                              const log::Certificate& certificate) {
  const CertificateKey key = keyOf(certificate);
  const uint64_t change = cluster_.disks[machine]->lastChange(
      backup::FrameFile::kFileName, headerAt(number) + backup::kBlockBytes, certificate.length_bytes);
  std::vector<Frame::Verified>& verified = frames_[machine][number].verified;
  const auto known =
      std::find_if(verified.begin(), verified.end(), [&](const auto& one) { return one.certificate == key; });
  if (known != verified.end() && known->data_change == change) return true;
  if (file.readVerified(number, certificate, bytes_) != Status::Ok) return false;
  addContents(certificate, bytes_);
  if (known != verified.end()) {
    known->data_change = change;
    return true;
  }
  if (verified.size() == backup::FrameFile::kSlotCount) verified.erase(verified.begin());
  verified.push_back({key, change});
  return true;
}

void DurableCheck::addContents(const log::Certificate& certificate, ByteSpan bytes) {
  const auto [at, is_new] = contents_.try_emplace(keyOf(certificate));
  if (!is_new) return;
  Contents& contents = at->second;
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
      contents.entries.push_back({.place = placeOf(key.value_or(~HistoryKey{0})),
                                  .table = entry.table().value,
                                  .hash = hashKey(entry.table(), entry.key()),
                                  .version = entry.version(),
                                  .is_tombstone = is_tombstone,
                                  .named = is_tombstone ? entry.namedSegment() : SegmentId(),
                                  .value = is_tombstone ? ObservedValue{} : observe(asText(entry.payload()))});
    }
  }
}

// ---- judging

// The replicas of a server's log that the backups of these machines would list.
std::map<ServerId, std::vector<coordinator::Replica>> DurableCheck::answers(ServerId owner, uint32_t machines) const {
  std::map<ServerId, std::vector<coordinator::Replica>> answers;
  for (size_t machine = 0; machine < disks_.size(); ++machine) {
    const auto log = disks_[machine].find(owner);
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
  return answers;
}

coordinator::LogSurvey DurableCheck::survey(const Owner& owner, uint32_t machines) const {
  // A server whose memory has more than any disk counts as a server that is away.
  const bool is_all = machines == (1U << disks_.size()) - 1 && !is_somebody_powerless_ && owner.server.id != alone_now_;
  coordinator::LogSurvey survey = coordinator::surveyLog(owner.server.floor, answers(owner.server.id, machines),
                                                         {.nobody_is_away = is_all, .read = owner.server.read});
  // A recovery waits here, because it cannot know that no disk has lost what it had flushed. The check knows it: where
  // all tables are sync, replicas that may be short have everything that was acknowledged, so the log can be judged.
  if (owner.is_all_sync && !was_deceived_) survey.doubtful.clear();
  return survey;
}

bool DurableCheck::mayWaitFor(ServerId dead, size_t absent) {
  const std::map<ServerId, Owner> all = owners();
  const auto owner = all.find(dead);
  if (owner == all.end()) return false;
  readDisks(all);
  const uint32_t others = ((1U << disks_.size()) - 1) & ~(1U << absent);
  const coordinator::LogSurvey survey = coordinator::surveyLog(
      owner->second.server.floor, answers(dead, others), {.nobody_is_away = false, .read = owner->second.server.read});
  if (!survey.head || !survey.missing.empty() || survey.doubtful.empty()) return false;
  return std::ranges::all_of(survey.doubtful, [&](const coordinator::DoubtfulSegment& segment) {
    return std::ranges::all_of(segment.held_by, [&](ServerId machine) {
      return cluster_.hasLostPowerSince(machine.value - 1, owner->second.server.name);
    });
  });
}

bool DurableCheck::isWholeWithout(ServerId server, size_t absent) {
  const std::map<ServerId, Owner> all = owners();
  const auto owner = all.find(server);
  if (owner == all.end()) return true;  // no tablet depends on it
  readDisks(all);
  const uint32_t others = ((1U << disks_.size()) - 1) & ~(1U << absent);
  return coordinator::surveyLog(owner->second.server.floor, answers(server, others),
                                {.nobody_is_away = false, .read = owner->second.server.read})
      .isComplete();
}

void DurableCheck::judge(Owner& owner) {
  owner.keys = keysOf(owner.tablets);
  replayed_.clear();
  const std::string who = "server " + std::to_string(owner.server.id.value);
  const uint32_t all = (1U << disks_.size()) - 1;
  const coordinator::LogSurvey whole = survey(owner, all);
  if (whole.isComplete()) {
    judgeLog(owner, whole, who);
  } else if (!is_somebody_powerless_ && owner.server.id != alone_now_ && wasAnythingTold(owner.keys)) {
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
    judgeLog(owner, part, who + ", of the machines " + std::to_string(machines) + " (bits)");
  }
}

// The contents of a tablet that is being handed over are in two logs: if both servers die, both are replayed together.
void DurableCheck::judgeLent(const coordinator::Tablet& tablet, const std::map<ServerId, Owner>& owners) {
  const std::string who = "tablet " + std::to_string(tablet.id.value) + " in the logs of servers " +
                          std::to_string(tablet.logs[0].server.value) + " and " +
                          std::to_string(tablet.logs[1].server.value);
  const uint32_t all = (1U << disks_.size()) - 1;
  const std::vector<size_t> keys = keysOf({tablet});
  for (const coordinator::LogRef& log : tablet.logs) {
    const bool is_excused = is_somebody_powerless_ || log.server == alone_now_ || !wasAnythingTold(keys);
    if (!is_excused && !survey(owners.at(log.server), all).isComplete()) {
      return fail("the log of server " + std::to_string(log.server.value) + " is not whole, for " + who);
    }
  }
  judgeLogs(tablet, owners, all, who);
  const auto part = static_cast<uint32_t>(random_.between(1, all));
  judgeLogs(tablet, owners, part, who + ", of the machines " + std::to_string(part) + " (bits)");
}

void DurableCheck::judgeLogs(const coordinator::Tablet& tablet, const std::map<ServerId, Owner>& owners,
                             uint32_t machines, const std::string& who) {
  std::vector<std::pair<coordinator::Tablet, Members>> parts;
  for (const coordinator::LogRef& log : tablet.logs) {
    const Owner& owner = owners.at(log.server);
    const coordinator::LogSurvey found = survey(owner, machines);
    if (!found.isComplete()) return;
    parts.emplace_back(tablet, membersOf(owner, found));
    parts.back().first.logs = {log};
  }
  ++lent_judged_;
  beginReplay();
  for (auto& [part, members] : parts) replay(part.logs.front().server, {part}, std::move(members));
  const std::vector<size_t> met = met_;
  for (const size_t place : met) judgeKey(facts_[place], who);
  for (const size_t place : keysOf({tablet})) {
    if (facts_[place].newest.replay != replay_) judgeKey(facts_[place], who);
  }
}

void DurableCheck::judgeLog(const Owner& owner, const coordinator::LogSurvey& survey, const std::string& who) {
  ++replays_;
  Members members = membersOf(owner, survey);
  if (std::find(replayed_.begin(), replayed_.end(), members) != replayed_.end()) return;
  beginReplay();
  replay(owner.server.id, owner.tablets, members);
  replayed_.push_back(std::move(members));
  for (const size_t place : met_) judgeKey(facts_[place], who);
  for (const size_t place : owner.keys) {
    if (facts_[place].newest.replay != replay_) judgeKey(facts_[place], who);
  }
}

// Of each member the shortest replica that a recovery might read.
DurableCheck::Members DurableCheck::membersOf(const Owner& owner, const coordinator::LogSurvey& survey) const {
  Members members;
  for (const coordinator::SurveyedSegment& segment : survey.segments) {
    if (segment.is_cut) continue;
    const Found* shortest = nullptr;
    for (const uint32_t place : segment.holders) {
      const Found& found = disks_[survey.holders[place].value - 1].at(owner.server.id).at(segment.id);
      if (shortest == nullptr || found.certificate.length_bytes < shortest->certificate.length_bytes) shortest = &found;
    }
    members.push_back({segment.id, shortest->contents});
  }
  return members;
}

void DurableCheck::beginReplay() {
  ++replay_;
  met_.clear();
}

// Replays the part of the tablets that is in the log of a server.
void DurableCheck::replay(ServerId server, const std::vector<coordinator::Tablet>& tablets, Members members) {
  for (size_t i = members.size(); i > 1; --i) std::swap(members[i - 1], members[random_.below(i)]);
  for (const auto& [segment, contents] : members) {
    for (const Entry& entry : contents->entries) {
      // Of tables that are created to be dropped nobody is told anything.
      if (std::ranges::find(table_ids_, TableId(entry.table)) == table_ids_.end()) continue;
      const bool counts = std::any_of(tablets.begin(), tablets.end(), [&, of = segment](const auto& tablet) {
        const SegmentId first_segment = tablet.logOf(server)->first_segment;
        return tablet.table.value == entry.table && tablet.range.contains(entry.hash) && of >= first_segment &&
               (!entry.is_tombstone || entry.named >= first_segment);
      });
      if (!counts) continue;
      Newest& newest = facts_[entry.place].newest;
      if (newest.replay != replay_) {
        newest = {replay_, 0, false, {}};
        met_.push_back(entry.place);
      }
      const bool wins = entry.version > newest.version || (entry.version == newest.version && entry.is_tombstone);
      if (wins) newest = {replay_, entry.version, entry.is_tombstone, entry.value};
    }
  }
}

void DurableCheck::judgeKey(const Facts& facts, const std::string& who) {
  const auto failOf = [&](uint64_t version, const std::string& what) {
    fail("key " + std::to_string(facts.key) + " of " + who + ": version " + std::to_string(version) + what);
  };
  const Newest& found = facts.newest;
  const bool is_there = found.replay == replay_ && !found.is_tombstone;
  if (!is_there) {
    if (facts.shown <= facts.removed || hasOpen(facts.key, true)) return;
    return failOf(facts.shown, " was shown, and is not there");
  }
  if (found.version <= facts.removed) return failOf(found.version, " was removed, and is there");
  if (found.version < facts.shown) {
    return failOf(found.version, " is there, and " + std::to_string(facts.shown) + " was shown");
  }
  const auto known = facts.values.find(found.version);
  if (known != facts.values.end() ? known->second == found.value : mayHaveWritten(facts.key, found.value)) return;
  failOf(found.version, " has a value that nobody wrote");
}

// ---- the other judge

void DurableCheck::askJudge(const std::map<ServerId, Owner>& owners) {
  JudgedMoment moment;
  moment.seed = seed_;
  moment.when = when_;
  moment.alone = alone_now_;
  moment.was_deceived = was_deceived_;
  const auto owes = [](const auto& disk) { return disk->owesFlushes(); };
  const auto is_sync = [](const SimTable& table) { return table.durability == Durability::Sync; };
  moment.is_power_failure = judge_random_.below(4) != 0 && !was_deceived_ &&
                            std::any_of(tables_.all().begin(), tables_.all().end(), is_sync) &&
                            std::none_of(cluster_.disks.begin(), cluster_.disks.end(), owes);
  addDisks(moment);
  addKeys(moment);
  for (const auto& [id, owner] : owners) {
    // Of tables that are created to be dropped nobody is told anything.
    std::vector<coordinator::Tablet> tablets = owner.tablets;
    std::erase_if(tablets,
                  [&](const auto& tablet) { return std::ranges::find(table_ids_, tablet.table) == table_ids_.end(); });
    if (tablets.empty()) continue;
    JudgedMoment::Owner& judged = moment.owners.emplace_back();
    judged.server = id;
    judged.floor_segment = owner.server.floor.segment;
    judged.floor_epoch = owner.server.floor.replica_epoch;
    // With the power everything goes but what is demanded here, and that is in whatever is left.
    judged.is_all_sync = owner.is_all_sync || moment.is_power_failure;
    for (const coordinator::Tablet& tablet : tablets) {
      judged.tablets.push_back({tablet.table, tablet.range, tablet.logs.front().first_segment});
    }
  }
  for (size_t machine = 0; machine < disks_.size(); ++machine) moment.parts.push_back(1U << machine);
  moment.parts.push_back(static_cast<uint32_t>(judge_random_.between(1, (1U << disks_.size()) - 1)));
  const JudgeVerdict verdict = judge_->judge(moment);
  for (size_t i = 0; i < judge_counts_.size(); ++i) judge_counts_[i] += verdict.counts[i];
  const char* const how =
      moment.is_power_failure ? "by the judge of frames, had all lost their power: " : "by the judge of frames: ";
  for (const std::string& line : verdict.failures) fail(how + line);
}

void DurableCheck::addDisks(JudgedMoment& moment) const {
  for (size_t machine = 0; machine < disks_.size(); ++machine) {
    JudgedMoment::Disk& judged = moment.disks.emplace_back();
    if (cluster_.isPowerless(machine)) continue;
    judged.disk = cluster_.disks[machine].get();
    const bool is_lost = moment.is_power_failure;
    judged.frames = is_lost ? judged.disk->flushedBytes(backup::FrameFile::kFileName)
                            : judged.disk->cachedBytes(backup::FrameFile::kFileName);
    judged.power_epoch = is_lost ? kOtherBoot : judged.disk->powerEpoch().value;
  }
}

void DurableCheck::addKeys(JudgedMoment& moment) {
  for (const size_t index : unsettled_) placeOf(history_.operations()[index].key);
  std::map<HistoryKey, JudgedMoment::Key*> by_key;
  moment.keys.reserve(facts_.size());
  for (const Facts& facts : facts_) {
    if (tables_.indexOf(facts.key) >= table_ids_.size()) continue;
    JudgedMoment::Key& key = moment.keys.emplace_back();
    by_key[facts.key] = &key;
    key.bytes = facts.bytes;
    key.table = table_ids_[tables_.indexOf(facts.key)];
    key.shown = facts.shown;
    key.removed = facts.removed;
    const auto value = facts.values.find(facts.shown);
    if (value != facts.values.end()) key.value = value->second;
    key.is_any = moment.is_power_failure && !tables_.isSync(facts.key);
  }
  for (const size_t index : unsettled_) {
    const Operation& operation = history_.operations()[index];
    const auto key = by_key.find(operation.key);
    if (key == by_key.end()) continue;
    if (operation.kind == OperationKind::Write) key->second->may_write.push_back(operation.argument);
    if (operation.kind == OperationKind::Increment) key->second->may_increment = true;
    if (operation.kind == OperationKind::Remove) key->second->may_remove = true;
  }
}

}  // namespace ramcore::sim
