#pragma once

#include <string_view>

namespace ramcore {

/// Planted bugs that prove that a check can fail. They exist only in the build preset `mutation`; a release binary
/// holds not one of their names. The name that is on is process-wide and set once, before anything runs.
#if defined(RAMCORE_MUTATIONS)
void setMutation(std::string_view mutation);
bool mutationIs(std::string_view mutation);
#define RC_MUTATION(name) (::ramcore::mutationIs(name))
#else
#define RC_MUTATION(name) (false)
#endif

}  // namespace ramcore
