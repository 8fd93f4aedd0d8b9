#pragma once

#include <string>
#include <vector>

#include "tools/rcnic/analysis/dataset.h"
#include "tools/rcnic/analysis/svg_chart.h"

namespace ramcore::rcnic {

/// The papers' figures with our data. `name` is that of the file, without its ending.
struct PaperFigure {
  std::string name;
  Chart chart;
};

/// Those for which the dataset has something to show.
std::vector<PaperFigure> figuresOf(const Dataset& dataset);

}  // namespace ramcore::rcnic
