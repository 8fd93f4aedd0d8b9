#include "base/result.h"

namespace ramcore::detail {

void resultMisused() { checkFailed("value() of a value, error() of an error", __FILE__, __LINE__, "Result"); }

}  // namespace ramcore::detail
