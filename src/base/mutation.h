#pragma once

#include <string_view>

#if !defined(RAMCORE_MUTATIONS)
#include "base/mutations_enabled.h"
#endif

namespace ramcore {

/// Planted bugs that prove that a check can fail. They exist only in the build preset `mutation`; a release binary
/// holds not one of their names. The name that is on is process-wide and set once, before anything runs.
///
/// Whether they exist is said by a generated header and not by the compiler's command, so that what includes neither
/// that nor this is the same in both builds, also to the compiler cache. `#if defined(RAMCORE_MUTATIONS)` needs this
/// header.
#if defined(RAMCORE_MUTATIONS)
void setMutation(std::string_view mutation);
bool mutationIs(std::string_view mutation);
#define RC_MUTATION(name) (::ramcore::mutationIs(name))
#else
#define RC_MUTATION(name) (false)
#endif

}  // namespace ramcore
