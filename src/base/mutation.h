#pragma once

#include <string_view>

#if !defined(RAMCORE_MUTATIONS)
#include "base/mutations_enabled.h"
#endif

namespace ramcore {

/// Planted bugs that prove that a check can fail. They exist only in the build preset `mutation`; a release binary
/// contains none of their names. The active one is process-wide and set once, before anything runs.
///
/// A generated header says whether they exist, and not the compiler's command line. A source that includes neither that
/// header nor this one is therefore the same in both builds, also to the compiler cache.
/// `#if defined(RAMCORE_MUTATIONS)` needs this header.
#if defined(RAMCORE_MUTATIONS)
void setMutation(std::string_view mutation);
bool mutationIs(std::string_view mutation);
#define RC_MUTATION(name) (::ramcore::mutationIs(name))
#else
#define RC_MUTATION(name) (false)
#endif

}  // namespace ramcore
