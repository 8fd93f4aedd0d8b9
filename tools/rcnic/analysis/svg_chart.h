#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/rcnic/analysis/statistics.h"

namespace ramcore::rcnic {

/// A line chart as SVG: nothing but text.
struct Chart {
  enum class Scale : uint8_t { Linear, PowersOfTwo, Decades };
  struct Point {
    double x = 0;
    Quartiles y;  ///< the line goes through the medians; a bar shows the quartiles
  };
  struct Line {
    std::string name;
    std::vector<Point> points;
  };

  std::string title;
  std::string remark;  ///< below the title
  std::string x_label;
  std::string y_label;
  Scale x_scale = Scale::Linear;
  Scale y_scale = Scale::Linear;
  std::vector<Line> lines;
};

/// Points that a logarithmic scale cannot show (zero and below) are left out. Empty text if there is none left.
std::string svgOf(const Chart& chart);

}  // namespace ramcore::rcnic
