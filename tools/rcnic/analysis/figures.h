#pragma once

#include <string>
#include <vector>

#include "tools/rcnic/analysis/dataset.h"
#include "tools/rcnic/analysis/svg_chart.h"

namespace ramcore::rcnic {

/// A figure of one of the papers, with measured data. `name` is the name of the file without its extension.
struct PaperFigure {
  std::string name;
  Chart chart;
};

/// The figures for which the dataset has something to show.
std::vector<PaperFigure> figuresOf(const Dataset& dataset);

}  // namespace ramcore::rcnic
