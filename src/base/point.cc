#include "base/point.h"

#if defined(RAMCORE_MUTATIONS)

namespace ramcore {
namespace {

void (*g_reached)(Point) = nullptr;

}  // namespace

void setPointHook(void (*reached)(Point)) { g_reached = reached; }

void pointReached(Point point) {
  if (g_reached != nullptr) g_reached(point);
}

}  // namespace ramcore
#endif
