#pragma once

#include "master/migration/migration_target.h"
#include "master/recovery/recovery_target.h"
#include "rpc/caller.h"
#include "store/tablet_table.h"

namespace ramcore::wire::control {
class PullTabletRequest;
class RecoverTabletsRequest;
class Tablet;
enum PullPhase : int;
}  // namespace ramcore::wire::control

namespace ramcore::master {

// The coordinator's messages about tablets, as what they are here. Any thread.

store::Tablet fromControl(const wire::control::Tablet& message);
/// False: the request makes no sense.
bool fromControl(const wire::control::RecoverTabletsRequest& message, RecoveryPlan& plan);
/// The server that a tablet is pulled from. Locators that cannot be read are left out.
rpc::PeerAddress sourceOf(const wire::control::PullTabletRequest& message);
wire::control::PullPhase phaseOf(MigrationTarget::Phase phase);

}  // namespace ramcore::master
