#pragma once

#include <memory>

#include "runtime/epoch.h"

namespace ramcore::runtime {

/// Rcu over liburcu's QSBR flavour. liburcu knows one domain per process: a grace period waits for the threads of all
/// objects, which is correct and only matters when several servers share a process. Starts no thread.
std::unique_ptr<Rcu> makeUrcu();

}  // namespace ramcore::runtime
