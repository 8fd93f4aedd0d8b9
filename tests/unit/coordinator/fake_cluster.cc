#include "unit/coordinator/fake_cluster.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ramcore::coordinator {

Status FakeCluster::take(ServerId server, const Tablet& tablet, bool created_empty) {
  Machine& at = machines_[server];
  if (at.refusals_left > 0) {
    --at.refusals_left;
    return Status::RetryLater;
  }
  const auto found = at.tablets.find(tablet.id);
  if (found != at.tablets.end()) {
    Held& held = found->second;
    if (held.intake_epoch == tablet.epoch) {
      if (!held.pulled) return Status::RetryLater;
      held = {.tablet = tablet, .content = held.content + held.intake};
      return Status::Ok;
    }
    if (held.tablet.epoch != tablet.epoch) {
      return held.tablet.epoch > tablet.epoch ? Status::StaleEpoch : Status::BadRequest;
    }
    if (held.arriving) {
      EXPECT_TRUE(held.joined) << "the contents are in the log of another server";
      if (!held.joined) return Status::RetryLater;
      held = {.tablet = tablet, .content = held.content + held.arrived};
      return Status::Ok;
    }
    if (held.pulling) {
      if (held.source != ServerId()) return Status::NotFound;
      if (!held.pulled) return Status::RetryLater;
      held.pulling = false;
    }
    return Status::Ok;
  }
  if (isOld(at, tablet)) return Status::StaleEpoch;
  if (!created_empty) return Status::NotFound;
  at.tablets[tablet.id] = {.tablet = tablet};
  return Status::Ok;
}

Status FakeCluster::drop(ServerId server, TabletId tablet, TabletEpoch epoch) {
  Machine& at = machines_[server];
  if (at.drop_failure != Status::Ok) return at.drop_failure;
  TabletEpoch& floor = at.dropped[tablet];
  floor = std::max(floor, epoch);
  const auto found = at.tablets.find(tablet);
  if (found == at.tablets.end()) return Status::Ok;
  if (found->second.tablet.epoch > epoch) return Status::StaleEpoch;
  // When the table is dropped, a newer epoch is named.
  const bool is_of_move = found->second.lent && found->second.tablet.epoch == epoch;
  EXPECT_FALSE(is_of_move && isNeeded(tablet)) << "the last copy of what has not arrived";
  at.tablets.erase(found);
  return Status::Ok;
}

Status FakeCluster::giveUpIntake(ServerId server, TabletId tablet, TabletEpoch epoch) {
  const auto found = machines_[server].tablets.find(tablet);
  if (found == machines_[server].tablets.end()) return Status::NotFound;
  if (found->second.return_epoch && found->second.return_epoch <= epoch) {
    found->second.return_epoch = {};
    TabletEpoch& floor = machines_[server].dropped[tablet];
    floor = std::max(floor, epoch);
    return Status::Ok;
  }
  if (found->second.intake_epoch > epoch) return Status::StaleEpoch;
  found->second.intake_epoch = {};
  return Status::Ok;
}

Status FakeCluster::split(ServerId server, TabletId id, const Tablet& lower, const Tablet& upper) {
  Machine& at = machines_[server];
  if (at.tablets.contains(lower.id) && at.tablets.contains(upper.id)) return Status::Ok;
  const auto found = at.tablets.find(id);
  if (found == at.tablets.end()) return Status::NotFound;
  const uint64_t content = found->second.content;
  at.tablets.erase(found);
  at.tablets[lower.id] = {.tablet = lower, .content = content};
  at.tablets[upper.id] = {.tablet = upper, .content = content};
  return Status::Ok;
}

Status FakeCluster::freeze(ServerId server, TabletId id, TabletEpoch epoch, bool frozen, TabletEpoch new_epoch) {
  Machine& at = machines_[server];
  const auto found = at.tablets.find(id);
  if (found == at.tablets.end()) return Status::NotFound;
  Held& held = found->second;
  if (!frozen && held.tablet.epoch == new_epoch) return Status::Ok;
  if (held.tablet.epoch != epoch || held.lent) return Status::StaleEpoch;
  held.frozen = frozen;
  if (!frozen) held.tablet.epoch = new_epoch;
  return Status::Ok;
}

Status FakeCluster::freezeArriving(ServerId server, TabletId id, TabletEpoch epoch, TabletEpoch return_epoch) {
  Machine& at = machines_[server];
  const auto found = at.tablets.find(id);
  if (found == at.tablets.end()) return Status::NotFound;
  Held& held = found->second;
  if (held.tablet.epoch != epoch || !held.arriving || return_epoch <= held.return_given_up) return Status::StaleEpoch;
  held.frozen = true;
  return Status::Ok;
}

Status FakeCluster::thaw(ServerId server, TabletId id, TabletEpoch epoch, TabletEpoch return_epoch) {
  Machine& at = machines_[server];
  const auto found = at.tablets.find(id);
  if (found == at.tablets.end()) return Status::NotFound;
  Held& held = found->second;
  if (held.tablet.epoch != epoch || !held.arriving) return Status::StaleEpoch;
  held.return_given_up = std::max(held.return_given_up, return_epoch);
  held.frozen = false;
  return Status::Ok;
}

Status FakeCluster::lend(ServerId server, TabletId id, TabletEpoch epoch) {
  Machine& at = machines_[server];
  const auto found = at.tablets.find(id);
  if (found == at.tablets.end()) return Status::NotFound;
  if (found->second.tablet.epoch != epoch || !found->second.frozen) return Status::StaleEpoch;
  found->second.lent = true;
  found->second.arriving = false;  // what has arrived stays where it came from
  return Status::Ok;
}

Status FakeCluster::adopt(ServerId server, TabletId id, TabletEpoch epoch, Version version_ceiling) {
  EXPECT_EQ(version_ceiling, kVersionCeiling);
  Machine& at = machines_[server];
  const auto found = at.tablets.find(id);
  if (found == at.tablets.end()) return Status::NotFound;
  Held& held = found->second;
  const bool returns = held.return_epoch == epoch;
  if (held.tablet.epoch != epoch && !returns) return Status::StaleEpoch;
  // A pull that has failed says why to every command, but RetryLater would say that it goes on.
  if (at.pull_failure == Status::RetryLater) return Status::NotFound;
  if (at.pull_failure != Status::Ok) return at.pull_failure;
  if (!held.pulled) return Status::RetryLater;
  if (held.adopted) return Status::Ok;
  const ServerId source = returns ? held.returns_from : held.source;
  const auto original = machines_[source].tablets.find(id);
  if (original == machines_[source].tablets.end() || !original->second.frozen) return Status::RetryLater;
  held.adopted = ++at.pull_polls % 2 == 0;
  return held.adopted ? Status::Ok : Status::RetryLater;
}

Status FakeCluster::takeArriving(ServerId server, const Tablet& tablet) {
  Machine& at = machines_[server];
  const auto found = at.tablets.find(tablet.id);
  if (isOld(at, tablet)) return Status::StaleEpoch;
  if (found == at.tablets.end()) return Status::NotFound;
  Held& held = found->second;
  const bool returns = held.return_epoch == tablet.epoch;
  if (held.tablet.epoch != tablet.epoch && !returns) return Status::StaleEpoch;
  if (held.intake_epoch) return Status::RetryLater;
  if (!held.pulling && !returns) return Status::Ok;
  if (!held.adopted) return Status::RetryLater;
  const ServerId source = returns ? held.returns_from : held.source;
  const auto original = machines_[source].tablets.find(tablet.id);
  const bool is_answered = original != machines_[source].tablets.end() && !original->second.lent;
  EXPECT_FALSE(is_answered) << "the other server answers as well";
  if (returns) {
    EXPECT_TRUE(held.lent);
    held = {.tablet = tablet, .source = source, .content = held.content};
  }
  held.pulling = false;
  held.arriving = true;
  return Status::Ok;
}

Status FakeCluster::pullBack(ServerId server, const Tablet& tablet, ServerId source) {
  Machine& at = machines_[server];
  if (isOld(at, tablet)) return Status::StaleEpoch;
  const auto found = at.tablets.find(tablet.id);
  if (found == at.tablets.end()) return Status::NotFound;
  Held& held = found->second;
  if (held.tablet.epoch == tablet.epoch || held.return_epoch == tablet.epoch) return Status::Ok;
  if (held.tablet.epoch > tablet.epoch || held.return_epoch > tablet.epoch) return Status::StaleEpoch;
  if (!held.lent) return Status::NotFound;
  held.return_epoch = tablet.epoch;
  held.returns_from = source;
  held.pulled = false;
  held.adopted = false;
  return Status::Ok;
}

Status FakeCluster::pull(ServerId server, const Tablet& tablet, TabletEpoch source_epoch, ServerId source) {
  Machine& at = machines_[server];
  const auto found = at.tablets.find(tablet.id);
  if (found != at.tablets.end()) {
    if (found->second.tablet.epoch == tablet.epoch) return Status::Ok;
    if (found->second.tablet.epoch > tablet.epoch || !found->second.pulling) return Status::StaleEpoch;
  }
  if (isOld(at, tablet)) return Status::StaleEpoch;
  static_cast<void>(source_epoch);
  at.tablets[tablet.id] = {.tablet = tablet, .pulling = true, .source = source};
  return Status::Ok;
}

PullResult FakeCluster::progress(ServerId server, TabletId id, TabletEpoch epoch, SegmentId segment) {
  Machine& at = machines_[server];
  const auto found = at.tablets.find(id);
  PullResult result;
  const bool is_known = found != at.tablets.end() && (found->second.pulling || found->second.arriving) &&
                        found->second.tablet.epoch == epoch;
  const bool is_intake = found != at.tablets.end() && found->second.intake_epoch == epoch;
  if (found != at.tablets.end() && found->second.return_epoch == epoch) return progressOfMove(at, found->second);
  if (!is_known && !is_intake) {
    result.status = Status::NotFound;
    return result;
  }
  if (found->second.source != ServerId() && !is_intake) return progressOfMove(at, found->second);
  result.pull_status = pull_failure != Status::Ok ? pull_failure : at.pull_failure;
  if (mastersAtWork() > masters_with_places && !found->second.pulled) {
    result.lacks_places = true;
    if (!masters_give_up || ++at.pull_polls % 20 != 0) return result;
    result.pull_status = Status::TooFewReplicas;
    ++given_up_count;
    return result;
  }
  found->second.pulled = found->second.pulled || (!at.stalls && ++at.pull_polls % 3 == 0);
  result.done = found->second.pulled;
  result.fraction = result.done ? 1 : 0.5;
  result.objects = found->second.content;
  result.log = {server, segment};
  return result;
}

PullResult FakeCluster::progressOfMove(Machine& at, Held& held) {
  PullResult result;
  const bool is_due = !at.stalls && ++at.pull_polls % 3 == 0;
  if (held.arriving) {
    const auto original = machines_[held.source].tablets.find(held.tablet.id);
    const bool is_reached = machines_[held.source].up && original != machines_[held.source].tablets.end();
    if (is_due && is_reached && !held.joined) {
      EXPECT_TRUE(original->second.lent);
      held.joined = held.has_all;  // one look later
      held.has_all = true;
      held.arrived = original->second.content;
    }
    result.phase = held.joined ? PullPhase::Joined : held.has_all ? PullPhase::Arrived : PullPhase::Arriving;
  } else {
    result.pull_status = pull_failure != Status::Ok ? pull_failure : at.pull_failure;
    held.pulled = held.pulled || is_due;
    result.phase = held.adopted ? PullPhase::Adopted : held.pulled ? PullPhase::Prepared : PullPhase::Preparing;
  }
  result.fraction = held.joined ? 1 : 0.5;
  result.objects = held.arrived;
  result.log = {ServerId(), SegmentId(9)};
  return result;
}

Replica FakeCluster::openReplica(uint64_t segment, uint64_t epoch, const std::vector<uint64_t>& members) {
  Replica replica{.segment = SegmentId(segment),
                  .epoch = epoch,
                  .has_digest = true,
                  .previous_head = SegmentId(segment - 1),
                  .members = {}};
  for (const uint64_t member : members) replica.members.emplace_back(member);
  return replica;
}

size_t FakeCluster::mastersAtWork() const {
  return static_cast<size_t>(std::ranges::count_if(machines_, [](const auto& one) {
    return one.second.up && std::ranges::any_of(one.second.tablets, [](const auto& held) {
             return held.second.pulling && !held.second.pulled && held.second.source == ServerId();
           });
  }));
}

std::vector<Replica> FakeCluster::fence(ServerId backup, ServerId dead) {
  Machine& at = machines_[backup];
  at.fenced.insert(dead);
  ++at.fence_count;
  return at.replicas[dead];
}

Status FakeCluster::recover(ServerId server, const RecoveryOrder& order) {
  Machine& at = machines_[server];
  if (order.is_survivor) return recoverOver(at, order);
  for (const SurveyedSegment& segment : order.segments) {
    EXPECT_FALSE(segment.holders.empty());
    for (const uint32_t holder : segment.holders) {
      EXPECT_TRUE(machines_[order.holders.at(holder)].fenced.contains(order.dead));
    }
  }
  size_t known = 0;
  for (const Tablet& tablet : order.tablets) {
    EXPECT_EQ(tablet.owner, server);
    const auto held = at.tablets.find(tablet.id);
    if (isOld(at, tablet)) return Status::StaleEpoch;
    if (held == at.tablets.end()) continue;
    if (held->second.tablet.epoch > tablet.epoch) return Status::StaleEpoch;
    if (held->second.tablet.epoch < tablet.epoch && !held->second.pulling) return Status::StaleEpoch;
    known += held->second.tablet.epoch == tablet.epoch ? 1 : 0;
  }
  if (known != 0) return known == order.tablets.size() ? Status::Ok : Status::StaleEpoch;
  if (order.dead == fails_for) return Status::BadRequest;
  for (const Tablet& tablet : order.tablets) {
    uint64_t content = logged(order.dead, tablet, !order.second);
    if (order.second) content += logged(order.second->dead, tablet, false);
    at.tablets[tablet.id] = {.tablet = tablet, .pulling = true, .content = content};
  }
  ++at.recovery_count;
  orders.push_back(order);
  return Status::Ok;
}

Status FakeCluster::recoverOver(Machine& at, const RecoveryOrder& order) {
  if (arrivals_lack_places) return Status::TooFewReplicas;
  for (const Tablet& tablet : order.tablets) {
    const auto held = at.tablets.find(tablet.id);
    if (held == at.tablets.end()) return Status::NotFound;
    if (held->second.tablet.epoch >= tablet.epoch || held->second.intake_epoch > tablet.epoch) {
      return held->second.tablet.epoch == tablet.epoch ? Status::Ok : Status::StaleEpoch;
    }
    if (held->second.intake_epoch == tablet.epoch) continue;
    held->second.intake_epoch = tablet.epoch;
    held->second.intake = logged(order.dead, tablet, false);
    held->second.pulled = false;
  }
  ++at.recovery_count;
  orders.push_back(order);
  return Status::Ok;
}

std::optional<uint64_t> FakeCluster::read(const Tablet& known) {
  Machine& at = machines_[known.owner];
  const auto found = at.tablets.find(known.id);
  if (!at.up || found == at.tablets.end()) return std::nullopt;
  const Held& held = found->second;
  if (held.tablet.epoch != known.epoch || held.pulling || held.lent) return std::nullopt;
  if (!held.arriving || held.joined) return held.content + held.arrived;
  const auto original = machines_[held.source].tablets.find(known.id);
  if (!machines_[held.source].up || original == machines_[held.source].tablets.end()) return std::nullopt;
  return held.content + original->second.content;
}

uint64_t FakeCluster::logged(ServerId server, const Tablet& tablet, bool is_all) {
  for (const auto& [id, held] : machines_[server].tablets) {
    if (held.tablet.table == tablet.table && held.tablet.range.contains(tablet.range.first)) {
      const uint64_t joined = held.intake_epoch && held.pulled ? held.intake : 0;
      return held.content + (is_all ? held.arrived + joined : 0);
    }
  }
  return 0;
}

bool FakeCluster::isNeeded(TabletId tablet) const {
  return std::ranges::any_of(machines_, [&](const auto& one) {
    const auto held = one.second.tablets.find(tablet);
    return held != one.second.tablets.end() && held->second.arriving && !held->second.joined;
  });
}

}  // namespace ramcore::coordinator
