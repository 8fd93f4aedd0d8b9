#include "master/tablet_messages.h"

#include <algorithm>

#include "wire/control.pb.h"

namespace ramcore::master {
namespace {

namespace control = wire::control;

rpc::PeerAddress addressOf(uint64_t id, const google::protobuf::RepeatedPtrField<std::string>& locators) {
  rpc::PeerAddress address{.id = id, .locators = {}};
  for (const std::string& text : locators) {
    auto locator = transport::Locator::parse(text);
    if (locator.ok()) address.locators.push_back(std::move(locator).value());
  }
  return address;
}

/// @tparam Message  RecoverTabletsRequest or DeadLog, which have the same fields for a log
/// @return false: it makes no sense
template <typename Message>
bool addLog(const Message& message, RecoveryPlan& plan) {
  RecoveryPlan::Log& log = plan.logs.emplace_back();
  log.dead = ServerId(message.dead());
  log.is_salvage = message.salvage();
  for (const control::ReplicaHolder& holder : message.holders()) {
    log.holders.push_back(addressOf(holder.id(), holder.locators()));
    if (holder.id() == 0 || log.holders.back().locators.empty()) return false;
  }
  for (const control::RecoverySegment& segment : message.segments()) {
    RecoveryPlan::Segment& to = log.segments.emplace_back();
    to.id = SegmentId(segment.segment());
    to.holders = {segment.holders().begin(), segment.holders().end()};
    to.is_cut = segment.cut();
    for (const control::ReplicaVersion& replica : segment.replicas()) {
      to.replicas.push_back({.epoch = replica.replica_epoch(),
                             .length_bytes = replica.length_bytes(),
                             .closed = static_cast<uint8_t>(replica.closed())});
    }
  }
  return true;
}

}  // namespace

store::Tablet fromControl(const control::Tablet& message) {
  store::Tablet tablet;
  tablet.id = TabletId(message.id());
  tablet.table = TableId(message.table());
  tablet.range = {message.first_hash(), message.last_hash()};
  tablet.epoch = TabletEpoch(message.epoch());
  // A level that is not known here becomes the safest. Its writers may get more than they asked for.
  tablet.durability = message.durability() == control::DURABILITY_BUFFERED ? Durability::Buffered : Durability::Sync;
  return tablet;
}

bool fromControl(const control::RecoverTabletsRequest& message, RecoveryPlan& plan) {
  if (!addLog(message, plan)) return false;
  if (message.has_second() && !addLog(message.second(), plan)) return false;
  plan.is_survivor = message.survivor();
  for (const control::Tablet& tablet : message.tablets()) {
    RecoveryPlan::Part& part = plan.parts.emplace_back();
    part.tablet = fromControl(tablet);
    for (const RecoveryPlan::Log& log : plan.logs) {
      const auto own = std::ranges::find(tablet.logs(), log.dead.value, &control::LogRef::server);
      part.first_segments.emplace_back(own == tablet.logs().end() ? 0 : own->first_segment());
    }
  }
  return plan.validate();
}

rpc::PeerAddress sourceOf(const control::PullTabletRequest& message) {
  return addressOf(message.source(), message.source_locators());
}

control::PullPhase phaseOf(MigrationTarget::Phase phase) {
  using Phase = MigrationTarget::Phase;
  switch (phase) {
    case Phase::Preparing:
      return control::PULL_PREPARING;
    case Phase::Prepared:
      return control::PULL_PREPARED;
    case Phase::Adopting:
      return control::PULL_ADOPTING;
    case Phase::Adopted:
      return control::PULL_ADOPTED;
    case Phase::Arriving:
      return control::PULL_ARRIVING;
    case Phase::Arrived:
      return control::PULL_ARRIVED;
    case Phase::Joined:
    case Phase::Settling:
      return control::PULL_JOINED;
  }
  return control::PULL_PHASE_UNKNOWN;
}

}  // namespace ramcore::master
