#include "base/mutation.h"

#if defined(RAMCORE_MUTATIONS)
#include <string>

namespace ramcore {
namespace {
std::string& chosen() {
  static std::string mutation;
  return mutation;
}
}  // namespace

void setMutation(std::string_view mutation) { chosen() = mutation; }
bool mutationIs(std::string_view mutation) { return chosen() == mutation; }

}  // namespace ramcore
#endif
