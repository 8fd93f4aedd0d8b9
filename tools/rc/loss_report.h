#pragma once

#include <string>

#include "client/coordinator_stub.h"
#include "tools/support/json.h"

namespace ramcore::rc {

// What is said about a dead server whose tablets are not back. Texts are whole lines.

/// Whether its log has not been found as a whole.
bool isIncomplete(const client::RecoveryProgress& recovery);
/// Which tables and tablets are concerned, what is missing, and which servers it may be on.
std::string describe(const client::ClusterStatus& status, const client::RecoveryProgress& recovery);
/// How to bring back what is missing, or to go on without it.
std::string remedies(const client::ClusterStatus& status, const client::RecoveryProgress& recovery);
/// What is given up when the loss is accepted; empty without a loss_token.
std::string describeLoss(const client::ClusterStatus& status, const client::RecoveryProgress& recovery);
/// All of this as JSON, for programs.
tools::Json toJson(const client::ClusterStatus& status, const client::RecoveryProgress& recovery);

}  // namespace ramcore::rc
