#include "tools/rcnic/analysis/svg_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string_view>

namespace ramcore::rcnic {
namespace {

constexpr std::array kColors = {"#1b6ca8", "#d1495b", "#3a7d44", "#8e5ea2", "#b5651d", "#4d4d4d"};
constexpr std::array kDashes = {"", "6 3", "2 3"};
constexpr double kWidth = 640;
constexpr double kHeight = 380;
constexpr double kLeft = 70;
constexpr double kRight = 20;
constexpr double kTop = 52;
constexpr double kBottom = 48;
constexpr double kLegendRow = 18;
constexpr size_t kLegendColumns = 2;
constexpr int kLinearTicks = 6;

__attribute__((format(printf, 2, 3))) void draw(std::string& out, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  out += text;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// Maps values to places along one side of the picture.
class Axis {
 public:
  Axis(Chart::Scale scale, double low, double high, double begin, double end)
      : scale_(scale), begin_(begin), end_(end) {
    if (scale_ == Chart::Scale::Linear) {
      // The axis goes from zero to a number that divides into round ticks.
      low_ = 0;
      const double raw = std::max(high, 1e-9) / kLinearTicks;
      const double decade = std::pow(10, std::floor(std::log10(raw)));
      const double digit = raw / decade;
      step_ = decade * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
      high_ = step_ * std::ceil(high / step_ - 1e-9);
      if (high_ <= low_) high_ = low_ + step_;
      return;
    }
    low_ = std::floor(onScale(low) + 1e-9);
    high_ = std::max(std::ceil(onScale(high) - 1e-9), low_ + 1);
    step_ = 1;
  }

  bool shows(double value) const { return std::isfinite(value) && (scale_ == Chart::Scale::Linear || value > 0); }
  double at(double value) const {
    const double share = (onScale(value) - low_) / (high_ - low_);
    return begin_ + std::clamp(share, 0.0, 1.0) * (end_ - begin_);
  }
  std::vector<double> ticks() const {
    std::vector<double> values;
    for (double mark = low_; mark <= high_ + step_ / 2; mark += step_) values.push_back(offScale(mark));
    return values;
  }

 private:
  double onScale(double value) const {
    if (scale_ == Chart::Scale::Linear) return value;
    return scale_ == Chart::Scale::PowersOfTwo ? std::log2(value) : std::log10(value);
  }
  double offScale(double mark) const {
    if (scale_ == Chart::Scale::Linear) return mark;
    return std::pow(scale_ == Chart::Scale::PowersOfTwo ? 2 : 10, mark);
  }

  const Chart::Scale scale_;
  const double begin_;
  const double end_;
  double low_ = 0;
  double high_ = 1;
  double step_ = 1;
};

std::string tickText(double value) {
  char text[32];
  if (value >= 1024 && std::fmod(value, 1024) == 0) {
    std::snprintf(text, sizeof text, "%gK", value / 1024);
  } else if (value >= 10000) {
    std::snprintf(text, sizeof text, value >= 1e6 ? "%gM" : "%gk", value >= 1e6 ? value / 1e6 : value / 1e3);
  } else {
    std::snprintf(text, sizeof text, "%.4g", value);
  }
  return text;
}

struct Extent {
  double low = INFINITY;
  double high = -INFINITY;
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

void drawGrid(std::string& out, const Axis& x, const Axis& y) {
  for (const double tick : x.ticks()) {
    draw(out,
         "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#e4e4e4\"/>"
         "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
         x.at(tick), kTop, x.at(tick), kHeight - kBottom, x.at(tick), kHeight - kBottom + 15, tickText(tick).c_str());
  }
  for (const double tick : y.ticks()) {
    draw(out,
         "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#e4e4e4\"/>"
         "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
         kLeft, y.at(tick), kWidth - kRight, y.at(tick), kLeft - 5, y.at(tick) + 4, tickText(tick).c_str());
  }
}

void drawLine(std::string& out, const Chart::Line& line, size_t index, const Axis& x, const Axis& y) {
  const char* const color = kColors[index % kColors.size()];
  std::string path;
  for (const Chart::Point& point : line.points) {
    if (!x.shows(point.x) || !y.shows(point.y.median)) continue;
    draw(path, "%.1f,%.1f ", x.at(point.x), y.at(point.y.median));
    if (y.shows(point.y.low)) {
      draw(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-opacity=\"0.45\"/>\n",
           x.at(point.x), y.at(point.y.low), x.at(point.x), y.at(point.y.high), color);
    }
    draw(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>\n", x.at(point.x), y.at(point.y.median), color);
  }
  // The length of the path has no bound, and draw() has a buffer of fixed size.
  out += "<polyline points=\"" + path + "\" fill=\"none\" stroke-width=\"1.8\" stroke=\"" + color +
         "\" stroke-dasharray=\"" + kDashes[index % kDashes.size()] + "\"/>\n";
}

void drawLegend(std::string& out, const Chart& chart) {
  const double column = (kWidth - kLeft) / static_cast<double>(kLegendColumns);
  for (size_t index = 0; index < chart.lines.size(); ++index) {
    const double x = kLeft + column * static_cast<double>(index % kLegendColumns);
    const double y = kHeight + 6 + kLegendRow * static_cast<double>(index / kLegendColumns);
    draw(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke-width=\"1.8\" stroke=\"%s\" ", x, y, x + 24,
         y, kColors[index % kColors.size()]);
    draw(out, "stroke-dasharray=\"%s\"/><text x=\"%.1f\" y=\"%.1f\">", kDashes[index % kDashes.size()], x + 30, y + 4);
    out += escaped(chart.lines[index].name) + "</text>\n";
  }
}

}  // namespace

std::string svgOf(const Chart& chart) {
  Extent x_extent;
  Extent y_extent;
  for (const Chart::Line& line : chart.lines) {
    for (const Chart::Point& point : line.points) {
      const bool is_shown = std::isfinite(point.x) && std::isfinite(point.y.median) &&
                            (chart.x_scale == Chart::Scale::Linear || point.x > 0) &&
                            (chart.y_scale == Chart::Scale::Linear || point.y.median > 0);
      if (!is_shown) continue;
      x_extent.take(point.x);
      y_extent.take(point.y.median);
      if (point.y.high >= point.y.median && std::isfinite(point.y.high)) y_extent.take(point.y.high);
      if (point.y.low > 0 && point.y.low <= point.y.median) y_extent.take(point.y.low);
    }
  }
  if (x_extent.low > x_extent.high) return {};
  const Axis x(chart.x_scale, x_extent.low, x_extent.high, kLeft, kWidth - kRight);
  const Axis y(chart.y_scale, y_extent.low, y_extent.high, kHeight - kBottom, kTop);
  const size_t legend_rows = (chart.lines.size() + kLegendColumns - 1) / kLegendColumns;
  const double height = kHeight + kLegendRow * static_cast<double>(legend_rows) + 6;
  std::string out;
  draw(out,
       "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
       "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"%.0f\" height=\"%.0f\" fill=\"white\"/>\n",
       kWidth, height, kWidth, height, kWidth, height);
  draw(out, "<text x=\"%.0f\" y=\"20\" text-anchor=\"middle\" font-weight=\"bold\">", kWidth / 2);
  out += escaped(chart.title) + "</text>\n";
  draw(out, "<text x=\"%.0f\" y=\"37\" text-anchor=\"middle\" fill=\"#777\">", kWidth / 2);
  out += escaped(chart.remark) + "</text>\n";
  drawGrid(out, x, y);
  for (size_t index = 0; index < chart.lines.size(); ++index) drawLine(out, chart.lines[index], index, x, y);
  draw(out, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">", (kLeft + kWidth - kRight) / 2, kHeight - 12);
  out += escaped(chart.x_label) + "</text>\n";
  draw(out, "<text transform=\"translate(16,%.0f) rotate(-90)\" text-anchor=\"middle\">", kHeight / 2);
  out += escaped(chart.y_label) + "</text>\n";
  drawLegend(out, chart);
  return out + "</svg>\n";
}

}  // namespace ramcore::rcnic
