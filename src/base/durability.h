#pragma once

// Durability is part of the public API, which is where it is declared.
#include "ramcore/durability.h"
