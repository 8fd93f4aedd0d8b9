#pragma once

#include "tools/server/server_settings.h"

namespace ramcore::tools {

class Command;

/// Declares the flags of ramcore-server, those of all daemons included. Borrows `settings`, which has the defaults.
void addServerFlags(Command& app, ServerSettings& settings);

}  // namespace ramcore::tools
