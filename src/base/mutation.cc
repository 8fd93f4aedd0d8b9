#include "base/mutation.h"

#if defined(RAMCORE_MUTATIONS)
#include <cstdlib>
#include <string>

namespace ramcore {
namespace {
std::string& chosen() {
  // The environment names the defect for the processes of a cluster.
  static std::string mutation = std::getenv("RAMCORE_MUTATION") != nullptr ? std::getenv("RAMCORE_MUTATION") : "";
  return mutation;
}
}  // namespace

void setMutation(std::string_view mutation) { chosen() = mutation; }
bool mutationIs(std::string_view mutation) { return chosen() == mutation; }

}  // namespace ramcore
#endif
