#pragma once

#include <cstdint>
#include <string>

#include "base/ids.h"

namespace ramcore {

/// "0x000123...": a number that is drawn at random, as people see it in logs, messages and the status.
std::string hexText(uint64_t value);
inline std::string textOf(ClusterId id) { return hexText(id.value); }

}  // namespace ramcore
