#pragma once

#include <string>

#include "tools/rcnic/analysis/dataset.h"

namespace ramcore::rcnic {

/// "send zero-copy 32 x 128 B", "write inline 1 x 8 B, signal every 64": what a shape is; what most shapes have in
/// common is left out.
std::string describe(const Shape& shape);
/// One experiment as text: a line for each shape, with medians, quartiles and where the sender's time went.
std::string tableOf(const Dataset& dataset, const std::string& experiment);

}  // namespace ramcore::rcnic
