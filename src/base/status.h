#pragma once

// Status is part of the public API, which is where it is declared.
#include "ramcore/status.h"
