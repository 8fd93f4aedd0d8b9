#pragma once

#include <string>

#include "client/coordinator_stub.h"

namespace ramcore::rcmigrate {

/// Finds a server by name or by number; dead ones are not found. Failure: none or several have this name.
Outcome<ServerId> findServer(const client::ClusterStatus& status, const std::string& name_or_id);

/// Finds a tablet by number.
Outcome<client::TabletInfo> findTablet(const client::ClusterStatus& status, uint64_t id);

/// The name of a server, or its number if it has none.
std::string nameOf(const client::ClusterStatus& status, ServerId id);

/// "running", "done", ...
std::string nameOf(client::MigrationStatus::State state);

/// The tablets of table `name` (empty: of all tables) as a table for people or as JSON, ending with a newline.
std::string listTablets(const client::ClusterStatus& status, const std::string& name, bool as_json);

/// The hash in the middle of a range: the first of the upper half.
KeyHash middleOf(const HashRange& range);

}  // namespace ramcore::rcmigrate
