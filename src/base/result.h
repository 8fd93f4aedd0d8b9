#pragma once

// Result is part of the public API, which is where it is declared.
#include "base/check.h"
#include "ramcore/result.h"
